"""What an operator sees first: numbers that end somewhere, the oldest due job, nodes, timers, suspensions."""

import sys
from datetime import timedelta

import pytest
from django.db import connections
from django.db.models import QuerySet

from jobexec import clock
from jobexec.identifiers import uuid7
from jobexec.models import (
    DeadLetterJob,
    ExecutorNode,
    HistoryJob,
    Incident,
    IncidentState,
    Job,
    NodeState,
    Schedule,
    SuspendedJob,
    TimerJob,
)
from jobexec.operations import requeue, suspend
from jobexec.operations.nodes.leases import declare_dead
from jobexec.operations.overview import overview
from jobexec.operations.problems import problems
from jobexec.operations.reports import counts
from jobexec.operations.sql import server_time
from jobexec.operations.sql.dialect import dialect
from jobexec.operations.sql.sqlite import SQLite
from tests.support.factories import HANDLER, acquire, make_job, make_node, make_row

MINUTE = timedelta(minutes=1)


def looked(alias, *parts, **options):
    return overview(alias, parts=parts, **options)


def test_jobs_are_counted_by_their_state(alias):
    later = clock.now(alias) + MINUTE
    for _ in range(3):
        make_job(alias)
    acquire(alias, limit=1)
    make_job(alias, due_date=later)
    make_row(TimerJob, alias, due_date=later, attempts=2)
    make_row(TimerJob, alias, due_date=later, attempts=1)
    make_row(SuspendedJob, alias)
    make_row(DeadLetterJob, alias)
    make_row(HistoryJob, alias)
    found = looked(alias, "counts").counts
    assert (found.free, found.in_progress) == (2, 1)
    assert (found.timers, found.retries) == (1, 2)
    assert (found.suspended, found.dead_letters, found.history) == (1, 1, 1)
    assert str(found.free) == "2"


@pytest.mark.parametrize(("estimate", "shown"), [(None, "3+"), (-1, "3+"), (2, "3+"), (5, "3+"), (6, "≈6")])
def test_counting_ends(alias, monkeypatch, estimate, shown):
    """An estimate near the limit says no more than the count."""
    monkeypatch.setattr(counts, "COUNT_LIMIT", 3)
    monkeypatch.setattr(counts, "estimated_rows", lambda using, table: estimate)
    for _ in range(5):
        make_row(DeadLetterJob, alias)
    for _ in range(3):
        make_row(SuspendedJob, alias)
    found = looked(alias, "counts").counts
    assert (str(found.dead_letters), str(found.suspended)) == (shown, "3")


@pytest.mark.every_database
@pytest.mark.parametrize(("expected", "shown"), [(5, "3+"), (6, "≈6"), (600, "≈99")])
def test_what_meets_a_condition_is_estimated_by_the_planner_if_it_has_statistics(alias, monkeypatch, expected, shown):
    monkeypatch.setattr(counts, "COUNT_LIMIT", 3)
    monkeypatch.setattr(counts, "estimated_rows", lambda using, table: 99)
    monkeypatch.setattr(QuerySet, "explain", lambda rows, format: f'[{{"Plan": {{"Plan Rows": {expected}}}}}]')
    for _ in range(5):
        make_row(DeadLetterJob, alias)
    rows = DeadLetterJob.objects.using(alias)
    assert str(counts.CappedCount.of(rows)) == "≈99"
    condition = str(counts.CappedCount.of(rows.filter(category="default")))
    assert condition == (shown if dialect(alias).expects_rows else "3+")
    assert str(counts.CappedCount.of(rows.filter(category="mail"))) == "0"


@pytest.mark.fast_form
def test_all_databases_know_about_how_many_rows_a_table_has(alias):
    assert type(counts.estimated_rows(alias, DeadLetterJob)) is int


@pytest.mark.databases("sqlite")
def test_sqlite_counts_the_rows_of_a_table_up_to_a_million(alias, monkeypatch):
    for _ in range(3):
        make_row(DeadLetterJob, alias)
    assert counts.estimated_rows(alias, DeadLetterJob) == 3
    monkeypatch.setattr(SQLite, "row_estimate", SQLite.row_estimate.replace("1000000", "3"))
    assert counts.estimated_rows(alias, DeadLetterJob) is None, "three or more"


