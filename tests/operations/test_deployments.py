"""Deployments and which node names take their jobs."""

from datetime import UTC, datetime

import pytest
from django.db import transaction

from jobexec.models import Deployment, DeploymentRegistration, JobDefinition
from jobexec.operations import (
    deploy,
    register_deployment,
    register_own_deployment,
    registered_deployments,
    unregister_deployment,
)
from jobexec.operations.deployments import all_deployments, write_job_definitions

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_the_first_node_records_a_deployment_and_the_last_its_handlers(alias, frozen):
    deploy("shop:1", ["b", "a"], using=alias)
    frozen.tick(60)
    deploy("shop:1", {"a", "c"}, using=alias)
    row = Deployment.objects.using(alias).get()
    assert (row.id, row.name, row.version, row.deploy_time) == ("shop:1", "shop", "1", NOW)
    assert row.handlers == ["a", "c"]


@pytest.mark.parametrize("name", ["", "shop", "shop:", ":1"])
def test_a_deployment_is_a_name_and_a_version(alias, name):
    with pytest.raises(ValueError, match="expected 'name:version'"):
        deploy(name, [], using=alias)


def test_a_node_takes_its_own_and_older_versions(alias, frozen):
    for name in ("shop:1", "shop:2", "other:1", "shop:3"):
        deploy(name, [], using=alias)
        frozen.tick(1)
    register_own_deployment("shop:2", "berlin", using=alias)
    assert registered_deployments("berlin", using=alias) == ["shop:1", "shop:2"]
    assert registered_deployments("paris", using=alias) == []
    assert all_deployments(using=alias) == ["other:1", "shop:1", "shop:2", "shop:3"]


def test_an_operators_word_survives_a_restart(alias):
    deploy("shop:1", [], using=alias)
    register_own_deployment("shop:1", "berlin", using=alias)
    unregister_deployment("shop:1", "berlin", using=alias)
    register_own_deployment("shop:1", "berlin", using=alias)
    assert registered_deployments("berlin", using=alias) == []
    register_deployment("shop:1", "berlin", using=alias)
    assert registered_deployments("berlin", using=alias) == ["shop:1"]
    assert DeploymentRegistration.objects.using(alias).count() == 1


def test_an_operator_may_speak_before_the_node_was_ever_there(alias):
    deploy("shop:1", [], using=alias)
    unregister_deployment("shop:1", "berlin", using=alias)
    register_own_deployment("shop:1", "berlin", using=alias)
    assert registered_deployments("berlin", using=alias) == []


@pytest.mark.parametrize("verb", [register_deployment, unregister_deployment, register_own_deployment])
def test_unknown_deployments_are_refused(alias, verb):
    with pytest.raises(Deployment.DoesNotExist):
        verb("shop:9", "berlin", using=alias)


def test_job_definitions_are_written_and_overwritten(alias, frozen):
    one = {"id": "a", "handler_type": "a", "category": "default", "priority": 0}
    write_job_definitions([one, {**one, "id": "b"}, {**one, "id": "B"}], using=alias)
    frozen.tick(60)
    write_job_definitions([{**one, "priority": 7}, {**one, "id": "c"}], using=alias)
    written = JobDefinition.objects.using(alias).filter(id__in=["a", "b", "B", "c"])
    rows = {row.id: (row.priority, row.last_registered == NOW) for row in written}
    assert rows == {"a": (7, False), "b": (0, True), "B": (0, True), "c": (0, False)}
    write_job_definitions([], using=alias)


def test_a_deployment_that_is_removed_is_nobodys_and_only_when_that_is_committed(alias):
    deploy("shop:1", [], using=alias)
    register_own_deployment("shop:1", "berlin", using=alias)
    with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
        Deployment.objects.using(alias).get().delete()
        assert registered_deployments("berlin", using=alias) == []
        raise ZeroDivisionError
    assert registered_deployments("berlin", using=alias) == ["shop:1"]
    Deployment.objects.using(alias).get().delete()
    assert registered_deployments("berlin", using=alias) == []
    assert not DeploymentRegistration.objects.using(alias).exists()
