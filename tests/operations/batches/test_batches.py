"""Batches: what they do to how many jobs, in which pieces, and what is left when anything goes wrong on the way."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F

from jobexec import clock
from jobexec.exceptions import InvalidJob, UnreadableJob
from jobexec.executor.execute_now import execute_now
from jobexec.identifiers import uuid7
from jobexec.models import (
    Batch,
    BatchFailure,
    BatchPart,
    DeadLetterJob,
    Job,
    SuspendedJob,
    TimerJob,
)
from jobexec.operations import batch_progress, delete_jobs, requeue, start_batch, trigger_due_timers
from jobexec.operations.batches.control import OPERATIONS, BatchProgress
from jobexec.operations.batches.jobs import EXECUTION, MONITOR, SEED
from jobexec.operations.query import stored_filter as selections_module
from jobexec.operations.sql import server_time
from tests.support.batches import dead, dead_letters, left, own_jobs, run_due, run_next, run_to_the_end
from tests.support.factories import make_job, make_row, reload, table_of, tables_of, work
from tests.support.threads import Undo

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1, microseconds=123456)


# -- from the beginning to the end ---------------------------------------------------------------------------------


@pytest.mark.gate
def test_a_batch_from_the_beginning_to_the_end(alias, frozen, small):
    rows = dead_letters(alias, 9)
    batch = start_batch("requeue", dead(alias).all(), arguments={"retries": 5}, using=alias, user="anna")
    assert (batch.state, batch.create_user, batch.create_time, batch.total) == ("seeding", "anna", NOW, 0)
    assert left(alias, batch) == {SEED: 1}

    run_next(alias)
    batch.refresh_from_db()
    assert (batch.state, batch.total, batch.parts, batch.cursor) == ("seeding", 4, 2, rows[3].pk.hex)
    assert left(alias, batch) == {EXECUTION: 2, SEED: 1}
    assert batch_progress(batch) == BatchProgress(total=4, changed=0, skipped=0, open=4, failed_jobs=0)

    run_next(alias)
    assert batch_progress(batch) == BatchProgress(total=4, changed=2, skipped=0, open=2, failed_jobs=0)
    run_due(alias)
    batch = run_to_the_end(alias, frozen, batch)
    assert (batch.state, batch.total, batch.parts, batch.changed, batch.skipped) == ("completed", 9, 5, 9, 0)
    assert batch.end_time is not None
    assert left(alias, batch) == {}
    assert tables_of(alias) == {row.pk: [Job] for row in rows}
    assert set(Job.objects.using(alias).values_list("retries", "attempts")) == {(5, 0)}
    assert not BatchPart.objects.using(alias).exists() and not BatchFailure.objects.using(alias).exists()
    assert batch_progress(batch) == BatchProgress(total=9, changed=9, skipped=0, open=0, failed_jobs=0)


def test_it_is_over_at_the_next_look_after_the_last_piece(alias, frozen, configure):
    configure(BATCH_POLL_TIME=7)
    rows = dead_letters(alias, 1)
    batch = start_batch("requeue", rows, using=alias)
    run_next(alias)
    execution, monitor = own_jobs(alias)
    execute_now(monitor.pk, using=alias)
    again = TimerJob.objects.using(alias).get()
    assert (again.handler_type, again.due_date) == (MONITOR, NOW + timedelta(seconds=14)), (
        "nothing new: it waits longer"
    )
    execute_now(execution.pk, using=alias)
    frozen.tick(14)
    assert trigger_due_timers(alias, 10)
    run_due(alias)
    batch.refresh_from_db()
    assert (batch.state, batch.end_time) == ("completed", NOW + timedelta(seconds=14))


@pytest.mark.gate
def test_a_look_slows_down_to_sixty_four_times_and_is_quick_again_when_something_was_done(alias, frozen, small):
    batch = start_batch("requeue", dead_letters(alias, 3), using=alias)
    run_next(alias)
    first, second, monitor = own_jobs(alias)
    waits = []
    for turn in range(10):
        if turn == 8:
            execute_now(first.pk, using=alias)
        execute_now(monitor.pk, using=alias)
        monitor = TimerJob.objects.using(alias).get()
        waits.append((monitor.due_date - NOW).total_seconds())
    assert waits == [10, 20, 40, 80, 160, 320, 320, 320, 5, 10]
    assert batch_progress(batch)[:4] == (3, 2, 0, 1)
    assert BatchPart.objects.using(alias).get().job_id == second.pk, "what is done needs no row of its own any more"


def test_its_jobs(alias, configure):
    configure(CATEGORIES=["first", "second"], DEPLOYMENT="shop:1", DEFAULT_RETRY_PLAN="R7/PT1S")
    batch = start_batch("requeue", dead(alias).filter(tenant_id="t"), using=alias)
    row = Job.objects.using(alias).get()
    assert (row.handler_type, row.batch_id, row.process_instance_id) == (SEED, batch.pk, f"batch:{batch.pk}")
    assert (row.category, row.deployment_id, row.tenant_id, row.priority, row.retries) == ("first", "", "", 0, 7)
    assert (row.exclusive, row.atomic) == (False, True)
    assert batch.tenant_id == "t"


def test_category_and_priority_of_its_jobs(alias, configure, frozen):
    configure(CATEGORIES=["first", "second"], BATCH_CATEGORY="second", BATCH_PRIORITY=-5)
    start_batch("requeue", dead_letters(alias, 1), using=alias)
    seen = []
    for _ in range(3):
        seen += own_jobs(alias).values_list("handler_type", "category", "priority")
        run_next(alias)
    assert {handler for handler, _, _ in seen} == {SEED, EXECUTION, MONITOR}
    assert {rest for _, *rest in map(tuple, seen) for rest in [tuple(rest)]} == {("second", -5)}


def test_it_is_started_in_the_callers_transaction(alias):
    dead_letters(alias, 2)
    with pytest.raises(Undo), transaction.atomic(alias):
        start_batch("requeue", dead(alias).all(), using=alias)
        raise Undo
    assert not Batch.objects.using(alias).exists() and not Job.objects.using(alias).exists()


def test_nothing_to_do(alias, frozen):
    for target in (dead(alias).all(), dead(alias).none(), []):
        batch = run_to_the_end(alias, frozen, start_batch("delete", target, using=alias))
        assert (batch.state, batch.total, batch.changed, batch.parts) == ("completed", 0, 0, 0)


# -- what is meant -------------------------------------------------------------------------------------------------


def test_conditions_are_noted_and_other_querysets_as_ids(alias, small, frozen):
    rows = dead_letters(alias, 3, priority=1) + dead_letters(alias, 2, priority=2)
    described = start_batch("requeue", dead(alias).filter(priority=1), using=alias)
    assert described.selection["table"] == "deadletterjob"
    listed = start_batch("requeue", dead(alias).filter(priority=F("retries") + 2), using=alias)
    assert listed.selection == {"ids": [row.pk.hex for row in rows[3:]]}
    assert run_to_the_end(alias, frozen, described).changed == 3
    assert run_to_the_end(alias, frozen, listed).changed == 2


@pytest.mark.gate
def test_rows_and_ids_in_any_order_walk_in_pieces(alias, small, frozen):
    rows = dead_letters(alias, 7)
    target = [rows[6], rows[0].pk, str(rows[3].pk), rows[0], *rows[1:3], rows[5].pk, rows[4]]
    batch = run_to_the_end(alias, frozen, start_batch("requeue", target, using=alias))
    assert (batch.total, batch.parts, batch.changed, batch.skipped) == (7, 4, 7, 0)


def test_too_many_ids_are_refused(alias, monkeypatch):
    rows = dead_letters(alias, 4)
    monkeypatch.setattr("jobexec.operations.batches.control.MAX_IDS", 3)
    with pytest.raises(InvalidJob, match="at most 3 jobs, or a queryset; got 4"):
        start_batch("requeue", rows, using=alias)
    with pytest.raises(InvalidJob, match=r"an expression compared with priority\. Otherwise, expected at most 3"):
        start_batch("requeue", dead(alias).filter(priority=F("retries")), using=alias)
    assert start_batch("requeue", rows[:3], using=alias)
    assert selections_module.MAX_IDS == 100_000


@pytest.mark.gate
def test_what_comes_to_match_later_is_not_meant(alias, frozen, small):
    for table, stamp in ((DeadLetterJob, "died_at"), (SuspendedJob, "suspended_at"), (Job, "create_time")):
        now = frozen.now
        before = make_row(table, alias, category=table.__name__, **{stamp: now})
        batch = start_batch(
            "set_priority",
            table.objects.using(alias).filter(category=table.__name__),
            arguments={"priority": 5},
            using=alias,
        )
        later = make_row(table, alias, category=table.__name__, **{stamp: now + timedelta(microseconds=1)})
        batch = run_to_the_end(alias, frozen, batch)
        assert (batch.total, batch.changed) == (1, 1)
        assert (reload(alias, before).priority, reload(alias, later).priority) == (5, 0)


def test_what_no_longer_matches_when_its_turn_comes_is_left_alone(alias, frozen):
    gone, moved, changed, same = dead_letters(alias, 4, handler_type="old")
    batch = start_batch("delete", dead(alias).filter(handler_type="old"), using=alias)
    run_next(alias)
    delete_jobs(gone, using=alias)
    requeue(moved, using=alias)
    dead(alias).filter(pk=changed.pk).update(handler_type="new")
    batch = run_to_the_end(alias, frozen, batch)
    assert (batch.changed, batch.skipped) == (1, 3)
    assert {table_of(alias, row) for row in (gone, same)} == {None}
    assert (table_of(alias, moved), table_of(alias, changed)) == (Job, DeadLetterJob)
    failures = BatchFailure.objects.using(alias).values_list("job_id", "reason")
    assert dict(failures) == dict.fromkeys([gone.pk, moved.pk, changed.pk], "it no longer matches the selection")


def test_it_does_not_meet_its_own_jobs(alias, frozen, small):
    others = [make_job(alias) for _ in range(3)]
    batch = start_batch("delete", Job.objects.using(alias).all(), using=alias)
    batch = run_to_the_end(alias, frozen, batch)
    assert (batch.state, batch.total, batch.changed) == ("completed", 3, 3)
    assert {table_of(alias, row) for row in others} == {None}


# -- every operation -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "table", "arguments", "expected"),
    [
        ("requeue", DeadLetterJob, {}, (Job, {"retries": 3})),
        ("requeue", DeadLetterJob, {"retries": 9}, (Job, {"retries": 9})),
        ("set_retries", TimerJob, {"retries": 8}, (TimerJob, {"retries": 8})),
        ("retry_now", TimerJob, {}, (Job, {"due_date": None})),
        ("set_due_date", Job, {"due_date": LATER}, (TimerJob, {"due_date": LATER})),
        ("set_due_date", TimerJob, {"due_date": None}, (Job, {"due_date": None})),
        ("set_priority", SuspendedJob, {"priority": -4}, (SuspendedJob, {"priority": -4})),
        ("suspend", Job, {}, (SuspendedJob, {"suspend_requested": True})),
        ("suspend", TimerJob, {"until": LATER}, (SuspendedJob, {"suspend_requested": False})),
        ("activate", SuspendedJob, {}, (Job, {"suspend_requested": False})),
        ("cancel", Job, {}, (None, {})),
        ("delete", DeadLetterJob, {}, (None, {})),
    ],
)
def test_every_operation(alias, frozen, operation, table, arguments, expected):
    rows = [make_row(table, alias, retries=1) for _ in range(3)]
    batch = start_batch(operation, table.objects.using(alias).all(), arguments=arguments, using=alias)
    run_next(alias)
    execute_now(own_jobs(alias).get(handler_type=EXECUTION).pk, using=alias)
    assert batch_progress(batch)[:4] == (3, 3, 0, 0)
    where, columns = expected
    assert {table_of(alias, row) for row in rows} == {where}
    for row in rows if where else []:
        after = reload(alias, row)
        assert {name: getattr(after, name) for name in columns} == columns


def test_all_operations_are_there():
    assert [name for name in OPERATIONS if name != "reencrypt"] == [
        *("requeue", "set_retries", "retry_now", "set_due_date", "set_priority"),
        *("suspend", "activate", "cancel", "delete", "move_to_dead_letter", "recalculate_due_date", "end_wait"),
    ]


@pytest.mark.parametrize(
    ("operation", "arguments", "message"),
    [
        ("explode", {}, "operation: expected one of requeue, .*, delete, .*, got 'explode'"),
        ("requeue", {"retries": 0}, "retries: expected a whole number of at least 1, got 0"),
        ("requeue", {"tries": 1}, r"arguments: expected retries \(optional\), got tries"),
        ("set_retries", {}, "arguments: expected retries, got none"),
        ("delete", {"retries": 1}, "arguments: expected none, got retries"),
        ("set_priority", {"priority": "high"}, "priority: expected"),
        ("set_due_date", {"due_date": "2026-13-01T00:00:00Z"}, "due_date: expected an aware datetime"),
        ("set_due_date", {"due_date": datetime(2026, 1, 1)}, "due_date: expected a datetime with a time zone"),
        ("suspend", {"at": 1}, "at: expected an aware datetime"),
        ("move_to_dead_letter", {"reason": 1}, "reason: expected a string, got 1"),
        ("recalculate_due_date", {"from_creation": "yes"}, "from_creation: expected True or False, got 'yes'"),
    ],
)
def test_what_cannot_be_is_refused_at_the_start(alias, operation, arguments, message):
    with pytest.raises(InvalidJob, match=message):
        start_batch(operation, dead(alias).all(), arguments=arguments, using=alias)
    assert not Batch.objects.using(alias).exists()


def test_only_job_tables(alias):
    with pytest.raises(InvalidJob, match="over User"):
        start_batch("delete", User.objects.using(alias).all(), using=alias)


def test_what_has_died_is_meant_also_by_a_process_whose_clock_is_behind(alias, frozen, small, monkeypatch):
    dead_letters(alias, 1, died_at=NOW + timedelta(minutes=9))
    with monkeypatch.context() as patch:
        patch.setattr(clock, "is_frozen", lambda: False)
        patch.setattr(server_time, "database_time", lambda using: NOW + timedelta(minutes=10))
        batch = start_batch("requeue", dead(alias).all(), using=alias)
    assert run_to_the_end(alias, frozen, batch).changed == 1


# -- refusals and errors -------------------------------------------------------------------------------------------


def test_of_very_many_refusals_the_first_are_told_and_all_are_counted(alias, frozen, small, monkeypatch):
    monkeypatch.setattr("jobexec.operations.batches.results.MAX_FAILURES", 3)
    batch = start_batch("delete", [uuid7() for _ in range(6)] + [make_job(alias)], using=alias)
    batch = run_to_the_end(alias, frozen, batch)
    assert (batch.state, batch.changed, batch.skipped) == ("completed", 1, 6)
    assert BatchFailure.objects.using(alias).filter(batch_id=batch.pk).count() == 3


def test_what_is_refused_does_not_disturb_the_rest(alias, frozen, small):
    running, free = work(alias, "one"), [make_job(alias) for _ in range(4)]
    nobody = uuid7()
    batch = start_batch("delete", [running.id, nobody, *free], using=alias)
    batch = run_to_the_end(alias, frozen, batch)
    assert (batch.state, batch.changed, batch.skipped) == ("completed", 4, 2)
    assert tables_of(alias) == {running.id: [Job]}
    reasons = dict(BatchFailure.objects.using(alias).filter(batch=batch).values_list("job_id", "reason"))
    assert reasons == {running.id: "it is running or queued on one", nobody: "the job no longer exists"}


def test_what_fails_does_not_disturb_the_rest(alias, frozen, monkeypatch):
    bad, *good = dead_letters(alias, 4)
    verb = OPERATIONS["requeue"].function

    def broken(target, **arguments):
        result = verb(target, **arguments)
        if bad.pk in result.changed:
            raise ValueError("no\x00 " + "way " * 1000)
        return result

    monkeypatch.setitem(OPERATIONS, "requeue", replace(OPERATIONS["requeue"], function=broken))
    batch = run_to_the_end(alias, frozen, start_batch("requeue", dead(alias).all(), using=alias))
    assert (batch.changed, batch.skipped) == (3, 1)
    assert {table_of(alias, row) for row in good} == {Job}
    assert table_of(alias, bad) is DeadLetterJob
    reason = BatchFailure.objects.using(alias).get().reason
    assert reason.startswith("ValueError: no\\x00 way") and len(reason) == 1000


@pytest.mark.gate
def test_a_piece_that_fails_is_a_dead_letter_and_the_batch_waits_for_it(alias, frozen, small, monkeypatch):
    batch = start_batch("requeue", dead_letters(alias, 3), using=alias)
    run_next(alias)
    first = own_jobs(alias).first()
    Job.objects.using(alias).filter(pk=first.pk).update(handler_configuration={"args": []})
    with pytest.raises(UnreadableJob):
        execute_now(first.pk, using=alias)
    waiting = run_to_the_end(alias, frozen, batch)
    assert (waiting.state, waiting.end_time) == ("running", None)
    assert batch_progress(batch) == BatchProgress(total=3, changed=1, skipped=0, open=2, failed_jobs=1)
    dead(alias).filter(pk=first.pk).update(handler_configuration=first.handler_configuration)
    requeue(first.pk, using=alias)
    over = run_to_the_end(alias, frozen, batch)
    assert (over.state, over.changed, over.skipped) == ("completed", 3, 0)


def test_a_piece_whose_job_was_deleted_counts_as_skipped(alias, frozen, small):
    batch = start_batch("requeue", dead_letters(alias, 3), using=alias)
    run_next(alias)
    delete_jobs(own_jobs(alias).first(), using=alias)
    batch = run_to_the_end(alias, frozen, batch)
    assert (batch.state, batch.changed, batch.skipped) == ("completed", 1, 2)


@pytest.mark.parametrize(
    "columns",
    [
        {"selection": {"table": "user", "where": {}}},
        {"selection": {"ids": ["x"]}},
        {"type": "explode"},
        {"arguments": {"retries": "many"}},
    ],
)
def test_a_batch_that_cannot_be_read_stops_at_once(alias, frozen, columns):
    rows = dead_letters(alias, 2)
    batch = start_batch("requeue", dead(alias).all(), using=alias)
    Batch.objects.using(alias).filter(pk=batch.pk).update(**columns)
    with pytest.raises(UnreadableJob, match="The batch cannot be read: "):
        run_due(alias)
    stopped = dead(alias).get(batch_id=batch.pk)
    assert "The batch cannot be read" in stopped.exception_message
    assert {table_of(alias, row) for row in rows} == {DeadLetterJob}
    assert batch_progress(batch).failed_jobs == 1
