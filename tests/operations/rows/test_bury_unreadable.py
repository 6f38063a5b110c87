"""Rows that cannot be read become dead letters that say why, and stop nobody else."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections

from jobexec.models import DeadLetterJob, ExclusiveLock, ExecutorNode, Job, TimerJob
from jobexec.operations import recover_node, trigger_due_timers
from jobexec.operations.nodes.leases import declare_dead
from jobexec.operations.rows import move_statement
from jobexec.operations.settle.recover import release_strays
from tests.support.factories import LEASE_TIME, acquire, locked_ids, make_job, make_node, make_row, tables_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

#: What raw SQL can put into a row there that cannot be read: column and SQL.
ABSURD = {
    "default": [("attempts", "'many'"), ("timeout", "'soon'"), ("create_time", "'yesterday'")],
    "postgresql": [("handler_configuration", "('1' || repeat('0', 5000))::jsonb")],
    "mariadb": [("handler_configuration", "CONCAT('1', REPEAT('0', 5000))")],
}


def spoil(alias, row, column, value):
    table = type(row)._meta.db_table
    with connections[alias].cursor() as cursor:
        if alias == "default":
            cursor.execute("PRAGMA ignore_check_constraints = ON")
        cursor.execute(f"UPDATE {table} SET {column} = {value} WHERE handler_type = %s", [row.handler_type])
        if alias == "default":
            cursor.execute("PRAGMA ignore_check_constraints = OFF")


@pytest.fixture(params=range(3))
def absurd(request, alias):
    """A column and what to put into it; PostgreSQL and MariaDB refuse all but one by themselves."""
    return ABSURD[alias][request.param % len(ABSURD[alias])]


@pytest.mark.transactional
def test_timers_go_on(alias, absurd, frozen, monkeypatch):
    monkeypatch.setattr(move_statement, "is_possible", lambda using: False)
    good = make_job(alias, due_date=NOW + timedelta(seconds=2))
    broken = make_job(alias, due_date=NOW + timedelta(seconds=1), handler_type="broken")
    spoil(alias, broken, *absurd)
    frozen.tick(5)
    while trigger_due_timers(alias, 10):
        pass
    assert tables_of(alias) == {good.pk: [Job], broken.pk: [DeadLetterJob]}
    dead = DeadLetterJob.objects.using(alias).get()
    assert absurd[0] in dead.exception_message
    assert (dead.retries, dead.handler_type) == (0, "broken")


@pytest.mark.fast_form
@pytest.mark.transactional
def test_timers_that_move_without_being_read_are_left_to_who_acquires_them(alias, frozen):
    good = make_job(alias, due_date=NOW)
    broken = make_job(alias, due_date=NOW + timedelta(seconds=1), handler_type="broken")
    spoil(alias, broken, *ABSURD[alias][0])
    frozen.tick(5)
    assert trigger_due_timers(alias, 10) == 1
    assert tables_of(alias) == {good.pk: [Job], broken.pk: [Job]}


@pytest.mark.transactional
def test_recovery_goes_on(alias, absurd, frozen):
    node = make_node(alias)
    good, broken = make_job(alias), make_job(alias, handler_type="broken", process_instance_id="p")
    assert len(acquire(alias, node.lock_owner)) == 2
    spoil(alias, broken, *absurd)
    frozen.tick(LEASE_TIME * 2)
    declare_dead(alias)
    for _ in range(3):
        recover_node(alias, node)
    assert locked_ids(alias) == set()
    assert not ExecutorNode.objects.using(alias).exists()
    assert not ExclusiveLock.objects.using(alias).exists()
    assert Job.objects.using(alias).filter(pk=good.pk, lost_runs=1).exists()


def test_strays_are_what_the_owner_does_not_know_of(alias):
    for _ in range(3):
        make_job(alias, process_instance_id="p")
    known, stray, ended = acquire(alias, "one")
    make_row(TimerJob, alias)

    def in_hand():
        Job.objects.using(alias).filter(pk=ended.id).update(revision=99)
        return [known]

    assert release_strays(alias, "one", in_hand) == 1
    assert locked_ids(alias) == {known.id, ended.id}
    assert ExclusiveLock.objects.using(alias).exists(), "siblings are still held"
    row = Job.objects.using(alias).get(pk=stray.id)
    assert (row.lost_runs, row.retries, row.revision) == (0, 3, stray.revision + 1)
    assert release_strays(alias, "one", lambda: [known, replace(ended, revision=99)]) == 0
    # The thread of an earlier attempt, past its timeout, knows the job as it was then.
    assert release_strays(alias, "one", lambda: [known, ended]) == 1
