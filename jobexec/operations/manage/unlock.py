"""Free the locks of owners that are gone, on an operator's request."""

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
    """Free the lock of jobs whose owner is gone; refused, with the reason, while the owner is alive.

    Does for these jobs immediately what recovery does for all jobs of a dead node: the lost run is counted, the process
    instance is freed. An owner is gone if its node is dead, or if its lease has expired by the database's time: the
    node is then declared dead, and its further work does not count. A lock without a node (execute now) is valid until
    it expires; a lock without an expiration time, or in a table whose jobs are not run, is inconsistent and freed.
    (Camunda's SetJobRetriesCmd clears inconsistent locks only.)

    A job that an external worker holds, or held until its deadline, is given back immediately, whatever the worker
    does: others may fetch it, and the worker's outcome counts only until another has fetched it (Camunda 7: unlock).
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
    node = ExecutorNode.objects.using(using).filter(lock_owner=row.lock_owner).told_apart().first()
    _refuse_living(row, node, now)
    if not recover_job(using, row, node.name if node else "without a node"):
        return CHANGED_MEANWHILE
    # Last, as nodes are locked after everything else. An earlier heartbeat has made all its locks valid again.
    if node is not None and not declare_one_dead(using, node):
        raise JobLocked(_("node %(node)s has just come back") % {"node": node.label})
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
        raise JobLocked(text % {"node": node.label, "until": node.lease_expiration_time})
