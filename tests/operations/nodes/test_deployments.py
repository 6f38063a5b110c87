"""Deployments and which node names take their jobs."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from jobexec import clock
from jobexec.exceptions import NotAllowed
from jobexec.models import (
    JOB_TABLES,
    DeadLetterJob,
    Deployment,
    DeploymentRegistration,
    ExecutorNode,
    ExternalWorkerJob,
    JobDefinition,
    NodeState,
    SuspendedJob,
)
from jobexec.operations import (
    clean_up_history,
    deploy,
    register_deployment,
    register_own_deployment,
    registered_deployments,
    retire_deployments,
    retire_registrations,
    unregister_deployment,
)
from jobexec.operations.nodes.deployments import all_deployments, write_job_definitions
from jobexec.operations.nodes.leases import NodeProfile, register_node
from jobexec.operations.rows.move import move
from tests.support.factories import make_external, make_row

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


def versions(alias, frozen, count=3):
    for number in range(1, count + 1):
        deploy(f"shop:{number}", [], using=alias)
        frozen.tick(60)


def start_node(alias, name="berlin", deployment="shop:3"):
    profile = NodeProfile(name, deployment=deployment)
    row = register_node(alias, profile, timedelta(seconds=30))
    if deployment:
        register_own_deployment(deployment, name, using=alias)
    return row


def left(alias):
    return sorted(Deployment.objects.using(alias).values_list("pk", flat=True))


def test_what_nobody_needs_is_retired_with_its_registrations(alias, frozen):
    versions(alias, frozen)
    start_node(alias)
    result = retire_deployments(["shop:1", "shop:3", "shop:9"], using=alias)
    assert (result.changed, left(alias)) == (["shop:1"], ["shop:2", "shop:3"])
    reasons = {"shop:3": "it is in the code of a living node", "shop:9": "there is no such deployment"}
    assert result.skipped == reasons
    assert registered_deployments("berlin", using=alias) == ["shop:2", "shop:3"]


@pytest.mark.parametrize("table", JOB_TABLES)
def test_what_a_job_names_in_any_table_stays(alias, frozen, table):
    versions(alias, frozen)
    make_row(table, alias, deployment_id="shop:1")
    result = retire_deployments(["shop:1", "shop:2"], using=alias)
    assert (result.changed, result.skipped) == (["shop:2"], {"shop:1": "jobs refer to it"})


@pytest.mark.parametrize("table", [ExternalWorkerJob, SuspendedJob, DeadLetterJob])
@pytest.mark.parametrize("which", ["on_complete", "on_error"])
def test_what_follows_a_job_of_workers_keeps_its_deployment(alias, frozen, handle, table, which):
    handle(lambda variables, error_code="", error_message="": None, name="tests.after", deployment="shöp:1")
    for deployment in ("shöp:1", "shöp:2", "shöp:11"):
        deploy(deployment, [], using=alias)
    row = make_external(alias, **{which: "tests.after"}, variables={"a": "shöp:2 is newer"})
    if table is not ExternalWorkerJob:
        move(row, table)
    result = retire_deployments(["shöp:1", "shöp:2"], using=alias)
    assert (result.changed, result.skipped) == (["shöp:2"], {"shöp:1": "jobs refer to it"})


def test_what_a_living_node_was_registered_for_by_hand_stays_until_it_is_dead(alias, frozen):
    versions(alias, frozen)
    deploy("other:1", [], using=alias)
    node = start_node(alias, deployment="shop:2")
    now = clock.now(alias)
    times = {"start_time": now, "heartbeat_time": now, "lease_expiration_time": now + timedelta(seconds=30)}
    unknown = ExecutorNode.objects.using(alias).create(name="of the release before", lock_owner="it", **times)
    for deployment, name in (("other:1", "berlin"), ("shop:3", "berlin"), ("shop:1", unknown.name)):
        register_deployment(deployment, name, using=alias)
    assert not retire_deployments(left(alias), using=alias)
    ExecutorNode.objects.using(alias).filter(pk__in=[node.pk, unknown.pk]).update(state=NodeState.DEAD)
    assert len(retire_deployments(left(alias), using=alias).changed) == 4


def test_superseded_for(alias, frozen):
    versions(alias, frozen)
    deploy("other:1", [], using=alias)
    assert retire_deployments(superseded_for=timedelta(seconds=121), using=alias).changed == []
    assert retire_deployments(superseded_for=timedelta(seconds=100), using=alias).changed == ["shop:1"]
    frozen.tick(3600)
    assert retire_deployments(superseded_for=timedelta(0), using=alias).changed == ["shop:2"]
    assert left(alias) == ["other:1", "shop:3"]


def test_expected_is_one_of_both(alias):
    for arguments in ({}, {"ids": ["shop:1"], "superseded_for": timedelta(1)}):
        with pytest.raises(ValueError, match="expected either ids or superseded_for"):
            retire_deployments(**arguments, using=alias)


def test_the_registrations_of_a_node_that_is_gone(alias, frozen):
    versions(alias, frozen)
    node = start_node(alias)
    unregister_deployment("shop:1", "paris", using=alias)
    register_deployment("shop:2", "paris", using=alias)
    with pytest.raises(NotAllowed, match="alive"):
        retire_registrations("berlin", using=alias)
    assert retire_registrations("paris", ["shop:2", "shop:3"], using=alias) == 1
    frozen.tick(60)
    register_deployment("shop:3", "rome", using=alias)
    frozen.tick(1)
    assert retire_registrations(older_than=timedelta(seconds=30), using=alias) == 0
    ExecutorNode.objects.using(alias).filter(pk=node.pk).delete()
    assert retire_registrations(older_than=timedelta(seconds=30), using=alias) == 3
    names = DeploymentRegistration.objects.using(alias).values_list("node_name", "registered")
    assert sorted(names) == [("paris", False), ("rome", True)]
    assert retire_registrations("paris", using=alias) == 1


@pytest.mark.parametrize(("age", "kept"), [(None, 3), (timedelta(days=1), 1), (timedelta(days=9), 3)])
def test_the_cleanup_retires_by_age(alias, frozen, configure, age, kept):
    configure(DEPLOYMENT_TIME_TO_LIVE=age)
    versions(alias, frozen)
    register_own_deployment("shop:3", "a pod of last week", using=alias)
    frozen.tick(7 * 86400)
    start_node(alias)
    clean_up_history(alias)
    assert Deployment.objects.using(alias).count() == kept
    assert DeploymentRegistration.objects.using(alias).filter(node_name="berlin").count() == kept
    gone = DeploymentRegistration.objects.using(alias).exclude(node_name="berlin")
    assert gone.exists() == (kept == 3)
