"""Messages: which jobs receive them, what they wait for afterwards, and how waits end."""

from datetime import timedelta

import pytest

from jobexec import clock
from jobexec.models import BlockedJob, DeadLetterJob, Job, Message, SuspendedJob, TimerJob
from jobexec.operations import (
    activate,
    cancel,
    clean_up_history,
    move_to_dead_letter,
    publish_message,
    requeue,
    retry_now,
    set_due_date,
    set_priority,
    suspend,
)
from jobexec.operations.messages import deliver as deliver_module
from jobexec.operations.messages.deliver import deliver, next_delivery
from jobexec.operations.resources.promote import blocked_resources, promote
from jobexec.operations.rows import move_statement
from jobexec.operations.settle.fail import fail_job
from jobexec.operations.values.messages import ReceivedMessage
from tests.support.factories import a_failure, a_run, acquire, make_job, reload, table_of

pytestmark = pytest.mark.every_database
HOUR = timedelta(hours=1)


@pytest.fixture(params=["statement", "portable"])
def form(request, monkeypatch):
    """Both forms in which rows move."""
    if request.param == "portable":
        monkeypatch.setattr(move_statement, "is_possible", lambda using: False)


def waiting(alias, key="4711", name="approved", **columns):
    return make_job(alias, waits_for=name, waits_for_key=key, **columns)


def publish(alias, key="4711", name="approved", **more):
    return publish_message(name, key=key, using=alias, **more)


def rounds(alias, limit=100):
    """Do what there is to do; returns how many jobs received a message, and how many waits ended."""
    received = ended = 0
    while True:
        done = deliver(alias, limit)
        received, ended = received + done.received, ended + done.ended
        if not done.more:
            return received, ended


def message_of(row):
    return ReceivedMessage.read(row.message) if row.message else None


def test_a_job_waits_for_its_message(alias, form):
    row = waiting(alias)
    assert type(row) is BlockedJob
    assert rounds(alias) == (0, 0)
    assert acquire(alias) == []
    published = publish(alias, payload={"by": "ann"}, message_id="m1")
    assert acquire(alias) == []
    assert rounds(alias) == (1, 0)
    (job,) = acquire(alias)
    assert job.id == row.pk
    assert ReceivedMessage.read(job.message) == ReceivedMessage("approved", "4711", {"by": "ann"}, "m1", published.pk)
    assert not Message.objects.using(alias).exists()


def test_only_its_message(alias):
    row = waiting(alias, tenant_id="a")
    publish(alias, tenant_id="a", key="4712")
    publish(alias, tenant_id="a", name="Approved")
    publish(alias)
    assert rounds(alias) == (0, 0)
    assert table_of(alias, row) is BlockedJob


def test_every_job_that_waits_receives_it_in_pages(alias, form):
    rows = [waiting(alias) for _ in range(7)]
    publish(alias, payload=5)
    assert deliver(alias, 3).received == 3
    assert rounds(alias, 3) == (4, 0)
    assert {table_of(alias, row) for row in rows} == {Job}


def test_without_ttl_it_is_not_kept(alias):
    publish(alias)
    assert rounds(alias) == (0, 0)
    assert not Message.objects.using(alias).exists()
    row = waiting(alias)
    assert rounds(alias) == (0, 0)
    assert table_of(alias, row) is BlockedJob


def test_with_ttl_it_is_kept_for_those_that_come_later(alias, frozen, form):
    publish(alias, ttl="PT1H", payload="first")
    publish(alias, ttl="PT2H", payload="second")
    assert rounds(alias) == (0, 0)
    rows = [waiting(alias), waiting(alias)]
    assert rounds(alias) == (2, 0)
    assert {message_of(reload(alias, row)).payload for row in rows} == {"first"}
    assert Message.objects.using(alias).get(payload="first").delivered == 2
    frozen.tick(HOUR)
    later = waiting(alias)
    assert rounds(alias) == (1, 0)
    assert message_of(reload(alias, later)).payload == "second"
    frozen.tick(HOUR)
    last = waiting(alias)
    assert rounds(alias) == (0, 0)
    assert table_of(alias, last) is BlockedJob


