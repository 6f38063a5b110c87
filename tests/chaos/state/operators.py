"""What the database says at the end of batches, incidents, meters and the history that was recorded."""

from collections import Counter
from typing import Any

from django.db import connection
from django.db.models import Count, Sum

from jobexec.models import (
    BATCH_HANDLERS,
    JOB_TABLES,
    Batch,
    BatchFailure,
    BatchPart,
    DeadLetterJob,
    FailureGroup,
    HistoryJob,
    Incident,
    JobLog,
    MeterLog,
)
from jobexec.models.batch import JOBS
from jobexec.operations.batches.of_jobs import figures_of
from jobexec.operations.reports.meters import JOB_FAILED, JOB_SUCCESSFUL


def look() -> dict[str, Any]:
    """Plain values, beside those of `state.look()`."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT record, count(*) FROM chaos_ledger GROUP BY record")
        ledger = dict(cursor.fetchall())
    of_jobs = list(Batch.objects.filter(type=JOBS).values_list("pk", flat=True))
    opened = Incident.objects.filter(state="open", resource=None).values_list("job_id", flat=True)
    return {
        "ledger": ledger,
        "unwritten": _records(HistoryJob.objects.all()),
        "buried": _records(DeadLetterJob.objects.filter(type="history")),
        "incidents": sorted(map(str, opened)),
        "dead": sorted(map(str, DeadLetterJob.objects.values_list("pk", flat=True))),
        "batches": [_batch(batch) for batch in Batch.objects.exclude(type=JOBS)],
        "job_batches": [_job_batch(batch) for batch in Batch.objects.filter(type=JOBS)],
        "batch_jobs": [
            [table.state, str(row.batch_id), row.handler_type, row.exception_message]
            for table in JOB_TABLES
            for row in table._base_manager.filter(handler_type__in=BATCH_HANDLERS).exclude(batch_id__in=of_jobs)
        ],
        "meters": {name: _by_handler(name) for name in (JOB_SUCCESSFUL, JOB_FAILED)},
        "failure_groups": FailureGroup.objects.aggregate(sum=Sum("count"))["sum"] or 0,
        "logged": {state: _logged(state) for state in ("successful", "failed")},
    }


def _job_batch(batch: Batch) -> dict[str, Any]:
    """A batch of people's jobs; what followed it is counted in the log, which has each job from its creation on."""
    own = {"process_instance_id": batch.process_instance_id}
    created = JobLog.objects.filter(state="created", **own)
    follows = {name: created.filter(handler_type=f"chaos.{name}").count() for name in ("all_done", "not_all_done")}
    dead = DeadLetterJob.objects.filter(handler_type__in=BATCH_HANDLERS, **own).exists()
    figures = figures_of("default", batch.pk)
    return {"name": batch.name, "state": batch.state, "stalled": dead, **figures._asdict(), **follows}


def _records(rows: Any) -> dict[str, int]:
    return Counter(record["id"] for row in rows for record in row.handler_configuration["records"])


def _batch(batch: Batch) -> dict[str, Any]:
    counts = {name: getattr(batch, name) for name in ("total", "changed", "skipped")}
    failures, parts = (model.objects.filter(batch_id=batch.pk).count() for model in (BatchFailure, BatchPart))
    return {"id": str(batch.pk), "type": batch.type, "state": batch.state, **counts} | {
        "failures": failures,
        "parts": parts,
    }


def _by_handler(name: str) -> dict[str, int]:
    rows = MeterLog.objects.filter(name=name).values_list("key").order_by("key")
    return dict(rows.annotate(sum=Sum("value")))


def _logged(state: str) -> dict[str, int]:
    rows = JobLog.objects.filter(state=state)
    return dict(rows.values_list("handler_type").order_by("handler_type").annotate(count=Count("pk")))
