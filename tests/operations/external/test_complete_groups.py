"""Completions that share a statement: each does, and is told, what it would do and be told alone."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import DataError, connections

import jobexec
from jobexec import signals
from jobexec.exceptions import InvalidJob, JobExecError, NotAllowed, StaleLease, WrongWorker
from jobexec.models import BatchTally, ExternalWorkerJob, Job, JobLog
from jobexec.operations.external import (
    Caller,
    Completion,
    complete_external_job,
    complete_external_jobs,
    complete_statement,
    set_external_priority,
)
from tests.support.factories import fetch, in_hands, make_external
from tests.support.threads import finish, held, start

pytestmark = [pytest.mark.databases("postgresql"), pytest.mark.every_database]

TIMES = ("create_time", "due_date", "timestamp", "lock_expiration_time", "available_at")


@pytest.fixture(autouse=True)
def ship(handle):
    options = {"retries": "R5/PT1M", "timeout": timedelta(seconds=9), "category": "default", "atomic": True}
    return handle(lambda variables, order: None, name="tests.ship", **options)


def left_in(alias: str) -> dict[str, list[Any]]:
    """What there is in the tables now, in the order of the jobs, without what is never the same twice."""
    found: dict[str, list[Any]] = {}
    for table in (Job, ExternalWorkerJob, JobLog):
        rows: Any = table._base_manager.using(alias).order_by("priority", *(["state"] if table is JobLog else []))
        found[table.__name__] = [
            {name: value for name, value in row.items() if name not in ("id", "job_id", "job_key", "rank", *TIMES)}
            for row in rows.values()
        ]
        rows.delete()
    return found


def ways(alias: str) -> list[Any]:
    """Jobs that end in all ways that one statement knows, and a completion of each."""
    on_complete = ("tests.ship", {"order": 5})
    jobs: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({"variables": {"amount": 1, "tex\t": 'ä"\\\n{,}'}}, {"variables": {"paid": True, 'x"': "\\'{a,b}"}}),
        ({"on_complete": on_complete}, {"variables": {"paid": True}}),
        ({"on_complete": on_complete, "variables": {"a": None}, "tenant_id": "acme"}, {"variables": {"paid": "'"}}),
        ({"on_complete": ("tests.ship", {"order": 6}), "headers": {"h": "x"}, "retries": 9}, {"worker": "one"}),
        ({"deployment": "shop:7", "on_complete": on_complete}, {"caller": Caller("shop")}),
        ({}, {"caller": Caller("x" * 300)}),
    ]
    made = []
    for number, (options, call) in enumerate(jobs):
        job = in_hands(alias, correlation_id=f"c{number}", priority=number, **options)
        made.append(Completion(key=job.key, **call))
    return made


@pytest.mark.parametrize("level", ["full", "none"])
def test_a_group_leaves_what_its_members_leave_alone(alias, level, configure, frozen):
    configure(HISTORY_LEVEL=level)
    for completion in ways(alias):
        complete_external_job(alias, **completion._asdict())
    alone = left_in(alias)
    group = ways(alias)
    assert complete_external_jobs(alias, group) == [True] * len(group)
    assert left_in(alias) == alone


def test_those_that_are_over_share_a_statement_and_those_that_go_on_another(alias, django_assert_num_queries):
    group = ways(alias)
    with django_assert_num_queries(3, using=alias):
        complete_external_jobs(alias, group)
    over = [Completion(in_hands(alias).key) for _ in range(9)]
    with django_assert_num_queries(2, using=alias):
        complete_external_jobs(alias, over)


def test_one_that_is_refused_is_told_why_and_its_neighbours_are_completed(alias):
    jobs = [in_hands(alias) for _ in range(9)]
    leased = in_hands(alias, lease=True)
    group = [
        Completion(jobs[0].key),
        Completion(jobs[1].key, worker="two"),
        Completion(jobs[2].key, lease="none"),
        Completion(leased.key),
        Completion(jobs[3].key, {"bad": {1}}),
        Completion(jobs[4].key, local_variables=[1]),  # type: ignore[arg-type]
        Completion(jobs[5].key, caller=Caller("mail", types=frozenset({"mail"}))),
        Completion(jobs[6].key, caller=Caller("acme", tenants=frozenset({"acme"}))),
        Completion(leased.key, lease=leased.lease_token),
        Completion(jobs[7].key, worker="one"),
        Completion(1),
        Completion(2**70),
        Completion(jobs[0].key),
        Completion(jobs[8].key),
    ]
    outcomes = complete_external_jobs(alias, group)
    assert [outcome if isinstance(outcome, bool) else type(outcome).__name__ for outcome in outcomes] == [
        True,
        "WrongWorker",
        "StaleLease",
        "StaleLease",
        "InvalidJob",
        "InvalidJob",
        "NotAllowed",
        "JobNotFound",
        False,  # its first completion was refused
        True,
        False,
        False,
        False,
        True,
    ]
    for completion, outcome in zip(group, outcomes, strict=True):
        if not isinstance(outcome, bool):
            with pytest.raises(JobExecError) as caught:
                complete_external_job(alias, **completion._asdict())
            assert (type(caught.value), str(caught.value)) == (type(outcome), str(outcome))
    assert {WrongWorker, StaleLease, InvalidJob, NotAllowed} <= {type(outcome) for outcome in outcomes}
    assert JobLog.objects.using(alias).filter(state="successful").count() == 3


def test_what_needs_another_transaction_is_left(alias, configure):
    exclusive = in_hands(alias, process_instance_id="p")
    kept = in_hands(alias, keep_result="P1D")
    large = in_hands(alias, variables={"text": "x" * 100_000})
    plain = in_hands(alias)
    group = [Completion(job.key) for job in (exclusive, kept, large, plain)]
    assert complete_external_jobs(alias, group) == [False, False, False, True]
    assert complete_external_jobs(alias, group[2:3]) == [True]


def test_children_of_a_batch_are_counted_together(alias):
    with jobexec.batch(using=alias) as batch:
        batch.add_external("payment", [{"page": number} for number in range(3)])
    make_external(alias)
    before = BatchTally.objects.using(alias).count()
    assert complete_external_jobs(alias, [Completion(job.key) for job in fetch(alias)]) == [True] * 4
    (tally,) = BatchTally.objects.using(alias).order_by("pk")[before:]
    assert tally.completed == 3
    assert batch.progress().completed == 3


def test_receivers_are_given_all_rows_of_a_group_at_once(alias, django_capture_on_commit_callbacks):
    told: list[Any] = []

    def receive(sender: Any, jobs: Any, **_: Any) -> None:
        told.append((sender, sorted(job.priority for job in jobs)))

    jobs = [in_hands(alias, priority=number) for number in range(3)]
    signals.job_completed.connect(receive)
    try:
        with django_capture_on_commit_callbacks(using=alias, execute=True):
            complete_external_jobs(alias, [Completion(job.key) for job in jobs])
    finally:
        signals.job_completed.disconnect(receive)
    assert told == [(ExternalWorkerJob, [0, 1, 2])]


@pytest.mark.transactional
def test_a_job_that_another_transaction_holds_is_skipped_and_holds_up_no_other(alias):
    jobs = [in_hands(alias) for _ in range(3)]
    group = [Completion(job.key) for job in jobs]
    with held(alias) as inside:
        inside(partial(set_external_priority, alias, jobs[1].key, 7))
        assert finish(start(alias, partial(complete_external_jobs, alias, group))) == [True, False, True]
    assert complete_external_jobs(alias, group) == [False, True, False]
    assert JobLog.objects.using(alias).filter(state="successful").count() == 3


@pytest.mark.transactional
def test_a_job_that_was_changed_since_it_was_read_is_left(alias, monkeypatch, frozen):
    jobs = [in_hands(alias) for _ in range(3)]
    write: Any = complete_statement._write

    def late(using: str, ends: Any) -> Any:
        frozen.tick(timedelta(hours=1))
        fetch(alias, worker="two", max_jobs=1)
        return write(using, ends)

    with monkeypatch.context() as patch:
        patch.setattr(complete_statement, "_write", late)
        outcomes = complete_external_jobs(alias, [Completion(job.key) for job in jobs])
    assert outcomes == [False, True, True]
    assert ExternalWorkerJob.objects.using(alias).get().lock_owner == "two"


@pytest.mark.transactional
def test_a_statement_that_fails_leaves_all_of_its_jobs_and_no_others(alias, monkeypatch):
    over = [in_hands(alias) for _ in range(2)]
    going_on = [in_hands(alias, on_complete=("tests.ship", {"order": 5})) for _ in range(2)]
    statement: Any = complete_statement._statement

    def failing(spelled: Any, shape: Any) -> str:
        return "SELECT 1 / 0" if shape.changed else str(statement(spelled, shape))

    with monkeypatch.context() as patch:
        patch.setattr(complete_statement, "_statement", failing)
        outcomes = complete_external_jobs(alias, [Completion(job.key) for job in (*over, *going_on)])
        assert outcomes == [True, True, False, False]
        with pytest.raises(DataError):
            complete_external_job(alias, going_on[0].key)
    assert connections[alias].is_usable()
    assert complete_external_jobs(alias, [Completion(job.key) for job in going_on]) == [True, True]


def test_long_configurations_are_written_in_parts(alias, monkeypatch, django_assert_num_queries):
    monkeypatch.setattr(complete_statement, "_LETTERS", 1000)
    jobs = [in_hands(alias, on_complete=("tests.ship", {"order": 5})) for _ in range(4)]
    with django_assert_num_queries(3, using=alias):
        assert complete_external_jobs(alias, [Completion(job.key, {"text": "x" * 400}) for job in jobs]) == [True] * 4
    assert Job.objects.using(alias).count() == 4