@pytest.mark.parametrize("before", [timedelta(microseconds=1), timedelta(0)])
def test_the_moment_at_which_it_is_not_kept_any_more(alias, frozen, before):
    """It counts when the job has begun to wait, not when an executor looks."""
    row = publish(alias, ttl=0.5)
    assert rounds(alias) == (0, 0)
    frozen.tick(timedelta(seconds=0.5) - before)
    job = waiting(alias)
    frozen.tick(HOUR)
    clean_up_history(alias)
    assert rounds(alias) == ((1, 0) if before else (0, 0))
    assert (message_of(reload(alias, job)) is not None) is bool(before)
    frozen.tick(HOUR)
    clean_up_history(alias)
    assert not Message.objects.using(alias).filter(pk=row.pk).exists()


@pytest.mark.parametrize(
    ("later", "receives"), [(timedelta(minutes=1), True), (timedelta(minutes=1, microseconds=1), False)]
)
def test_what_is_not_delivered_yet_reaches_jobs_of_the_next_minute(alias, frozen, later, receives):
    """As clocks differ; also if it is not kept, or not kept for so long."""
    publish(alias, ttl=1 if receives else None)
    frozen.tick(later)
    row = waiting(alias)
    assert rounds(alias) == (int(receives), 0)
    assert (table_of(alias, row) is Job) is receives


def test_a_wait_ends(alias, frozen, form):
    row = waiting(alias, waits_until=clock.now(alias) + HOUR)
    assert rounds(alias) == (0, 0)
    assert next_delivery(alias) == clock.now(alias) + HOUR
    frozen.tick(HOUR - timedelta(seconds=1))
    assert rounds(alias) == (0, 0)
    frozen.tick(timedelta(seconds=1))
    assert rounds(alias) == (0, 1)
    (job,) = acquire(alias)
    assert (job.id, job.message) == (row.pk, None)


def test_a_job_that_expires_goes_on_to_be_cancelled(alias, frozen):
    row = waiting(alias, expires_at=clock.now(alias) + HOUR, waits_until=clock.now(alias) + 2 * HOUR)
    frozen.tick(HOUR)
    assert rounds(alias) == (0, 1)
    assert table_of(alias, row) is Job


def test_then_it_waits_for_its_date(alias, frozen, form):
    due = clock.now(alias) + HOUR
    rows = [waiting(alias, due_date=due), waiting(alias, due_date=due, resource=None, key="other")]
    publish(alias)
    assert rounds(alias) == (1, 0)
    assert [table_of(alias, row) for row in rows] == [TimerJob, BlockedJob]
    frozen.tick(HOUR)
    assert rounds(alias) == (0, 0)


def test_then_it_waits_for_its_resource(alias, configure, form):
    configure(RESOURCES={"pay.example": {"limit": 1}})
    first, second = waiting(alias, resource="pay.example"), waiting(alias, resource="pay.example")
    third = make_job(alias, resource="pay.example")
    assert promote(alias, blocked_resources(alias), 10).moved == 1
    assert table_of(alias, third) is Job
    publish(alias)
    assert rounds(alias) == (2, 0)
    assert {table_of(alias, row) for row in (first, second)} == {BlockedJob}
    assert promote(alias, ["pay.example"], 10).moved == 0
    cancel(third.pk, using=alias)
    assert promote(alias, ["pay.example"], 10).moved == 1
    assert message_of(reload(alias, first)).name == "approved"


def test_it_ranks_from_its_release(alias, frozen, form):
    early = waiting(alias)
    frozen.tick(HOUR)
    plain = make_job(alias)
    frozen.tick(HOUR)
    publish(alias)
    rounds(alias)
    assert [job.id for job in acquire(alias)] == [plain.pk, early.pk]


def test_a_suspended_job_receives_it_and_stays(alias, form):
    row = waiting(alias)
    suspend(row.pk, using=alias)
    publish(alias)
    assert rounds(alias) == (1, 0)
    assert table_of(alias, row) is SuspendedJob
    activate(row.pk, using=alias)
    assert table_of(alias, row) is Job
    assert message_of(reload(alias, row)).key == "4711"