def test_the_oldest_due_job_is_the_one_that_waits_longest(alias, frozen):
    first = clock.now(alias)
    make_job(alias, priority=-7)
    frozen.tick(MINUTE)
    make_job(alias, priority=1000)
    frozen.tick(MINUTE)
    assert looked(alias, "counts").oldest_due == first
    acquire(alias, limit=2)
    assert looked(alias, "counts").oldest_due is None


def test_a_requeued_job_is_due_since_it_was_requeued(alias, frozen):
    job = make_row(DeadLetterJob, alias, create_time=clock.now(alias))
    frozen.tick(timedelta(days=3))
    requeue(job)
    frozen.tick(MINUTE)
    assert Job.objects.using(alias).get().create_time < clock.now(alias) - timedelta(days=2)
    assert looked(alias, "counts").oldest_due == clock.now(alias) - MINUTE


def test_a_priority_that_no_rank_can_hold_breaks_nothing(alias):
    make_row(Job, alias, priority=2_000_000_000, rank=-(2**63))
    assert looked(alias, "counts").oldest_due is None
    assert looked(alias, "counts").counts.free == 1


@pytest.mark.parametrize("parts", [(), ("counts",)])
def test_what_is_not_asked_for_is_none(alias, parts, django_assert_num_queries):
    with django_assert_num_queries(7 if parts else 0, using=alias):
        found = looked(alias, *parts)
    assert (found.counts is None) is (not parts)
    assert found.nodes is None


def test_unknown_parts_are_named():
    with pytest.raises(ValueError, match=r"parts: expected some of .*timers.*, got colours\."):
        overview("default", parts=["colours"])


def test_timers_come_by_handler_in_the_order_of_their_first_dates(alias):
    now = clock.now(alias)
    for number in (5, -1, 3):
        make_row(TimerJob, alias, due_date=now + MINUTE * number, attempts=number > 0)
    late = make_row(TimerJob, alias, due_date=now + MINUTE * 2, handler_type="shop.late")
    found = looked(alias, "timers")
    assert [(each.handler_type, each.count, each.retries) for each in found.timers] == [
        (HANDLER, 3, 2),
        ("shop.late", 1, 0),
    ]
    assert (found.timers[1].id, found.timers[1].due_date) == (late.pk, now + MINUTE * 2)
    assert found.oldest_due == found.timers[0].due_date == now - MINUTE


def test_timers_of_jobexecs_own_handlers_are_one_line_and_count_as_due(alias):
    now = clock.now(alias)
    dates = {"jobexec.processes.timer": -3, "pay": -2, "jobexec.batch_monitor": 5}
    for handler, minutes in dates.items():
        make_row(TimerJob, alias, handler_type=handler, due_date=now + minutes * MINUTE)
    found = looked(alias, "timers")
    assert [(each.handler_type, each.count) for each in found.timers] == [("jobexec.", 2), ("pay", 1)]
    assert found.oldest_due == now - 3 * MINUTE


def test_handlers_are_those_of_a_number_of_next_timers(alias, monkeypatch):
    monkeypatch.setattr(sys.modules[overview.__module__], "TIMERS_READ", 3)
    for number in range(3):
        make_row(TimerJob, alias, due_date=clock.now(alias) + MINUTE * number)
    assert [str(each.count) for each in looked(alias, "timers").timers] == ["3"]
    make_row(TimerJob, alias, due_date=clock.now(alias) + MINUTE * 9, handler_type="shop.late")
    assert [str(each.count) for each in looked(alias, "timers").timers] == ["3+"]


