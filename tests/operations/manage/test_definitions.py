"""What a person says of all jobs of a definition: overriding priorities, retries."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from jobexec.exceptions import InvalidJob
from jobexec.identifiers import least_uuid7, uuid7
from jobexec.models import JOB_TABLES, Batch, DeadLetterJob, Incident, Job, JobDefinition, SuspendedJob, TimerJob
from jobexec.operations import (
    clear_overriding_priority,
    complete_jobs,
    fail_job,
    override_priority,
    set_priority,
    set_retries_by_definition,
)
from jobexec.operations.batches import definitions
from jobexec.operations.manage import priority_overrides
from jobexec.operations.manage.priority_overrides import OVERLAP, apply_overrides
from jobexec.operations.nodes.deployments import write_job_definitions
from jobexec.operations.sql import locks
from jobexec.operations.values.ranking import rank
from tests.support.factories import a_failure, a_run, acquire, make_job, make_row, reload, tables_of, work
from tests.support.threads import Undo, undo

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def definition(alias):
    write_job_definitions([{"id": name, "handler_type": name, "category": "default"} for name in "ab"], using=alias)
    return "a"


def priority_of(alias, job):
    return reload(alias, job).priority


def a_job(alias, name="a", **columns):
    return make_job(alias, handler_type=name, **columns)


class TestOverriding:
    def test_jobs_that_are_created_later_have_it_and_no_others(self, alias, definition, frozen):
        before = a_job(alias, priority=1)
        frozen.tick()
        assert override_priority("a", 7, using=alias) == 0
        frozen.tick()
        jobs = [a_job(alias, priority=2), a_job(alias, due_date=NOW + timedelta(days=1))]
        other = a_job(alias, "b", priority=3)
        assert apply_overrides(alias) == 2
        assert [priority_of(alias, job) for job in jobs] == [7, 7]
        assert (priority_of(alias, before), priority_of(alias, other)) == (1, 3)
        assert apply_overrides(alias) == 0

    @pytest.mark.parametrize("table", JOB_TABLES)
    def test_wherever_they_are(self, alias, definition, table, frozen):
        override_priority("a", -4, using=alias)
        row = make_row(table, alias, handler_type="a", job_definition_id="a", create_time=NOW, revision=5)
        assert apply_overrides(alias, NOW) == 1
        after = reload(alias, row)
        assert (type(after), after.priority, after.revision) == (table, -4, 5)

    def test_they_are_acquired_in_the_new_order(self, alias, definition, configure, frozen):
        configure(engine={"PRIORITY_AGEING": timedelta(minutes=1)})
        override_priority("a", 9, using=alias)
        first, second = a_job(alias, "b"), a_job(alias)
        apply_overrides(alias)
        assert reload(alias, second).rank == rank(alias, NOW, 9)
        assert [job.id for job in acquire(alias)] == [second.pk, first.pk]

    def test_of_one_that_runs_it_counts_from_its_next_attempt(self, alias, definition, frozen):
        override_priority("a", 9, using=alias)
        running, done = work(alias, handler_type="a"), work(alias, "two", handler_type="a")
        assert apply_overrides(alias) == 2
        assert complete_jobs(alias, [(done, a_run(alias))]) == {done.id}, "its outcome counts"
        assert fail_job(alias, running, a_failure(), a_run(alias)).pk == running.id
        assert priority_of(alias, running) == 9

    def test_the_highest_and_the_lowest(self, alias, definition):
        jobs = [a_job(alias, priority=-1_000_000), a_job(alias, priority=1_000_000)]
        for priority in (1_000_000, -1_000_000):
            override_priority("a", priority, cascade=True, using=alias)
            assert [priority_of(alias, job) for job in jobs] == [priority, priority]

    def test_the_next_look_goes_back_only_a_little(self, alias, definition, frozen):
        override_priority("a", 9, using=alias)
        frozen.tick(3600)
        now = NOW + timedelta(hours=1)
        ids = {"late": least_uuid7(now - OVERLAP), "too late": least_uuid7(now - OVERLAP - timedelta(seconds=1))}
        late, too_late = a_job(alias, id=ids["late"]), a_job(alias, id=ids["too late"])
        assert apply_overrides(alias, now) == 1
        assert (priority_of(alias, late), priority_of(alias, too_late)) == (9, 0)
        assert apply_overrides(alias) == 1, "the first look goes back to the beginning"
        assert priority_of(alias, too_late) == 9

    def test_where_ids_are_not_in_the_order_of_time_all_are_looked_at(self, alias, definition, frozen, monkeypatch):
        override_priority("a", 9, using=alias)
        job = a_job(alias, id=least_uuid7(NOW - timedelta(days=1)))
        assert apply_overrides(alias, NOW) == 0
        monkeypatch.setattr(priority_overrides, "ids_sort_by_time", lambda using: False)
        assert apply_overrides(alias, NOW) == 1
        assert priority_of(alias, job) == 9

    def test_many_pages(self, alias, definition, monkeypatch):
        monkeypatch.setattr(priority_overrides, "_PAGE", 3)
        override_priority("a", 9, using=alias)
        jobs = [a_job(alias) for _ in range(8)]
        assert apply_overrides(alias) == 8
        assert {priority_of(alias, job) for job in jobs} == {9}

    def test_two_definitions(self, alias, definition, frozen):
        override_priority("a", 9, using=alias)
        frozen.tick(60)
        between = a_job(alias, "b")
        frozen.tick(60)
        override_priority("b", 5, using=alias)
        jobs = [a_job(alias), a_job(alias, "b"), between]
        assert apply_overrides(alias) == 2
        assert [priority_of(alias, job) for job in jobs] == [9, 5, 0]

    def test_what_a_person_sets_afterwards_stays_once_the_job_is_older(self, alias, definition, frozen):
        override_priority("a", 9, using=alias)
        job = a_job(alias, id=least_uuid7(NOW))
        apply_overrides(alias)
        set_priority(job, 3, using=alias)
        frozen.tick(2 * OVERLAP)
        assert apply_overrides(alias, NOW + 2 * OVERLAP) == 0
        assert priority_of(alias, job) == 3

    def test_nothing_is_overridden(self, alias, definition):
        a_job(alias)
        with CaptureQueriesContext(connections[alias]) as queries:
            assert apply_overrides(alias) is None
        assert len(queries) == 1

    def test_enqueueing_asks_nobody(self, alias, definition):
        override_priority("a", 9, using=alias)
        with CaptureQueriesContext(connections[alias]) as queries:
            a_job(alias)
        assert len(queries) == 1

    def test_a_node_that_starts_leaves_it_alone(self, alias, definition, frozen):
        override_priority("a", 9, using=alias)
        frozen.tick(60)
        write_job_definitions([{"id": "a", "handler_type": "a", "category": "mail"}], using=alias)
        row = JobDefinition.objects.using(alias).get(pk="a")
        assert (row.category, row.overriding_priority, row.overriding_since) == ("mail", 9, NOW)


class TestChanging:
    def test_cleared(self, alias, definition, frozen):
        override_priority("a", 9, using=alias)
        early = a_job(alias)
        frozen.tick()
        clear_overriding_priority("a", using=alias)
        assert priority_of(alias, early) == 9, "it was created in time, and nobody had looked yet"
        assert apply_overrides(alias) is None
        late = a_job(alias, priority=2)
        assert (priority_of(alias, early), priority_of(alias, late)) == (9, 2)
        row = JobDefinition.objects.using(alias).get(pk="a")
        assert (row.overriding_priority, row.overriding_since) == (None, None)

    def test_changed(self, alias, definition, frozen):
        override_priority("a", 9, using=alias)
        early = a_job(alias)
        frozen.tick()
        override_priority("a", 5, using=alias)
        frozen.tick()
        late = a_job(alias)
        assert apply_overrides(alias) == 1
        assert (priority_of(alias, early), priority_of(alias, late)) == (9, 5)

    @pytest.mark.parametrize(
        "verb", [lambda id, using: override_priority(id, 1, using=using), clear_overriding_priority]
    )
    def test_an_unknown_definition(self, alias, verb):
        with pytest.raises(JobDefinition.DoesNotExist, match="There is no job definition 'x'"):
            verb("x", using=alias)
        assert not JobDefinition.objects.using(alias).exists(), "the caller's transaction goes on"

    @pytest.mark.parametrize("priority", [None, "3", 1.5, True, 1_000_001])
    def test_what_is_no_priority(self, alias, definition, priority):
        with pytest.raises(InvalidJob, match="priority: expected a number"):
            override_priority("a", priority, using=alias)

    def test_what_is_no_cascade(self, alias, definition):
        with pytest.raises(InvalidJob, match="cascade: expected True or False, got 1"):
            override_priority("a", 1, cascade=1, using=alias)

    @pytest.mark.transactional
    def test_what_is_rolled_back_has_not_happened(self, alias, definition):
        from django.db import transaction

        job = a_job(alias)
        with pytest.raises(Undo), transaction.atomic(alias):
            override_priority("a", 9, cascade=True, using=alias)
            undo()
        assert priority_of(alias, job) == 0
        assert apply_overrides(alias) is None


class TestCascade:
    def test_all_that_exist(self, alias, definition, frozen):
        columns = {"handler_type": "a", "job_definition_id": "a"}
        rows = [make_row(table, alias, **columns, rank=rank(alias, NOW, 0)) for table in JOB_TABLES]
        other = a_job(alias, "b")
        frozen.tick(timedelta(days=9))
        assert override_priority("a", 9, cascade=True, using=alias) == len(rows)
        for row in rows:
            after = reload(alias, row)
            assert (type(after), after.priority, after.rank) == (type(row), 9, rank(alias, NOW, 9))
            assert after.revision == row.revision
        assert priority_of(alias, other) == 0

    def test_one_that_moves_between_the_tables_is_not_missed(self, alias, definition, monkeypatch):
        """It was acquired and failed while the other tables were walked through."""
        timer = a_job(alias, due_date=NOW + timedelta(days=1))
        walk, moved = priority_overrides._walk, []

        def walk_and_move(table, *arguments):
            if table is TimerJob and not moved:
                moved.append(job := work(alias, handler_type="b", job_definition_id="a"))
                result = walk(table, *arguments)
                fail_job(alias, job, a_failure(), a_run(alias))
                return result
            if table is Job and not moved:
                return 0, []
            return walk(table, *arguments)

        monkeypatch.setattr(priority_overrides, "_walk", walk_and_move)
        monkeypatch.setattr(priority_overrides, "JOB_TABLES", (TimerJob, SuspendedJob, DeadLetterJob, Job))
        assert override_priority("a", 9, cascade=True, using=alias) == 2
        assert (priority_of(alias, timer), priority_of(alias, moved[0])) == (9, 9)


class TestRetries:
    def test_all_dead_letters_of_a_definition(self, alias):
        dead = [make_row(DeadLetterJob, alias, job_definition_id="a", retries=0) for _ in range(3)]
        other = make_row(DeadLetterJob, alias, job_definition_id="b", retries=0)
        alive = a_job(alias, retries=1)
        result = set_retries_by_definition("a", 4, using=alias)
        assert result.changed == [row.pk for row in dead]
        assert {reload(alias, row).retries for row in dead} == {4}
        tables = tables_of(alias)
        assert {pk for pk, found in tables.items() if found == [DeadLetterJob]} == {other.pk}
        assert reload(alias, alive).retries == 1

    def test_their_incidents_are_resolved(self, alias):
        job = work(alias, handler_type="a")
        fail_job(alias, job, a_failure(kind="fatal"), a_run(alias))
        set_retries_by_definition("a", 1, using=alias)
        assert Incident.objects.using(alias).get().state == "resolved"

    def test_many_are_left_to_a_batch(self, alias, monkeypatch):
        monkeypatch.setattr(definitions, "_FEW", 2)
        for _ in range(3):
            make_row(DeadLetterJob, alias, job_definition_id="a", retries=0)
        batch = set_retries_by_definition("a", 4, using=alias, user="ada")
        assert isinstance(batch, Batch)
        assert (batch.type, batch.arguments, batch.create_user) == ("set_retries", {"retries": 4}, "ada")
        assert DeadLetterJob.objects.using(alias).count() == 3

    @pytest.mark.parametrize("retries", [0, "3", None])
    def test_at_least_one(self, alias, retries):
        with pytest.raises(InvalidJob, match="at least 1"):
            set_retries_by_definition("a", retries, using=alias)

    @pytest.mark.parametrize("id", ["", None])
    def test_which_definition(self, alias, id):
        with pytest.raises(InvalidJob, match="job_definition_id: expected a string"):
            set_retries_by_definition(id, 1, using=alias)


def test_whether_ids_sort_by_time_is_true_of_this_database(alias):
    locks.ids_sort_by_time.cache_clear()
    moments = [NOW + timedelta(seconds=number) for number in range(5)]
    ids = [least_uuid7(moment) for moment in moments] + [uuid7()]
    for id in ids[::-1]:
        make_row(Job, alias, id=id)
    in_order = list(Job.objects.using(alias).order_by("pk").values_list("pk", flat=True)) == ids
    assert locks.ids_sort_by_time(alias) == in_order
