"""Nodes of one deployment that start at the same moment: one deployment, no duplicate, nobody fails."""

import pytest

from jobexec.models import Deployment, DeploymentRegistration, JobDefinition
from jobexec.operations import deploy, register_own_deployment, registered_deployments
from jobexec.operations.deployments import write_job_definitions
from tests.support.threads import together

pytestmark = pytest.mark.transactional
NODES = ("berlin", "paris", "rome")
HANDLERS = ("orders.pay", "orders.ship", "orders.tell")


def start_up(alias, node):
    columns = {"category": "default", "priority": 0}
    write_job_definitions([{"id": name, "handler_type": name, **columns} for name in HANDLERS], using=alias)
    deploy("shop:1", HANDLERS, using=alias)
    register_own_deployment("shop:1", node, using=alias)


def test_nodes_that_start_together_make_one_deployment(alias):
    for _ in range(3):
        together(alias, *(lambda n=node: start_up(alias, n) for node in NODES))
        assert Deployment.objects.using(alias).get().handlers == sorted(HANDLERS)
        assert sorted(JobDefinition.objects.using(alias).values_list("id", flat=True)) == sorted(HANDLERS)
        assert [registered_deployments(node, using=alias) for node in NODES] == [["shop:1"]] * 3
        assert DeploymentRegistration.objects.using(alias).count() == 3
        for table in (DeploymentRegistration, Deployment, JobDefinition):
            table.objects.using(alias).all().delete()
