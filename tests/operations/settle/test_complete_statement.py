"""Completion in one statement means what its portable form means, to the last column of the log."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from jobexec.models import Job, JobLog, TaskResult
from jobexec.operations import complete_jobs, release_jobs
from jobexec.operations.rows import fencing
from jobexec.operations.settle import complete, complete_statement, result_statement
from jobexec.operations.settle.complete import complete_with_results
from jobexec.operations.sql import insert_select
from jobexec.operations.sql.postgresql import PostgreSQL
from jobexec.operations.values.run import Result, Run
from tests.support.columns import VALUES
from tests.support.factories import acquire, make_row

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROWS = [
    VALUES | {"suspend_requested": False, "process_instance_id": "", "category": "default", "deployment_id": ""},
    {"due_date": None, "create_time": NOW - timedelta(milliseconds=1234)},
    {"due_date": NOW + timedelta(hours=1)},  # it began before: no wait is negative
    {"due_date": NOW - timedelta(days=400, milliseconds=7), "attempts": 9, "retries": 0},
    {"tenant_id": "ä'\"\\", "job_definition_id": "{,}", "process_definition_key": "%s"},
    {"process_instance_id": "p", "exclusive": True},
    {"process_instance_id": "p", "exclusive": True},
    {"process_instance_id": "q", "exclusive": False},
]
#: What a result says about its run.
TIMES = ["id", "first_time", "last_time", "end_time", "expires_at", "workers"]


class Undo(Exception):
    pass


def completed(alias, monkeypatch, form, act):
    """What ``act`` returns, the log rows by job, and the jobs that are left; all is undone."""
    names = [field.attname for field in JobLog._meta.concrete_fields if not field.primary_key]
    with monkeypatch.context() as patch, pytest.raises(Undo), transaction.atomic(using=alias):
        if form != "fast":
            patch.setattr(complete, "returns_rows", lambda using: False)
        if form == "portable":
            patch.setattr(complete, "can_log_runs", lambda using: False)
            for module in (result_statement, insert_select):
                patch.setattr(module, "is_possible", lambda using: False)
        result = act()
        logged = [dict(zip(names, row, strict=True)) for row in JobLog.objects.using(alias).values_list(*names)]
        left = set(Job.objects.using(alias).values_list("pk", "lock_owner", "revision"))
        raise Undo
    return result, {row.pop("job_id"): row for row in logged}, left


def both(alias, monkeypatch, act):
    return [completed(alias, monkeypatch, form, act) for form in ("fast", "portable")]


@pytest.fixture
def jobs(alias):
    for number, row in enumerate(ROWS):
        make_row(Job, alias, rank=number, **{"create_time": NOW - timedelta(seconds=number)} | row)
    return acquire(alias)


def runs(jobs):
    """A different run for each of them."""
    return [
        (job, Run(NOW + timedelta(milliseconds=37 * number), 0.1 * number, f"nöde {number}'"))
        for number, job in enumerate(jobs)
    ]


@pytest.mark.parametrize("form", ["fast", "in several"])
@pytest.mark.parametrize("level", ["none", "failures", "activity", "full"])
def test_rows_of_the_log_are_the_same_in_every_column(alias, configure, monkeypatch, jobs, level, form):
    configure(HISTORY_LEVEL=level)
    assert len(jobs) == len(ROWS)
    (fast, fast_log, fast_left), (portable, log, left) = (
        completed(alias, monkeypatch, each, lambda: complete_jobs(alias, runs(jobs))) for each in (form, "portable")
    )
    assert fast == portable == {job.id for job in jobs}
    assert fast_left == left == set()
    assert fast_log.keys() == log.keys()
    successes = {pk for pk, row in log.items() if row["state"] == "successful"}
    assert successes == ({job.id for job in jobs} if level in ("activity", "full") else set())
    for pk, row in log.items():
        assert fast_log[pk].pop("wait") == (None if row["wait"] is None else pytest.approx(row["wait"], abs=0.002))
        row.pop("wait")
        assert fast_log[pk] == row


@pytest.mark.parametrize("nodes", [["one"], ["", "one"], ["one", "two", "one"]])
def test_runs_of_one_node_and_of_several(alias, configure, monkeypatch, jobs, nodes):
    configure(HISTORY_LEVEL="activity")
    told = [(job, replace(run, node=nodes[at % len(nodes)])) for at, (job, run) in enumerate(runs(jobs))]
    logs = [log for _, log, _ in both(alias, monkeypatch, lambda: complete_jobs(alias, told))]
    for log in logs:
        assert {pk: row["node"] for pk, row in log.items()} == {job.id: run.node for job, run in told}


@pytest.mark.parametrize("start", [NOW.replace(microsecond=1), NOW.replace(year=2099, microsecond=999_999)])
def test_results_are_the_same_to_the_microsecond(alias, monkeypatch, start):
    for number in range(3):
        make_row(Job, alias, rank=number, task_backend="default")
    ends = [(0.0, "one", None), (1.2345675e-05, "two", timedelta(seconds=1.5)), (86400.1, "one", None)]
    done = [
        (job, Run(start, duration, node), Result("1", keep_for))
        for job, (duration, node, keep_for) in zip(acquire(alias), ends, strict=True)
    ]

    def act():
        lost = complete_with_results(alias, done)
        return lost, sorted(TaskResult.objects.using(alias).values_list(*TIMES))

    (fast, *_), (portable, *_) = both(alias, monkeypatch, act)
    assert fast == portable
    lost, rows = fast
    assert lost == set()
    assert [row[1] for row in rows] == [start] * 3


@pytest.mark.parametrize("level", ["none", "activity"])
def test_what_is_not_ours_stays_and_is_not_logged(alias, configure, monkeypatch, jobs, level):
    configure(HISTORY_LEVEL=level)
    again = jobs[:3]
    release_jobs(alias, again)
    fresh = acquire(alias, "one", limit=1)  # at a higher revision than the others
    taken = acquire(alias, "two")
    assert (len(fresh), len(taken)) == (1, 2)
    late = [again[0], *again[1:], *jobs[4:], replace(jobs[3], lock_owner="gone")]
    (fast, fast_log, fast_left), (portable, log, left) = both(
        alias, monkeypatch, lambda: complete_jobs(alias, runs(late))
    )
    assert fast == portable == {job.id for job in jobs[4:]}
    assert fast_left == left
    assert {pk for pk, _, _ in left} == {fresh[0].id, *(job.id for job in taken), jobs[3].id}
    assert fast_log.keys() == log.keys() == (fast if level == "activity" else set())


@pytest.mark.parametrize("level", ["none", "activity"])
def test_a_commit_in_doubt_that_is_repeated_changes_nothing(alias, configure, monkeypatch, jobs, level):
    configure(HISTORY_LEVEL=level)

    def twice():
        return complete_jobs(alias, runs(jobs)), complete_jobs(alias, runs(jobs))

    (fast, fast_log, _), (portable, log, _) = both(alias, monkeypatch, twice)
    assert fast == portable == ({job.id for job in jobs}, set())
    assert fast_log.keys() == log.keys() == (fast[0] if level == "activity" else set())


def test_revisions_that_are_all_different(alias, monkeypatch):
    for number in range(40):
        make_row(Job, alias, rank=number, revision=1 + number % 13)
    made = acquire(alias)
    stale = [replace(job, revision=job.revision - 1) for job in made[:5]]
    (fast, _, fast_left), (portable, _, left) = both(
        alias, monkeypatch, lambda: complete_jobs(alias, runs([*stale, *made[5:]]))
    )
    assert fast == portable == {job.id for job in made[5:]}
    assert fast_left == left
    assert len(left) == 5


def test_revisions_make_no_new_statements(jobs):
    """Retried jobs have any revision: with it in the text, each group of outcomes was kept as another statement."""
    texts = {
        fencing.held_sql([replace(job, revision=first + at) for at, job in enumerate(jobs[:3])], {}, PostgreSQL())
        for first in range(50)
    }
    assert len(texts) == 1
    for cached in (complete_statement._logged_at_once, result_statement._statement):
        assert cached.cache_info().maxsize == complete_statement.KEPT
