"""What the fast form of a verb writes is what the verb writes row by row, column for column, with the same answer."""

from datetime import timedelta

import pytest
from django.db import OperationalError, connections, transaction

from jobexec import signals
from jobexec.identifiers import uuid7
from jobexec.models import (
    JOB_TABLES,
    DeadLetterJob,
    HistoryJob,
    Incident,
    Job,
    JobLog,
    SuspendedJob,
    Suspension,
    TimerJob,
)
from jobexec.operations import (
    activate,
    cancel,
    delete_jobs,
    end_wait,
    requeue,
    retry_now,
    set_due_date,
    set_priority,
    set_retries,
    suspend,
)
from jobexec.operations.history.incidents import open_incidents
from jobexec.operations.manage.verbs import OPERATIONS
from tests.support.columns import NOW, VALUES
from tests.support.factories import make_row
from tests.support.forms import VERBS, verbs
from tests.support.suite.tiers import some
from tests.support.threads import Undo

pytestmark = pytest.mark.every_database

LATER = NOW + timedelta(hours=2)
VERBS_ON_JOBS = {
    "requeue": lambda target, alias: requeue(target, 4, using=alias),
    "set_retries": lambda target, alias: set_retries(target, 4, using=alias),
    "retry_now": lambda target, alias: retry_now(target, using=alias),
    "set_due_date": lambda target, alias: set_due_date(target, LATER, using=alias),
    "set_due_date in the past": lambda target, alias: set_due_date(target, NOW - timedelta(days=1), using=alias),
    "set_priority": lambda target, alias: set_priority(target, 9, using=alias),
    "set_priority to the utmost": lambda target, alias: set_priority(target, 10**6, using=alias),
    "delete": lambda target, alias: delete_jobs(target, using=alias),
    "cancel": lambda target, alias: cancel(target, using=alias),
    "suspend": lambda target, alias: suspend(target, using=alias),
    "suspend until": lambda target, alias: suspend(target, until=LATER, using=alias),
    "activate": lambda target, alias: activate(target, using=alias),
    "end_wait": lambda target, alias: end_wait(target, using=alias),
}
PLAIN = {"suspend_requested": False, "cancel_requested": False, "tenant_id": ""}
#: Rows of which a page has some of each; all in one table.
KINDS = [
    PLAIN,
    {**PLAIN, "due_date": None, "priority": -3, "rank": 77},
    {**PLAIN, "due_date": NOW - timedelta(hours=1)},
    {**PLAIN, "tenant_id": "held"},
    {**PLAIN, "lock_owner": "one", "lock_expiration_time": NOW, "revision": 7},
    {**PLAIN, "lock_owner": "one", "suspend_requested": True},
    {"suspend_requested": True, "tenant_id": ""},
    {**PLAIN, "rank": 2**63 - 1, "priority": -(10**6)},
    {**PLAIN, "rank": -(2**63), "priority": 10**6},
    {**PLAIN, "waits_for": None, "waits_for_key": None, "waits_until": None},
    {**PLAIN, "type": "history"},
    {**PLAIN, "type": "external worker"},
    {**PLAIN, "type": "external worker", "due_date": None, "priority": -3},
    {**PLAIN, "type": "external worker", "lock_owner": "w", "lock_expiration_time": NOW + timedelta(days=1)},
    {**PLAIN, "type": "external worker", "tenant_id": "held"},
]


def mixture(alias, table):
    """A row of each kind, two of the plain ones with suspensions of their own; incidents for dead letters."""
    keyed = [{**VALUES, **kind, "job_key": number} for number, kind in enumerate((*KINDS, *KINDS), start=1)]
    rows = [make_row(table, alias, **columns) for columns in keyed]
    if table is DeadLetterJob:
        open_incidents(alias, rows)
    else:
        suspend(rows[0], at=NOW + timedelta(days=1), using=alias)
        suspend(rows[1], at=NOW + timedelta(days=1), until=NOW + timedelta(days=2), using=alias)
    suspend(tenant_id="held", using=alias)
    return rows


def written(alias):
    """All jobs, log entries, incidents and suspensions, without the numbers that databases give."""
    tables = (*JOB_TABLES, HistoryJob)
    jobs = {row["id"]: (table, row) for table in tables for row in table._base_manager.using(alias).values()}
    numbered = {
        model: sorted(
            (str(sorted((name, str(value)) for name, value in row.items() if name != "id")))
            for row in model.objects.using(alias).values()
        )
        for model in (JobLog, Incident, Suspension)
    }
    return jobs, numbered


def undone(alias, act):
    """What `act` returns, and what stands in the tables after it, which is then undone."""
    try:
        with transaction.atomic(alias):
            found = (act(), *written(alias))
            raise Undo
    except Undo:
        return found


