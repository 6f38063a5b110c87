"""Cancel any number of instances, as a batch of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from jobexec.handlers.batch import JobBatch
from jobexec.handlers.calls import JobCall
from jobexec.handlers.context import JobContext
from jobexec.handlers.decorator import job
from jobexec.identifiers import uuid7
from jobexec.operations.audit import audited, count_more, note
from jobexec.operations.batches.of_jobs import begin_batch
from jobexec.operations.sql.session import is_of_connection

from ..exceptions import InstanceOver
from ..handlers.results import check_text
from ..models import ProcessInstance
from ..models.instance import RUNNING
from .instances import INSTANCE, LONGEST_REASON, cancel, skipped

#: Instances of one job, and those that are read at once.
_PAGE, _READ = 50, 5_000


@audited
def cancel_all(
    instances: QuerySet[ProcessInstance], reason: str = "", *, skip_listeners: bool = False, user: str = ""
) -> JobBatch:
    """Cancel the instances of a queryset that run now and were not called by another instance. Returns a batch.

    ``user`` is shown as the user who started the batch. Each of its jobs cancels 50 instances. The batch shows the
    progress, and you can cancel it. It leaves alone instances that have ended in the meantime. If an instance cannot be
    cancelled, its job cancels the others and fails. ``skip_listeners``: see :func:`~jobexec.processes.cancel`.
    """
    using, count, more = instances.db, 0, skipped(skip_listeners)
    check_text("reason", reason, LONGEST_REASON)

    def calls() -> Iterator[JobCall]:
        nonlocal count
        for page in _pages(instances):
            count += len(page)
            yield cancel_page.using(database=using).s([str(id) for id in page], reason, **more)

    id = uuid7()
    with transaction.atomic(using=using):
        # Before the batch: only the first note of a change is written.
        note(using, INSTANCE, new={"reason": reason, "batch": str(id)} | more, count=0)
        begin_batch(using, name="Cancel process instances", arguments={}, deadline=None, tenant_id="", user=user, id=id)
    with JobBatch(id, using) as made:
        made.add_many(calls())
    count_more(using, count)
    return made


def _pages(instances: QuerySet[ProcessInstance]) -> Iterator[list[UUID]]:
    """By primary key: the jobs of the first pages run while the last ones are read."""
    running = instances.filter(state__in=RUNNING, parent_execution_id=None).order_by("pk").values_list("pk", flat=True)
    last = None
    while found := list((running.filter(pk__gt=last) if last else running)[:_READ]):
        yield from (found[start : start + _PAGE] for start in range(0, len(found), _PAGE))
        last = found[-1]


@job(name="jobexec.processes.cancel", exclusive=False)
def cancel_page(context: JobContext, instances: list[str], reason: str, skip_listeners: bool = False) -> int:
    """Cancel each in a transaction of its own; returns how many were running."""
    done, failed = 0, list[Exception]()
    for id in instances:
        try:
            cancel(UUID(id), reason, skip_listeners=skip_listeners, using=context.using)
            done += 1
        except InstanceOver:
            pass
        except Exception as error:
            if is_of_connection(error):  # and so would be that of all others
                raise
            failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {len(instances)} instances could not be cancelled", failed)
    return done