def test_activated_it_waits_again(alias, form, frozen):
    row = waiting(alias, waits_until=clock.now(alias) + HOUR)
    rounds(alias)
    suspend(row.pk, using=alias)
    frozen.tick(2 * HOUR)
    assert rounds(alias) == (0, 0)
    activate(row.pk, using=alias)
    assert table_of(alias, row) is BlockedJob
    assert rounds(alias) == (0, 1)
    assert table_of(alias, row) is Job


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("scope", [False, True])
def test_what_was_kept_when_it_began_to_wait_is_not_lost_by_a_suspension(alias, form, frozen, scope, count):
    publish(alias, ttl=HOUR, payload="kept")
    assert rounds(alias) == (0, 0)
    rows = [waiting(alias, process_instance_id="p") for _ in range(count)]
    target = {"process_instance_id": "p"} if scope else {"target": [row.pk for row in rows]}
    suspend(**target, using=alias)
    frozen.tick(2 * HOUR)
    clean_up_history(alias)
    assert not Message.objects.using(alias).exists()
    activate(**target, using=alias)
    assert rounds(alias) == (0, 0)
    assert {table_of(alias, row) for row in rows} == {Job}
    assert {message_of(reload(alias, row)).payload for row in rows} == {"kept"}


@pytest.mark.parametrize("count", [1, 2])
def test_what_was_kept_when_it_was_requeued_is_not_lost_by_a_suspension(alias, form, frozen, count):
    rows = [waiting(alias, process_instance_id="p") for _ in range(count)]
    move_to_dead_letter([row.pk for row in rows], using=alias)
    publish(alias, ttl=HOUR)
    assert rounds(alias) == (0, 0)
    suspend(process_instance_id="p", using=alias)
    dead = DeadLetterJob.objects.using(alias)
    assert len(requeue(dead if count > 1 else rows[0], using=alias).changed) == count
    frozen.tick(2 * HOUR)
    assert rounds(alias) == (count, 0)
    assert {table_of(alias, row) for row in rows} == {SuspendedJob}
    activate(process_instance_id="p", using=alias)
    assert {message_of(reload(alias, row)).key for row in rows} == {"4711"}
    assert {table_of(alias, row) for row in rows} == {Job}


@pytest.mark.parametrize("ids", [1, 2])
def test_a_suspension_of_its_handler_holds_it_when_it_goes_on(alias, ids):
    rows = [waiting(alias) for _ in range(ids)]
    suspend(using=alias, job_definition_id=rows[0].job_definition_id, include_jobs=False)
    publish(alias)
    assert rounds(alias) == (ids, 0)
    assert {table_of(alias, row) for row in rows} == {SuspendedJob}


def test_a_date_does_not_release_it(alias, frozen):
    row, other = waiting(alias), waiting(alias)
    for change in (
        lambda: retry_now(row.pk, using=alias),
        lambda: retry_now(BlockedJob.objects.using(alias).all(), using=alias),
        lambda: set_due_date(row.pk, clock.now(alias) + HOUR, using=alias),
        lambda: set_due_date(BlockedJob.objects.using(alias).all(), clock.now(alias) + HOUR, using=alias),
        lambda: set_priority(row.pk, 7, using=alias),
    ):
        change()
        assert {table_of(alias, each) for each in (row, other)} == {BlockedJob}
    assert reload(alias, row).due_date == clock.now(alias) + HOUR
    publish(alias)
    assert rounds(alias) == (2, 0)
    assert table_of(alias, row) is TimerJob


def test_a_dead_letter_that_waited_waits_again(alias, form):
    row = waiting(alias)
    move_to_dead_letter(row.pk, using=alias)
    publish(alias)
    assert rounds(alias) == (0, 0)
    publish(alias, ttl="PT1H", key="4711")
    rounds(alias)
    requeue(row.pk, using=alias)
    assert table_of(alias, row) is BlockedJob
    assert rounds(alias) == (1, 0)
    assert table_of(alias, row) is Job


