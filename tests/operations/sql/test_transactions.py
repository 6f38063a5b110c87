"""The verbs take part in the caller's transaction: what is rolled back has not happened (Ratchet: TxRequired)."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections, transaction

from jobexec.models import JOB_TABLES, DeadLetterJob, Job, JobLog, SuspendedJob, Suspension, TimerJob
from jobexec.operations import (
    activate,
    cancel,
    delete_jobs,
    requeue,
    retry_now,
    set_due_date,
    set_priority,
    set_retries,
    suspend,
)
from jobexec.operations.sql.locks import reads_snapshots
from tests.support.factories import make_row

pytestmark = pytest.mark.every_database

LATER = datetime(2026, 3, 2, tzinfo=UTC)
VERBS = {
    "suspend": lambda rows, alias: suspend(rows[Job], using=alias),
    "suspend a scope": lambda rows, alias: suspend(using=alias, tenant_id="t"),
    "activate": lambda rows, alias: activate(rows[SuspendedJob], using=alias),
    "delete": lambda rows, alias: delete_jobs(list(rows.values()), using=alias),
    "cancel": lambda rows, alias: cancel(list(rows.values()), using=alias),
    "requeue": lambda rows, alias: requeue(rows[DeadLetterJob], 5, using=alias),
    "set_retries": lambda rows, alias: set_retries(rows[Job], 7, using=alias),
    "set_priority": lambda rows, alias: set_priority(rows[Job], 7, using=alias),
    "set_due_date": lambda rows, alias: set_due_date(rows[Job], LATER + timedelta(days=9), using=alias),
    "retry_now": lambda rows, alias: retry_now(rows[TimerJob], using=alias),
}


@pytest.mark.transactional
def test_what_a_transaction_reads_is_known_before_a_connection_is_open(alias):
    connections[alias].close()
    seen = reads_snapshots(alias)
    connections[alias].ensure_connection()
    assert reads_snapshots(alias) is seen


def everything(alias):
    """All that can be seen of the jobs, the suspensions and the log."""
    jobs = [(table, list(table._base_manager.using(alias).order_by("pk").values())) for table in JOB_TABLES]
    return jobs, Suspension.objects.using(alias).count(), JobLog.objects.using(alias).count()


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_rolled_back_has_not_happened(alias, verb):
    rows = {table: make_row(table, alias, tenant_id="t", due_date=LATER) for table in JOB_TABLES}
    before = everything(alias)
    with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
        assert VERBS[verb](rows, alias)
        assert everything(alias) != before, "seen inside"
        raise ZeroDivisionError
    assert everything(alias) == before
