"""Locks whose owner is gone are freed by hand."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from jobexec.exceptions import JobLocked
from jobexec.models import JOB_TABLES, AbstractJob, ExecutorNode, ExternalWorkerJob, Job, NodeState

from ..audit import audited
from ..external.give_back import give_back
from ..nodes.leases import declare_one_dead
from ..notify.wake import wake_on_commit
from ..rows.remove import remove_waiting
from ..settle.recover import recover_job
from ..sql.server_time import time_of
from ..targets.for_each import CHANGED_MEANWHILE, OperationResult, Target, database_of, for_each


@audited
def unlock(target: Target, *, using: str | None = None) -> OperationResult:
    """Free the lock of jobs whose owner has gone; refused, with the reason, while the owner lives.

    What recovery does to all jobs of a dead node, done to these at once: the lost run is counted, the process instance
    is freed. An owner has gone if its node is dead, or has a lease that has run out by the database's time: it is then
    declared dead, and what it still does does not count. A lock without a node (execute now) is good until it expires;
    one that says no time, or stands in a row that nobody runs, is inconsistent and freed. (Camunda's SetJobRetriesCmd
    clears inconsistent locks only.)

    A job that a worker outside holds, or held until its deadline, is given back at once, whatever the worker does:
    others may fetch it, and what the worker says of it later counts only while nobody has (Camunda 7: unlock).
    """
    database = database_of(target, using)
    now = time_of(database)
    return for_each(target, database, lambda row: _unlock(database, row, now), *JOB_TABLES)


def _unlock(using: str, row: AbstractJob, now: datetime) -> str | None:
    if isinstance(row, ExternalWorkerJob):
        return _give_back(using, row)
    if not row.locked:
        return gettext_noop("it is not locked")
    if not isinstance(row, Job):
        type(row)._base_manager.using(using).filter(pk=row.pk).update(lock_owner=None, lock_expiration_time=None)
        return None
    node = ExecutorNode.objects.using(using).filter(lock_owner=row.lock_owner).first()
    _refuse_living(row, node, now)
    if not recover_job(using, row, node.name if node else "without a node"):
        return CHANGED_MEANWHILE
    # Last, as nodes are locked after all else. A heartbeat that came first has made all its locks good again.
    if node is not None and not declare_one_dead(using, node):
        raise JobLocked(_("node %(node)s has just come back") % {"node": node.name})
    wake_on_commit(using)
    return None


def _give_back(using: str, row: ExternalWorkerJob) -> str | None:
    if row.lock_owner is None:
        return gettext_noop("it is not locked")
    if row.cancel_requested:
        remove_waiting(using, [row])
        return None
    return None if give_back(using, row, due_date=None) else CHANGED_MEANWHILE


def _refuse_living(row: Job, node: ExecutorNode | None, now: datetime) -> None:
    if node is None:
        until = row.lock_expiration_time
        if until is not None and until > now:
            text = _("it is locked by %(owner)r, which has no node, until %(until)s")
            raise JobLocked(text % {"owner": row.lock_owner, "until": until})
    elif node.state != NodeState.DEAD and node.lease_expiration_time >= now:
        text = _("node %(node)s holds it and is alive: lease valid until %(until)s")
        raise JobLocked(text % {"node": node.name, "until": node.lease_expiration_time})
