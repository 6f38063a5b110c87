"""What becomes of external jobs is counted where it happens."""

from datetime import timedelta

import pytest

from jobexec import external_job
from jobexec.exceptions import DoNotRetry
from jobexec.executor.execute_now import execute_now
from jobexec.gateways.worker_registry.events import Events
from jobexec.gateways.worker_registry.workers import Registry
from jobexec.handlers import registry
from jobexec.handlers.decorator import job
from jobexec.models import DeadLetterJob, ExternalWorkerJob, Job
from jobexec.operations import cancel, external
from jobexec.operations.external.types import Fetch

pytestmark = pytest.mark.transactional


@pytest.fixture(autouse=True)
def engines(settings, alias):
    settings.JOBEXEC = {"ENGINES": {alias: {}}}


@pytest.fixture
def seen():
    registry = Registry()
    events = Events(registry)
    events.connect()
    events.connect()
    yield registry
    events.disconnect()


def made(alias, **options):
    row = external_job("payment", database=alias, **options)
    external.activate_jobs(alias, Fetch(type="payment", worker="w", timeout=timedelta(minutes=1)))
    return row.job_key


def test_created_and_completed(alias, seen):
    external.complete_external_job(alias, made(alias))
    assert seen.counts().events == {("created", "payment"): 1, ("completed", "payment"): 1}


@pytest.mark.parametrize("retries", [1, 0])
def test_failed(alias, seen, retries):
    external.fail_external_job(alias, made(alias), retries=retries, message="no")
    assert seen.counts().events["failed", "payment"] == 1


def test_an_error_that_nothing_catches(alias, seen):
    external.throw_external_error(alias, made(alias), code="E1")
    assert seen.counts().events["error_thrown", "payment"] == 1
    assert ("failed", "payment") not in seen.counts().events


def test_an_error_that_is_caught_is_one_of_its_type(alias, seen):
    with registry.isolated():

        @job(name="tests.refuse", database=alias)
        def refuse(variables, error_code, error_message): ...

        external.throw_external_error(alias, made(alias, on_error=refuse), code="E1")
    assert seen.counts().events["error_thrown", "payment"] == 1


def test_cancelled(alias, seen):
    row = external_job("payment", database=alias)
    cancel(row)
    assert not ExternalWorkerJob.objects.using(alias).exists()
    assert seen.counts().events["canceled", "payment"] == 1


def test_jobs_of_executors_are_not_counted(alias, seen):
    with registry.isolated():

        @job(name="tests.plain", database=alias)
        def plain(): ...

        plain.enqueue()
    assert seen.counts().events == {}


@pytest.mark.parametrize("ends", ["completed", "error_thrown"])
def test_what_becomes_of_the_job_that_follows_is_no_failure_of_workers(alias, seen, ends):
    with registry.isolated():

        @job(name="tests.follow", database=alias)
        def follow(variables, error_code="", error_message=""):
            raise DoNotRetry("no")

        key = made(alias, on_complete=follow, on_error=follow)
        if ends == "completed":
            external.complete_external_job(alias, key)
        else:
            external.throw_external_error(alias, key, code="E1")
        (row,) = Job.objects.using(alias)
        with pytest.raises(DoNotRetry):
            execute_now(row.pk, using=alias)
    assert DeadLetterJob.objects.using(alias).exists()
    assert seen.counts().events == {("created", "payment"): 1, (ends, "payment"): 1}
