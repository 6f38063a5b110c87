"""What a node serves: its deployments, its range of priorities (Camunda: IndependentJobExecutionTest)."""

import pytest

from jobexec import clock
from jobexec.clock import FrozenClock
from jobexec.conf import get_settings
from jobexec.executor.nodes.node import Node
from jobexec.models import ExecutorNode
from jobexec.operations import acquire_jobs, deploy, register_deployment, release_jobs, unregister_deployment
from tests.support.factories import LOCK_TIME, make_job


@pytest.fixture
def serve(alias, configure):
    """A function that registers a node with these settings of its engine and returns it."""

    def make(**engine):
        configure(engine)
        settings = get_settings()
        node = Node(settings, settings.engine(alias), dict)
        node.register()
        return node

    return make


def taken(node):
    """The ids that the node acquires now; they are given back."""
    jobs = acquire_jobs(node.using, node.owner, 99, node.scopes[0], lock_time=LOCK_TIME).jobs
    release_jobs(node.using, jobs)
    return {job.id for job in jobs}


def test_a_node_that_is_deployment_aware_takes_what_is_registered_for_its_name(alias, serve):
    for name in ("shop:1", "other:1"):
        deploy(name, [], using=alias)
    anybodys = make_job(alias).pk
    shop, other = (make_job(alias, deployment_id=name).pk for name in ("shop:1", "other:1"))
    register_deployment("other:1", "another node", using=alias)
    node = serve(DEPLOYMENT_AWARE=True)
    assert taken(node) == {anybodys}
    register_deployment("shop:1", "here", using=alias)
    assert node.renew(), "seen with the next heartbeat"
    assert taken(node) == {anybodys, shop}
    register_deployment("other:1", "here", using=alias)
    unregister_deployment("shop:1", "here", using=alias)
    assert node.renew()
    assert taken(node) == {anybodys, other}


def test_a_node_that_is_not_takes_the_jobs_of_all_deployments(alias, serve):
    deploy("shop:1", [], using=alias)
    node = serve()
    rows = {make_job(alias).pk, make_job(alias, deployment_id="shop:1").pk}
    assert taken(node) == rows
    deploy("shop:2", [], using=alias)
    rows |= {make_job(alias, deployment_id=name).pk for name in ("shop:2", "nobody:7", "nobody:8", "nobody:8")}
    assert node.renew()
    assert taken(node) == rows, "also those of deployments that no node has ever recorded"


@pytest.mark.gate
def test_a_heartbeat_reads_the_deployments_only_if_there_are_others(alias, serve, configure, monkeypatch):
    for name in ("shop:1", "other:1"):
        deploy(name, [], using=alias)
    configure(CATEGORIES=["default", "mail"])
    node = serve()
    make_job(alias, deployment_id="shop:1")
    read, real = [], node._scope
    monkeypatch.setattr(node, "_scope", lambda: read.append(1) or real())

    def reads():
        read.clear()
        assert node.renew()
        return len(read)

    assert reads() == 0
    for name in ("aaa:1", "pop:1", "zzz:1"):  # before, between and behind those that are known
        make_job(alias, deployment_id=name)
        assert (reads(), reads()) == (1, 0)
        assert ExecutorNode.objects.using(alias).get().deployments == list(node.scope.deployments)
    assert node.scope.deployments == ("aaa:1", "other:1", "pop:1", "shop:1", "zzz:1")
    deploy("shop:2", [], using=alias)
    assert (reads(), reads()) == (1, 0)
    with FrozenClock(clock.now(alias)) as frozen:
        reads()
        frozen.tick(301)
        assert (reads(), reads()) == (1, 0), "some may have gone"
    for number in range(20):
        deploy(f"many:{number}", [], using=alias)
    assert (reads(), reads()) == (1, 1), "so many are read rather than asked for"


@pytest.mark.parametrize(("bounds", "expected"), [((None, None), {-7, 0, 7}), ((0, None), {0, 7}), ((-7, 0), {-7, 0})])
def test_the_range_of_priorities_in_the_settings(alias, serve, bounds, expected):
    rows = {make_job(alias, priority=priority).pk: priority for priority in (-7, 0, 7)}
    node = serve(PRIORITY_RANGE=bounds)
    assert {rows[pk] for pk in taken(node)} == expected
