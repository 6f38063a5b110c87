"""What the database says at the end of jobs, of what they wrote, and of what may hold them."""

from typing import Any

from django.db import connection
from django.db.models import Q

from jobexec import clock
from jobexec.models import JOB_TABLES, ExclusiveLock, ExecutorNode, JobLog, Suspension

_COLUMNS = (
    "pk",
    "retries",
    "attempts",
    "lost_runs",
    "conflicts",
    "due_date",
    "exception_message",
    "suspend_requested",
    "lock_owner",
    "process_instance_id",
    "process_definition_key",
    "job_definition_id",
    "tenant_id",
)
#: What people enqueue; the jobs of batches and of the history are judged by other rules.
_PEOPLES = Q(handler_type__startswith="tests.chaos.")
_LOGGED = ("job_id", "state", "attempt", "retries", "node", "exception_message")


def look() -> dict[str, Any]:
    """Plain values, beside those of `state.look()`."""
    rows = []
    for table in JOB_TABLES:
        for row in table._base_manager.filter(_PEOPLES).values(*_COLUMNS):
            due = row["due_date"]
            row["due_in"] = None if due is None else (due - clock.now()).total_seconds()
            rows.append({"table": table.state, "job": str(row.pop("pk")), **row, "due_date": str(due)})
    with connection.cursor() as cursor:
        cursor.execute("SELECT job_id, count(*) FROM chaos_effect GROUP BY job_id")
        effects = dict(cursor.fetchall())
    logs = JobLog.objects.filter(_PEOPLES).order_by("pk").values(*_LOGGED)
    return {
        "rows": rows,
        "logs": [{**log, "job_id": str(log["job_id"])} for log in logs],
        "effects": effects,
        "suspensions": [list(each) for each in Suspension.objects.values_list("scope", "value")],
        "locks": list(ExclusiveLock.objects.values_list("process_instance_id", flat=True)),
        "nodes": list(ExecutorNode.objects.values_list("lock_owner", flat=True)),
    }