#: Verbs without a form of their own for a page.
ONE_BY_ONE = {"move_to_dead_letter", "recalculate_due_date"}
#: No two ciphertexts are equal: tests/operations/manage/test_reencrypt.py compares what they decrypt to.
WITH_CHANCE = {"reencrypt"}


def test_no_verb_is_missing_here():
    assert set(OPERATIONS) - ONE_BY_ONE - WITH_CHANCE - {name.split()[0] for name in VERBS_ON_JOBS} == set()


@pytest.mark.gate
@pytest.mark.parametrize(
    ("verb", "table"),
    some([(verb, table) for verb in VERBS_ON_JOBS for table in JOB_TABLES], 3, later="nightly"),
)
def test_all_forms_write_the_same(alias, table, verb, frozen, monkeypatch):
    rows = mixture(alias, table)
    frozen.tick(60)
    # By ids on one half of the tables, and by a queryset on the other.
    by_ids = JOB_TABLES.index(table) % 2 == list(VERBS_ON_JOBS).index(verb) % 2
    for target in [[*(row.pk for row in rows), uuid7()]] if by_ids else [table.objects.using(alias).order_by("pk")]:
        found = {}
        for form in VERBS:
            with monkeypatch.context() as patch:
                verbs(form, alias, patch)
                found[form] = undone(alias, lambda target=target: VERBS_ON_JOBS[verb](target, alias))
        assert [found[form] == found[VERBS[0]] for form in VERBS] == [True] * 3


@pytest.mark.parametrize(
    ("verb", "table", "most"),
    [
        ("requeue", DeadLetterJob, 10),
        ("set_retries", Job, 5),
        ("retry_now", TimerJob, 7),
        ("set_priority", TimerJob, 5),
        ("delete", DeadLetterJob, 8),
        ("cancel", TimerJob, 9),
        ("suspend", Job, 8),
        ("activate", SuspendedJob, 10),
    ],
)
def test_a_page_takes_few_statements(alias, verb, table, most, django_assert_max_num_queries):
    rows = [make_row(table, alias) for _ in range(50)]
    with django_assert_max_num_queries(most, using=alias):
        assert len(VERBS_ON_JOBS[verb](rows, alias).changed) == 50


def test_if_the_fast_form_fails_the_page_goes_one_by_one(alias, monkeypatch, caplog):
    rows = [make_row(DeadLetterJob, alias) for _ in range(3)]

    def broken(*args, **kwargs):
        Job.objects.using(alias).create(handler_type="undone")
        raise ValueError("no")

    monkeypatch.setattr("jobexec.operations.manage.adjust.delete_page", broken)
    assert len(delete_jobs(rows, using=alias).changed) == 3
    assert not Job.objects.using(alias).exists()
    assert "3 jobs could not be changed at once" in caplog.text


@pytest.mark.transactional
def test_an_end_of_the_callers_transaction_is_told(alias, monkeypatch):
    """MySQL ends all of it at a deadlock, savepoints too: to go on one by one would be to do half of it."""
    rows = [make_row(DeadLetterJob, alias) for _ in range(3)]

    def deadlock(*args):
        raise OperationalError(1213, "Deadlock found")

    def no_such_savepoint(sid):
        raise OperationalError(1305, "SAVEPOINT does not exist")

    for place in ("delete_page", "remove_deleted"):
        with monkeypatch.context() as patch:
            patch.setattr(f"jobexec.operations.manage.adjust.{place}", deadlock)
            patch.setattr(connections[alias], "_savepoint_rollback", no_such_savepoint)
            patch.setattr("jobexec.operations.targets.for_each._FEWEST", 1 if place == "delete_page" else 9)
            with pytest.raises(OperationalError, match="Deadlock"), transaction.atomic(alias):
                delete_jobs(rows, using=alias)
    assert DeadLetterJob.objects.using(alias).count() == 3


def test_receivers_are_given_whole_rows(alias, django_capture_on_commit_callbacks):
    heard = []

    def receiver(jobs, **kwargs):
        heard.extend((job.pk, job.handler_configuration, job.retries) for job in jobs)

    signals.job_requeued.connect(receiver)
    try:
        rows = [make_row(DeadLetterJob, alias, handler_configuration={"n": number}) for number in range(3)]
        with django_capture_on_commit_callbacks(using=alias, execute=True):
            requeue(rows, 6, using=alias)
    finally:
        signals.job_requeued.disconnect(receiver)
    assert heard == [(row.pk, {"n": number}, 6) for number, row in enumerate(rows)]


def test_the_answer_is_in_the_order_of_the_target(alias):
    rows = [make_row(table, alias) for table in (TimerJob, Job, TimerJob, Job, SuspendedJob)]
    assert set_retries(rows, 2, using=alias).changed == [row.pk for row in rows]