def test_schedules_that_fire_next(alias):
    now = clock.now(alias)
    for number in range(13):
        columns = {"options": {"tenant_id": "acme"} if number % 2 else {}, "next_time": now + timedelta(hours=number)}
        Schedule.objects.using(alias).create(name=f"{number}", handler_type=HANDLER, expression="@daily", **columns)
    Schedule.objects.using(alias).create(name="disabled", handler_type=HANDLER, expression="@daily", enabled=False)
    assert [each.name for each in looked(alias, "schedules").schedules] == [f"{number}" for number in range(10)]
    of_tenant = looked(alias, "schedules", tenants=["acme"]).schedules
    assert [each.name for each in of_tenant] == ["1", "3", "5", "7", "9", "11"]
    assert len(looked(alias, "schedules", tenants=["", "acme"]).schedules) == 10


def test_no_more_timers_than_fit(alias):
    for number in range(12):
        make_row(TimerJob, alias, due_date=clock.now(alias) + MINUTE * number, handler_type=f"shop.{number}")
    assert len(looked(alias, "timers").timers) == 10


@pytest.mark.databases("sqlite")
def test_a_date_that_cannot_be_read_hides_nothing_else(alias):
    broken, _ = (make_row(TimerJob, alias, due_date=clock.now(alias)) for _ in range(2))
    with connections[alias].cursor() as cursor:
        cursor.execute("UPDATE jobexec_timerjob SET due_date = '1 May' WHERE id = %s", [broken.pk.hex])
    assert len(looked(alias, "timers").timers) == 1


class TestTenants:
    def test_only_their_jobs_count(self, alias):
        for tenant in ("acme", "acme", "other", ""):
            make_job(alias, tenant_id=tenant)
            make_job(alias, tenant_id=tenant, due_date=clock.now(alias) + MINUTE)
            make_row(DeadLetterJob, alias, tenant_id=tenant)
        found = looked(alias, "counts", "timers", tenants=["acme"])
        assert (found.counts.free, found.counts.timers, found.counts.dead_letters) == (2, 2, 2)
        assert [each.count for each in found.timers] == [2]
        assert looked(alias, "counts", tenants=["acme", ""]).counts.free == 3
        assert looked(alias, "counts", tenants=[]).counts.free == 0

    def test_nobody_elses_job_is_the_oldest(self, alias, frozen):
        make_job(alias, tenant_id="other")
        make_row(TimerJob, alias, tenant_id="other", due_date=clock.now(alias))
        frozen.tick(MINUTE)
        make_job(alias, tenant_id="acme")
        assert looked(alias, "counts", "timers", tenants=["acme"]).oldest_due == clock.now(alias)

    def test_a_number_is_the_least_that_there_is_where_the_table_is_larger(self, alias, monkeypatch):
        monkeypatch.setattr(counts, "COUNT_LIMIT", 3)
        for tenant in ("acme", "other", "other", "other", "acme"):
            make_row(DeadLetterJob, alias, tenant_id=tenant)
        assert str(looked(alias, "counts", tenants=["acme"]).counts.dead_letters) == "1+"

    def test_only_their_incidents_and_suspensions(self, alias):
        for tenant in ("acme", "other"):
            an_incident(alias, tenant_id=tenant)
            suspend(tenant_id=tenant, using=alias)
        suspend(process_instance_id="order-1", using=alias)
        found = looked(alias, "incidents", "suspensions", tenants=["acme"])
        assert found.incidents == 1
        assert [row.value for row in found.suspensions] == ["acme"]

    def test_what_belongs_to_no_tenant_is_left_out(self, alias):
        make_node(alias)
        found = looked(alias, "nodes", tenants=["acme"])
        assert found.nodes is None
        assert problems(found) == []


def test_suspensions_in_force_and_planned(alias, frozen):
    now = clock.now(alias)
    suspend(tenant_id="now", using=alias)
    suspend(tenant_id="later", at=now + MINUTE * 2, using=alias)
    suspend(tenant_id="sooner", at=now + MINUTE, using=alias)
    suspend(tenant_id="short", until=now + MINUTE / 2, using=alias)
    found = looked(alias, "suspensions")
    assert {row.value for row in found.suspensions} == {"now", "short"}
    assert [row.value for row in found.planned] == ["sooner", "later"]
    frozen.tick(MINUTE)
    found = looked(alias, "suspensions")
    assert {row.value for row in found.suspensions} == {"now", "sooner"}