def test_it_keeps_its_message_through_retries_and_requeueing(alias, form):
    row = waiting(alias, retries=2)
    publish(alias, payload=[1])
    rounds(alias)
    (job,) = acquire(alias)
    fail_job(alias, job, a_failure(), a_run(alias))
    assert table_of(alias, row) is TimerJob
    retry_now(row.pk, using=alias)
    (job,) = acquire(alias)
    fail_job(alias, job, a_failure(), a_run(alias))
    assert table_of(alias, row) is DeadLetterJob
    requeue(row.pk, using=alias)
    (job,) = acquire(alias)
    assert ReceivedMessage.read(job.message).payload == [1]


def test_a_job_that_waits_for_the_same_again_does_not_hold_up_the_delivery(alias, frozen):
    waiting(alias)
    publish(alias)
    frozen.tick(timedelta(minutes=2))
    again = waiting(alias)
    assert rounds(alias) == (1, 0)
    assert table_of(alias, again) is BlockedJob


def test_only_jobs_that_wait_for_a_message_are_looked_at(alias, configure):
    configure(RESOURCES={"pay.example": {"limit": 1}})
    make_job(alias, resource="pay.example")
    make_job(alias)
    assert next_delivery(alias) is None
    assert deliver(alias, 10) == (0, 0, False)


def test_a_waiting_job_is_cancelled(alias):
    row, held = waiting(alias), waiting(alias)
    suspend(held.pk, using=alias)
    assert set(cancel([row.pk, held.pk], using=alias).changed) == {row.pk, held.pk}
    publish(alias)
    assert rounds(alias) == (0, 0)


def test_no_wait_ends_before_its_message_is_delivered(alias, frozen, form):
    """Several messages are due at once, as after an outage: the one of the job is not the first."""
    row = waiting(alias, waits_until=clock.now(alias) + HOUR)
    assert rounds(alias) == (0, 0)
    publish(alias, key="other")
    publish(alias, payload="in time")
    frozen.tick(HOUR)
    assert rounds(alias) == (1, 0)
    assert message_of(reload(alias, row)).payload == "in time"
    assert not Message.objects.using(alias).exists()


def test_a_message_that_was_kept_when_a_job_began_to_wait_is_its_message(alias, frozen, form):
    """However late the executors look: after an outage, say."""
    publish(alias, ttl="PT1H", payload="kept")
    assert rounds(alias) == (0, 0)
    row = waiting(alias)
    frozen.tick(HOUR)
    late = waiting(alias)
    clean_up_history(alias)
    assert rounds(alias) == (1, 0)
    assert message_of(reload(alias, row)).payload == "kept"
    assert table_of(alias, late) is BlockedJob
    frozen.tick(timedelta(seconds=1))
    clean_up_history(alias)
    assert not Message.objects.using(alias).exists()


def test_a_job_that_waits_again_gets_no_message_that_was_over_before(alias, frozen):
    row = waiting(alias)
    move_to_dead_letter(row, using=alias)
    publish(alias, ttl="PT1H")
    assert rounds(alias) == (0, 0)
    frozen.tick(HOUR)
    assert requeue(row, using=alias)
    assert rounds(alias) == (0, 0)
    assert table_of(alias, row) is BlockedJob


def test_another_app_that_fails_to_deliver_a_message_holds_up_no_other(alias, monkeypatch, caplog):
    seen = []

    def fails(using, message):
        Message.objects.using(using).update(name="changed by it")
        raise ValueError("its fault")

    followers = [fails, lambda using, message: seen.append((message.name, message.key))]
    monkeypatch.setattr(deliver_module, "_followers", followers)
    first, second = waiting(alias), waiting(alias, "4712")
    publish(alias)
    publish(alias, "4712", ttl=HOUR)
    assert rounds(alias) == (2, 0)
    assert [message_of(reload(alias, row)).name for row in (first, second)] == ["approved", "approved"]
    assert seen == [("approved", "4711"), ("approved", "4712")]
    assert Message.objects.using(alias).get().name == "approved"
    assert [record.name for record in caplog.records] == ["jobexec.messages"] * 2
