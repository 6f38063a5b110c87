"""What the database says at the end, as plain values that can be kept in a file."""

from collections import Counter
from typing import Any

from django.db import connection
from django.db.models import Q

from jobexec import clock
from jobexec.models import JOB_TABLES, ExclusiveLock, ExecutorNode, HistoryJob, JobLog, NodeState, Suspension
from jobexec.operations.sql.server_time import database_time

from . import state_of_operators, state_of_tasks

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


def make_tables() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE chaos_effect (job_id varchar(36), pid int)")
        cursor.execute("CREATE TABLE chaos_ledger (record varchar(60), pid int)")


def look() -> dict[str, Any]:
    """Everything that the rules ask for. The nodes must have ended."""
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
        **state_of_operators.look(),
        **state_of_tasks.look(),
        "rows": rows,
        "logs": [{**log, "job_id": str(log["job_id"])} for log in logs],
        "effects": effects,
        "suspensions": [list(each) for each in Suspension.objects.values_list("scope", "value")],
        "locks": list(ExclusiveLock.objects.values_list("process_instance_id", flat=True)),
        "nodes": list(ExecutorNode.objects.values_list("lock_owner", flat=True)),
    }


def in_hand() -> dict[str, int]:
    """How many jobs each node holds, by its name."""
    owners = JOB_TABLES[0]._base_manager.exclude(lock_owner=None).values_list("lock_owner", flat=True)
    return dict(Counter(str(owner).split(":")[0] for owner in owners))


def dead_nodes() -> bool:
    """Whether there are nodes that nobody has recovered yet."""
    now = database_time("default") or clock.now()
    return ExecutorNode.objects.filter(Q(state=NodeState.DEAD) | Q(lease_expiration_time__lt=now)).exists()


def at_rest() -> bool:
    """Nothing can run or runs, and no timer is due within a minute. What nodes say of their threads is a bit old."""
    if ExclusiveLock.objects.exists() or ExecutorNode.objects.filter(Q(busy_threads__gt=0) | Q(stuck_threads__gt=0)):
        return False
    if dead_nodes():
        return False
    executable, timers = JOB_TABLES[0], JOB_TABLES[1]
    if executable._base_manager.exists():
        return False
    for table in (timers, HistoryJob):
        soon = table._base_manager.order_by("due_date").values_list("due_date", flat=True).first()
        if soon is not None and (soon - clock.now()).total_seconds() < 60:
            return False
    return not executable._base_manager.exists()
