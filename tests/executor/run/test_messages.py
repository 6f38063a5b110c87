"""Jobs that wait for messages: the options, and what a handler sees of its message."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest

import jobexec
from jobexec import current_job
from jobexec.clock import FrozenClock
from jobexec.exceptions import InvalidJob, JobStateError
from jobexec.executor.execute_now import execute_by_hand, execute_now
from jobexec.models import BlockedJob, Job
from jobexec.testing import ManualExecutor
from tests.support.factories import make_job, table_of

pytestmark = pytest.mark.transactional

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def frozen():
    with FrozenClock(NOW) as clock:
        yield clock


@pytest.fixture
def seen():
    return []


@pytest.fixture
def pay(alias, handle, seen):
    def pay(order=0):
        seen.append((order, current_job().message))

    return handle(pay, name="tests.pay", database=alias)


def publish(alias, key="4711", **more):
    return jobexec.publish_message("approved", key=key, using=alias, **more)


@pytest.mark.every_database
def test_the_handler_gets_the_message(alias, pay, seen, frozen):
    row = pay.using(wait_for=("approved", 4711), wait_timeout="P3D").enqueue(5)
    assert (type(row), row.waits_for, row.waits_for_key) == (BlockedJob, "approved", "4711")
    assert row.waits_until == NOW + timedelta(days=3)
    executor = ManualExecutor(alias)
    assert executor.run_until_empty() == []
    number = publish(alias, payload={"by": "ann", "sum": 1.5}, message_id="m").pk
    executor.run_until_empty()
    expected = jobexec.ReceivedMessage("approved", "4711", {"by": "ann", "sum": 1.5}, "m", number)
    assert seen == [(5, expected)]


def test_after_the_timeout_it_runs_without_one(alias, pay, seen, frozen):
    pay.using(wait_for=("approved", "4711"), wait_timeout=60).enqueue(5)
    executor = ManualExecutor(alias)
    frozen.tick(59)
    assert executor.run_until_empty() == []
    frozen.tick(1)
    executor.run_until_empty()
    assert seen == [(5, None)]


def test_advance_goes_to_the_end_of_a_wait(alias, pay, seen, frozen):
    pay.using(wait_for=("approved", "4711"), wait_timeout=HOUR).enqueue(5)
    ManualExecutor(alias).run_until_empty(advance=True)
    assert (seen, frozen.now) == ([(5, None)], NOW + HOUR)


def test_with_expires_it_is_cancelled_instead(alias, pay, seen, frozen):
    row = pay.using(wait_for=("approved", "4711"), expires=60).enqueue(5)
    assert row.waits_until == NOW + timedelta(minutes=1)
    frozen.tick(60)
    (result,) = ManualExecutor(alias, reraise=False).run_until_empty()
    assert (result.outcome, seen) == ("cancelled", [])


@pytest.mark.gate
def test_the_message_of_each_call_is_made_of_its_arguments(alias, handle, seen):
    def of(order):
        return ("approved", order) if order else None

    def pay(order):
        seen.append((order, current_job().message and current_job().message.key))

    job = handle(pay, name="tests.pay", database=alias, wait_for=of, wait_timeout=HOUR)
    one = job.enqueue(1)
    assert (one.waits_for_key, one.waits_until is None) == ("1", False)
    assert job.enqueue(0).waits_until is None
    many = job.enqueue_many([[2], [0], [3]])
    paged = job.enqueue_many(iter([[4], [0], [5]]))
    assert [row.waits_for_key for row in (*many, *paged)] == ["2", None, "3", "4", None, "5"]
    assert all((row.waits_until is None) == (row.waits_for is None) for row in (*many, *paged))
    for number in (1, 2, 3, 4, 5):
        publish(alias, number)
    ManualExecutor(alias).run_until_empty()
    assert sorted(seen) == [(0, None)] * 3 + [(number, str(number)) for number in (1, 2, 3, 4, 5)]


def test_a_unique_job_waits_once(alias, pay):
    job = pay.using(unique=True, wait_for=("approved", 1))
    first, second = job.enqueue(1), job.enqueue(1)
    assert (second.pk, second.is_duplicate) == (first.pk, True)
    assert len(job.enqueue_many([[1], [2]])) == 2
    assert BlockedJob.objects.using(alias).count() == 2


def test_an_option_of_the_function_can_be_taken_away(alias, handle, seen):
    job = handle(lambda: None, name="tests.pay", database=alias, wait_for=("approved", 1), wait_timeout=5)
    assert type(job.enqueue()) is BlockedJob
    assert type(job.using(wait_for=None, wait_timeout=None).enqueue()) is Job


@pytest.mark.parametrize("key", [7, "7", uuid.UUID(int=7)])
def test_keys(alias, pay, key):
    assert pay.using(wait_for=["approved", key]).enqueue().waits_for_key == str(key)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"wait_for": "approved"}, "wait_for: expected the name and the key"),
        ({"wait_for": ("approved",)}, "wait_for: expected the name and the key"),
        ({"wait_for": ("", 1)}, "wait_for: name: expected"),
        ({"wait_for": ("approved", None)}, "wait_for: key: expected"),
        ({"wait_for": ("approved", True)}, "wait_for: key: expected"),
        ({"wait_for": ("approved", "x" * 256)}, "wait_for: key: expected"),
        ({"wait_for": lambda: "approved"}, "tests.pay: wait_for: what .* returned: expected the name and the key"),
        ({"wait_for": ("approved", 1), "wait_timeout": "soon"}, "wait_timeout: expected a timedelta"),
        ({"wait_for": ("approved", 1), "wait_timeout": -1}, "wait_timeout: expected a timedelta"),
        ({"wait_timeout": 60}, "wait_timeout: only valid with the option wait_for"),
        ({"wait_fro": 60}, "Did you mean 'wait_for'"),
    ],
)
def test_bad_options(alias, pay, options, words):
    with pytest.raises(InvalidJob, match=words):
        pay.using(**options).enqueue()
    assert not BlockedJob.objects.using(alias).exists()


@pytest.mark.parametrize("columns", [{"waits_for_key": "1"}, {"waits_for": "a"}, {"waits_until": NOW}])
def test_half_a_message(alias, columns):
    with pytest.raises(InvalidJob, match="waits_"):
        make_job(alias, **columns)


def test_async_handlers_get_it_too(alias, handle, seen):
    async def pay(context):
        seen.append(context.message.payload)

    handle(pay, name="tests.pay", database=alias).using(wait_for=("approved", 1)).enqueue()
    publish(alias, 1, payload="yes")
    ManualExecutor(alias).run_until_empty()
    assert seen == ["yes"]


def test_execute_now_does_not_wait(alias, pay, seen):
    row = pay.using(wait_for=("approved", "4711")).enqueue(5)
    with pytest.raises(JobStateError, match="waits for the message approved with the key 4711"):
        execute_by_hand(row.pk, using=alias)
    assert table_of(alias, row) is BlockedJob
    execute_now(row.pk, using=alias)
    assert seen == [(5, None)]


def test_a_retry_after_execute_now_does_not_wait_again(alias, handle):
    def breaks():
        raise ValueError

    row = handle(breaks, name="tests.pay", database=alias, retries="R3/PT0S", wait_for=("approved", 1)).enqueue()
    with pytest.raises(ValueError, match=r"^$"):
        execute_now(row.pk, using=alias)
    assert table_of(alias, row) is not BlockedJob


def test_what_follows_an_external_job_cannot_wait(alias, handle):
    follow = handle(lambda variables: None, name="tests.follow", wait_for=("approved", 1))
    with pytest.raises(InvalidJob, match=r"tests\.follow waits for a message"):
        jobexec.external_job("charge", on_complete=follow, database=alias)
