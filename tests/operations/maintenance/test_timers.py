"""Timers come due in order, and suspended ones do not run."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError

from jobexec.models import Job, SuspendedJob, TimerJob
from jobexec.operations import next_due_date, suspend, trigger_due_timers
from jobexec.operations.rows import move_statement
from jobexec.operations.values.ranking import rank
from tests.support.factories import acquire, make_job, make_row, tables_of

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def timer(alias, seconds, **columns):
    return make_job(alias, due_date=NOW + timedelta(seconds=seconds), **columns)


def test_only_what_is_due_moves(alias, frozen):
    first, second, third = timer(alias, 1), timer(alias, 2), timer(alias, 3)
    assert trigger_due_timers(alias, 10) == 0
    frozen.tick(2)
    assert trigger_due_timers(alias, 10) == 2
    assert tables_of(alias) == {first.pk: [Job], second.pk: [Job], third.pk: [TimerJob]}
    row = Job.objects.using(alias).get(pk=second.pk)
    assert (row.due_date, row.rank, row.type) == (NOW + timedelta(seconds=2), rank(alias, row.due_date, 0), "timer")


def test_the_longest_overdue_go_first(alias, frozen):
    rows = [timer(alias, seconds) for seconds in (5, 1, 4, 2, 3)]
    frozen.tick(60)
    assert trigger_due_timers(alias, 2) == 2
    assert {pk for pk, tables in tables_of(alias).items() if tables == [Job]} == {rows[1].pk, rows[3].pk}
    assert [trigger_due_timers(alias, 2) for _ in range(3)] == [2, 1, 0]
    assert [job.id for job in acquire(alias)] == [rows[index].pk for index in (1, 3, 4, 2, 0)]


def test_what_is_covered_becomes_suspended_and_keeps_its_due_date(alias, frozen):
    suspend(tenant_id="t", using=alias)
    covered, free = timer(alias, 1, tenant_id="t"), timer(alias, 1)
    itself = make_row(TimerJob, alias, due_date=NOW, suspend_requested=True)
    frozen.tick(1)
    assert trigger_due_timers(alias, 10) == 3
    assert tables_of(alias) == {covered.pk: [SuspendedJob], itself.pk: [SuspendedJob], free.pk: [Job]}
    assert SuspendedJob.objects.using(alias).get(pk=covered.pk).due_date == NOW + timedelta(seconds=1)


def test_the_next_due_date(alias):
    assert next_due_date(alias) is None
    timer(alias, 90)
    timer(alias, 30)
    assert next_due_date(alias) == NOW + timedelta(seconds=30)


def test_an_absurd_priority_does_not_stop_the_page(alias, frozen):
    rows = [make_row(TimerJob, alias, due_date=NOW, priority=priority) for priority in (2**31 - 1, -(2**31), 0)]
    assert trigger_due_timers(alias, 10) == 3
    assert [job.id for job in acquire(alias)] == [rows[0].pk, rows[2].pk, rows[1].pk]


def test_a_timer_of_a_deployment_waits_for_a_node_that_has_it(alias, frozen):
    row = timer(alias, 1, deployment_id="shop:2")
    frozen.tick(1)
    assert trigger_due_timers(alias, 10) == 1, "any node moves it"
    assert acquire(alias) == acquire(alias, deployments=("shop:1",)) == []
    assert [job.id for job in acquire(alias, deployments=("shop:2",))] == [row.pk]


@pytest.mark.transactional
def test_a_move_that_fails_leaves_the_timers_for_the_next_round(alias, frozen, monkeypatch):
    rows = [timer(alias, 1, process_instance_id="p") for _ in range(3)]
    frozen.tick(1)

    def away(*args, **kwargs):
        raise OperationalError("the connection is gone")

    with monkeypatch.context() as patch:
        patch.setattr(type(Job._base_manager.all()), "bulk_create", away)
        patch.setattr(move_statement, "delete_rows", away)
        with pytest.raises(OperationalError):
            trigger_due_timers(alias, 10)
    assert tables_of(alias) == {row.pk: [TimerJob] for row in rows}
    assert {row.lock_owner for row in TimerJob.objects.using(alias)} == {None}
    assert trigger_due_timers(alias, 10) == 3
    assert tables_of(alias) == {row.pk: [Job] for row in rows}
