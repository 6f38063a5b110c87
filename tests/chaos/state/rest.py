"""Whether there is rest, and who keeps it from coming: what is asked while all of it runs."""

from collections import Counter

from django.db.models import Q

from jobexec import clock
from jobexec.models import (
    JOB_TABLES,
    Batch,
    BlockedJob,
    ExclusiveLock,
    ExecutorNode,
    HistoryJob,
    JobLog,
    LogState,
    NodeState,
)
from jobexec.models.batch import JOBS
from jobexec.operations.rows.tallies import states
from jobexec.operations.sql.server_time import database_time


def in_hand() -> dict[str, int]:
    """How many jobs each node holds, by its name."""
    owners = JOB_TABLES[0]._base_manager.exclude(lock_owner=None).values_list("lock_owner", flat=True)
    return dict(Counter(str(owner).split(":")[0] for owner in owners))


def dead_nodes() -> bool:
    """Whether there are nodes that nobody has recovered yet."""
    now = database_time("default") or clock.now()
    return ExecutorNode.objects.filter(Q(state=NodeState.DEAD) | Q(lease_expiration_time__lt=now)).exists()


def successes() -> int:
    """How many jobs have succeeded so far."""
    return JobLog.objects.filter(state=LogState.SUCCESSFUL).count()


def _held_up() -> list[str]:
    """The process instances of batches of jobs that wait for a child which nobody lets run any more."""
    going = [batch.pk for batch in Batch.objects.filter(type=JOBS, state="running")]
    return [f"batch:{each.id}" for each in states("default", going) if each.figures.open]


def at_rest() -> bool:
    """Nothing can run or runs, and no timer is due within a minute. What nodes say of their threads is a bit old."""
    if ExclusiveLock.objects.exists() or ExecutorNode.objects.filter(Q(busy_threads__gt=0) | Q(stuck_threads__gt=0)):
        return False
    if dead_nodes():
        return False
    executable, timers = JOB_TABLES[0], JOB_TABLES[1]
    if executable._base_manager.exists() or BlockedJob.objects.exists():
        return False
    for table in (timers, HistoryJob):
        rows = table._base_manager.exclude(process_instance_id__in=_held_up())
        soon = rows.order_by("due_date").values_list("due_date", flat=True).first()
        if soon is not None and (soon - clock.now()).total_seconds() < 60:
            return False
    return not (executable._base_manager.exists() or BlockedJob.objects.exists())
