"""What the database says at the end, as plain values that can be kept in a file."""

from typing import Any

from django.db import connection

from jobexec.models import (
    JOB_TABLES,
    RUNNABLE_TABLES,
    ExclusiveLock,
    ExecutorNode,
    Incident,
    IncidentState,
    JobLog,
    Suspension,
)
from tests.chaos.state.rest import dead_nodes

_COLUMNS = ("pk", "handler_type", "lock_owner", "due_date", "tenant_id", "suspend_requested", "exception_message")
_LOGGED = ("job_id", "state", "handler_type", "exception_message")


def make_tables() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE chaos_effect (job_id varchar(36), pid int)")


def look() -> dict[str, Any]:
    """Everything that the rules ask for. The executors must have ended."""
    rows = []
    for table in JOB_TABLES:
        for row in table._base_manager.values(*_COLUMNS):
            rows.append({"table": str(table.state), "job": str(row.pop("pk")), **row})
    with connection.cursor() as cursor:
        cursor.execute("SELECT job_id, count(*) FROM chaos_effect GROUP BY job_id")
        effects = dict(cursor.fetchall())
    logs = JobLog.objects.order_by("pk").values(*_LOGGED)
    incidents = Incident.objects.filter(state=IncidentState.OPEN, resource=None)
    return {
        "rows": rows,
        "logs": [{**log, "job_id": str(log["job_id"])} for log in logs],
        "effects": effects,
        "incidents": [str(job) for job in incidents.values_list("job_id", flat=True)],
        "suspended_tenants": list(Suspension.objects.filter(scope="tenant_id").values_list("value", flat=True)),
        "locks": list(ExclusiveLock.objects.values_list("process_instance_id", "lock_owner")),
        "nodes": list(ExecutorNode.objects.values_list("lock_owner", flat=True)),
    }


def at_rest() -> bool:
    """Whether there is nothing that anybody could do or does."""
    if dead_nodes() or ExclusiveLock.objects.exists():
        return False
    return not any(table._base_manager.exists() for table in RUNNABLE_TABLES)