def test_incidents_that_are_open(alias):
    an_incident(alias)
    an_incident(alias, state=IncidentState.RESOLVED)
    assert looked(alias, "incidents").incidents == 1


class TestProblems:
    """What they say; the codes are for programs."""

    def of(self, alias):
        return [(problem.code, problem.text) for problem in problems(looked(alias, "counts", "timers", *AROUND))]

    def test_none(self, alias):
        make_node(alias)
        make_job(alias)
        make_job(alias, due_date=clock.now(alias) + MINUTE)
        assert self.of(alias) == []

    def test_no_node(self, alias):
        command = "python manage.py runjobexecutor" + ("" if alias == "default" else f" --engine {alias}")
        assert self.of(alias) == [("no_node", f"No executor is running, so no job runs. Start one: {command}")]

    def test_all_nodes_stop(self, alias):
        make_node(alias)
        ExecutorNode.objects.using(alias).update(state=NodeState.DRAINING)
        assert self.of(alias) == [("no_node", "Every executor is stopping: no new jobs are started.")]

    def test_a_job_waits(self, alias, frozen):
        make_job(alias)
        frozen.tick(90)
        make_node(alias)
        assert self.of(alias) == [("late", "The oldest due job has been waiting for 1 min 30 s.")]

    def test_a_timer_is_not_triggered(self, alias, frozen):
        make_job(alias, due_date=clock.now(alias) + MINUTE)
        frozen.tick(MINUTE * 3)
        make_node(alias)
        assert self.of(alias) == [("late", "The oldest due job has been waiting for 2 min.")]

    def test_incidents(self, alias):
        make_node(alias)
        an_incident(alias)
        assert self.of(alias) == [("incidents", "1 incident is open.")]
        an_incident(alias)
        assert self.of(alias) == [("incidents", "2 incidents are open.")]

    def test_a_lease_ran_out(self, alias, frozen):
        make_node(alias, "gone")
        frozen.tick(MINUTE)
        if alias != "default":  # SQLite bears one node
            make_node(alias, "alive")
        assert ("lease", "The lease of gone expired 30 s ago: the node does not respond.") in self.of(alias)
        declare_dead(alias)
        text = "gone is dead: its lease expired 30 s ago. Its jobs are being recovered."
        assert ("lease", text) in self.of(alias)
        assert ("no_node" in dict(self.of(alias))) is (alias == "default")

    def test_stuck_threads(self, alias):
        make_node(alias, "busy")
        ExecutorNode.objects.using(alias).update(stuck_threads=2)
        text = "2 threads of busy are stuck: their jobs are still running after their timeouts."
        assert self.of(alias) == [("stuck", text)]

    @pytest.mark.parametrize("left", [{}, {"mail": {"limit": 1}}])
    def test_the_entry_of_a_resource_is_gone(self, alias, settings, left):
        make_node(alias)
        settings.JOBEXEC = {**settings.JOBEXEC, "RESOURCES": {"pay": {"limit": 1}}}
        make_job(alias, resource="pay")
        assert self.of(alias) == []
        settings.JOBEXEC = {**settings.JOBEXEC, "RESOURCES": left}
        text = "Jobs wait for the resource pay, which no entry of RESOURCES covers."
        assert self.of(alias) == [("resource_unknown", text)]


AROUND = ("nodes", "incidents", "suspensions", "resources")


def an_incident(alias, **columns):
    job = uuid7()
    return Incident.objects.using(alias).create(
        **{"timestamp": clock.now(alias), "job_id": job, "handler_type": HANDLER, "category": "default", **columns}
    )


def test_leases_are_judged_by_the_time_of_the_database(alias, frozen, monkeypatch):
    make_node(alias)
    now = frozen.now
    frozen.tick(10 * MINUTE)  # the clock of a web server that is ahead
    monkeypatch.setattr(clock, "is_frozen", lambda: False)
    monkeypatch.setattr(server_time, "database_time", lambda using: now)
    assert not problems(looked(alias, "nodes"))
