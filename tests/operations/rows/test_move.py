"""A move: the id stays, the lock does not travel, the revision rises, and of two movers one wins."""

from datetime import timedelta

import pytest

from jobexec.models import JOB_TABLES, SHARED_COLUMNS, BlockedJob, DeadLetterJob, Job, SuspendedJob, TimerJob
from jobexec.operations.rows.move import move, move_all
from jobexec.operations.values.ranking import rank
from tests.support.columns import CHANGED_BY_MOVES, LATER, NOW, VALUES
from tests.support.factories import make_row, tables_of

pytestmark = pytest.mark.every_database


def test_every_column_is_tried_here():
    assert set(VALUES) | CHANGED_BY_MOVES == set(SHARED_COLUMNS)


@pytest.mark.parametrize("to", JOB_TABLES)
@pytest.mark.parametrize("source", JOB_TABLES)
def test_everything_travels_but_the_lock(alias, source, to):
    locked = {"lock_owner": "x", "lock_expiration_time": NOW, "start_time": NOW, "revision": 4}
    row = source._base_manager.using(alias).get(pk=make_row(source, alias, **VALUES, **locked).pk)
    moved = move(row, to)
    assert tables_of(alias) == {row.pk: [to]}
    stored = to._base_manager.using(alias).get()
    assert type(moved) is to
    for name in VALUES:
        assert getattr(stored, name) == getattr(row, name) == getattr(moved, name), name
    assert (stored.lock_owner, stored.lock_expiration_time, stored.start_time) == (None, None, None)
    assert stored.revision == 5
    if to is Job:
        assert stored.rank == (row.rank if source is BlockedJob else rank(alias, LATER, 5))


def test_without_a_due_date_the_rank_is_that_of_now(alias):
    row = make_row(SuspendedJob, alias, create_time=NOW - timedelta(days=9), priority=-1)
    assert move(row, Job).rank == rank(alias, NOW, -1)


@pytest.mark.parametrize(
    "to",
    [Job, TimerJob, SuspendedJob, DeadLetterJob],
)
def test_a_move_takes_changes(alias, to):
    row = make_row(TimerJob if to is Job else Job, alias)
    moved = move(row, to, retries=9, due_date=LATER)
    stored = to._base_manager.using(alias).get()
    assert (stored.pk, stored.retries, stored.due_date, moved.retries) == (row.pk, 9, LATER, 9)


def test_the_second_mover_finds_nothing_and_inserts_nothing(alias):
    row = make_row(Job, alias)
    same = Job.objects.using(alias).get()
    assert move(row, SuspendedJob) is not None
    assert move(same, TimerJob) is None
    assert tables_of(alias) == {row.pk: [SuspendedJob]}


def test_rows_that_changed_stay_and_the_others_move(alias):
    rows = [make_row(TimerJob, alias, due_date=LATER) for _ in range(5)]
    TimerJob.objects.using(alias).filter(pk=rows[2].pk).update(revision=2)
    TimerJob.objects.using(alias).filter(pk=rows[3].pk).delete()
    moved = move_all(rows, Job)
    assert [row.pk for row in moved] == [rows[0].pk, rows[1].pk, rows[4].pk]
    assert tables_of(alias) == {**{row.pk: [Job] for row in moved}, rows[2].pk: [TimerJob]}
    assert move_all([], Job) == []


def test_a_move_that_cannot_insert_deletes_nothing(alias):
    row, twin = make_row(Job, alias), make_row(SuspendedJob, alias)
    SuspendedJob.objects.using(alias).filter(pk=twin.pk).update(id=row.pk)
    from django.db import IntegrityError, transaction

    with pytest.raises(IntegrityError), transaction.atomic(alias):
        move(row, SuspendedJob)
    assert Job.objects.using(alias).filter(pk=row.pk).exists()


def test_a_whole_page_moves_in_few_statements(alias, django_assert_max_num_queries):
    rows = [make_row(TimerJob, alias, due_date=LATER) for _ in range(40)]
    # SQLite inserts in pieces of at most 999 values.
    with django_assert_max_num_queries(8, using=alias):
        assert len(move_all(rows, Job)) == 40


def test_json_that_cannot_be_read_does_not_stop_a_move(alias):
    from django.db import connections

    row = make_row(TimerJob, alias, due_date=NOW)
    with connections[alias].cursor() as cursor:
        if alias == "postgresql":
            pytest.skip("jsonb holds no broken JSON")
        off, on = {
            "default": ("PRAGMA ignore_check_constraints = ON", "PRAGMA ignore_check_constraints = OFF"),
            "mariadb": ("SET check_constraint_checks = 0", "SET check_constraint_checks = 1"),
        }[alias]
        cursor.execute(off)
        cursor.execute("UPDATE jobexec_timerjob SET handler_configuration = '{\"args\": [1'")
        cursor.execute(on)
    broken = TimerJob.objects.using(alias).get(pk=row.pk)
    assert move(broken, Job) is not None
    assert Job.objects.using(alias).get().handler_configuration == '{"args": [1'
