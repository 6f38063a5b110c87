"""Nodes with different code beside each other: each takes what is its own, and what it does not know costs nothing."""

from datetime import timedelta

import pytest

from jobexec.models import DeadLetterJob, DeploymentRegistration, Job, JobLog, TimerJob
from jobexec.operations import find_job
from tests.support.factories import make_job, table_of, tables_of
from tests.support.waiting import until

pytestmark = [pytest.mark.transactional, pytest.mark.slow, pytest.mark.databases("postgresql", "mariadb")]

EXTRA = "tests.process.extra"


@pytest.fixture
def enqueue_extra(alias, trace):
    """A function that makes a job whose handler only executors with the app `EXTRA` know."""

    def make(text, **columns):
        arguments = {"args": [str(trace.path), text], "kwargs": {}}
        return make_job(alias, handler_type=f"{EXTRA}.jobs.only_here", handler_configuration=arguments, **columns)

    return make


def test_each_node_takes_the_jobs_of_its_own_deployment(alias, run, enqueue, enqueue_extra, trace):
    for _ in range(10):
        enqueue("note", "shop", deployment_id="shop:1")
        enqueue_extra("stock", deployment_id="stock:1")
        enqueue("note", "anybody")
    nobody = enqueue("note", "nobody", deployment_id="gone:1")
    shop = run("--node", "one", "--deployment-aware", DEPLOYMENT="shop:1")
    stock = run("--node", "two", "--deployment-aware", DEPLOYMENT="stock:1", apps=[EXTRA])
    until(lambda: len(trace.lines()) == 30 and tables_of(alias) == {nobody.pk: [Job]})
    ran = {tuple(line.split()) for line in trace.lines()}
    assert {pid for text, pid in ran if text == "shop"} == {str(shop.pid)}
    assert {pid for text, pid in ran if text == "stock"} == {str(stock.pid)}
    assert {pid for text, pid in ran if text == "anybody"} <= {str(shop.pid), str(stock.pid)}
    assert set(DeploymentRegistration.objects.using(alias).values_list("deployment_id", "node_name")) == {
        ("shop:1", "one"),
        ("stock:1", "two"),
    }
    assert not JobLog.objects.using(alias).exclude(state="successful").exists()


def test_what_a_node_does_not_know_waits_for_one_that_does(alias, run, enqueue, enqueue_extra, trace):
    job = enqueue_extra("known there")
    ignorant = run("--node", "one", UNKNOWN_HANDLER_DELAY=0.2)
    until(lambda: TimerJob.objects.using(alias).filter(pk=job.pk, unknown_since__isnull=False).exists())
    enqueue("note", "go on")
    until(lambda: trace.lines() == [f"go on {ignorant.pid}"])
    row = find_job(job.pk, alias)
    assert (row.retries, row.attempts) == (3, 0)
    knowing = run("--node", "two", apps=[EXTRA], UNKNOWN_HANDLER_DELAY=0.2)
    until(lambda: len(trace.lines()) == 2 and table_of(alias, job) is None)
    assert trace.lines()[1:] == [f"known there {knowing.pid}"]
    logged = JobLog.objects.using(alias).filter(job_id=job.pk).values_list("state", "attempt", "retries")
    assert list(logged) == [("successful", 1, 3)]


@pytest.mark.nightly
def test_what_nobody_knows_is_a_dead_letter_when_its_time_is_over(alias, run, enqueue_extra, trace):
    job = enqueue_extra("never")
    for node in ("one", "two"):
        run("--node", node, UNKNOWN_HANDLER_DELAY=0.1, UNKNOWN_HANDLER_TIMEOUT=2)
    until(lambda: tables_of(alias) == {job.pk: [DeadLetterJob]})
    dead = DeadLetterJob.objects.using(alias).get()
    # Each of the two nodes may have read the clock of the database a little earlier or later.
    assert dead.died_at - dead.unknown_since >= timedelta(seconds=1.9)
    assert f"{EXTRA}.jobs.only_here" in dead.exception_message
    assert (dead.attempts, trace.lines()) == (0, [])
