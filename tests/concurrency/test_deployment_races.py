"""Nodes of one deployment that start at the same moment: one deployment, no duplicate, nobody fails."""

from datetime import timedelta

import pytest
from django.db import transaction

from jobexec.models import Deployment, DeploymentRegistration, ExecutorNode, JobDefinition
from jobexec.operations import (
    deploy,
    register_own_deployment,
    registered_deployments,
    retire_deployments,
    retire_registrations,
)
from jobexec.operations.nodes.deployments import write_job_definitions
from jobexec.operations.nodes.leases import NodeProfile, register_node
from tests.support.threads import together

pytestmark = pytest.mark.transactional
NODES = ("berlin", "paris", "rome")
HANDLERS = ("orders.pay", "orders.ship", "orders.tell")


def start_up(alias, node):
    columns = {"category": "default", "priority": 0}
    write_job_definitions([{"id": name, "handler_type": name, **columns} for name in HANDLERS], using=alias)
    deploy("shop:1", HANDLERS, using=alias)
    register_own_deployment("shop:1", node, using=alias)


@pytest.mark.gate
def test_nodes_that_start_together_make_one_deployment(alias):
    for _ in range(3):
        together(alias, *(lambda n=node: start_up(alias, n) for node in NODES))
        assert Deployment.objects.using(alias).get().handlers == sorted(HANDLERS)
        assert sorted(JobDefinition.objects.using(alias).values_list("id", flat=True)) == sorted(HANDLERS)
        assert [registered_deployments(node, using=alias) for node in NODES] == [["shop:1"]] * 3
        assert DeploymentRegistration.objects.using(alias).count() == 3
        for table in (DeploymentRegistration, Deployment, JobDefinition):
            table.objects.using(alias).all().delete()


def begin(alias, node):
    """As an executor starts: all in one transaction."""
    with transaction.atomic(alias):
        register_node(alias, NodeProfile(node, deployment="shop:2"), timedelta(seconds=30))
        deploy("shop:2", HANDLERS, using=alias)
        register_own_deployment("shop:2", node, using=alias)


@pytest.mark.gate
def test_a_node_that_starts_and_who_retires_do_not_harm_each_other(alias):
    for _ in range(5):
        deploy("shop:1", HANDLERS, using=alias)
        deploy("shop:2", HANDLERS, using=alias)
        register_own_deployment("shop:2", "berlin", using=alias)
        together(
            alias,
            lambda: begin(alias, "berlin"),
            lambda: retire_deployments(["shop:1", "shop:2"], using=alias),
            lambda: retire_registrations(older_than=timedelta(days=-1), using=alias),
        )
        node = ExecutorNode.objects.using(alias).get()
        assert "shop:2" in registered_deployments(node.name, using=alias)
        assert set(registered_deployments(node.name, using=alias)) == set(
            Deployment.objects.using(alias).values_list("pk", flat=True)
        )
        for table in (ExecutorNode, DeploymentRegistration, Deployment):
            table.objects.using(alias).all().delete()
