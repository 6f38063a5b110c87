"""Deploy a process for a test, drive its instances, and assert their state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import router, transaction

from jobexec.testing import JobResult, ManualExecutor, advance, controlled_clock

from ..engine.rows import NOT_WAITING
from ..handlers.registry import standing_in
from ..models import ProcessDefinition, ProcessInstance, UserTask
from ..operations.deploy import deploy
from ..operations.query import InstanceView, view_of
from ..operations.user_tasks import complete
from .removal import remove

__all__ = [
    "advance",
    "assert_ended",
    "assert_waits_at",
    "complete_task",
    "controlled_clock",
    "process",
    "run_jobs",
    "variables_of",
]


@contextmanager
def process(
    *files: str | bytes | Path,
    services: Mapping[str, Callable[..., Any]] | None = None,
    tenant_id: str = "",
    using: str | None = None,
) -> Iterator[list[ProcessDefinition]]:
    """Deploy BPMN for a block, and return the definitions; they are deleted afterwards, with all their instances.

    A file is given as its content, or as its path if it does not begin with ``<``. ``services`` replace the service
    tasks with their names, registered or not::

        with process("orders/processes/order.bpmn", services={"ship": lambda context: {"parcel": 17}}):
            instance = start("order", business_key="4711")
            assert_waits_at(instance, "approve")
            complete_task(instance, approved=True)
            run_jobs()
            assert_ended(instance, at="shipped")
    """
    database = using or router.db_for_write(ProcessDefinition)
    given = [_file(number, file) for number, file in enumerate(files, 1)]
    with standing_in(services or {}):
        made = deploy(*given, tenant_id=tenant_id, source="test", using=database)
        try:
            yield made
        finally:
            if not transaction.get_connection(database).needs_rollback:  # otherwise they go with the transaction
                remove(database, made)


def _file(number: int, file: str | bytes | Path) -> Path | tuple[str, bytes]:
    content = file.encode() if isinstance(file, str) and file.lstrip().startswith("<") else file
    return (f"test-{number}.bpmn", content) if isinstance(content, bytes) else Path(content)


def run_jobs(*, advance: bool = False, reraise: bool = True, using: str | None = None) -> list[JobResult]:
    """Run due jobs and those that they create, as :meth:`ManualExecutor.run_until_empty` does; returns their results.

    With ``advance``, a controlled clock moves forward to timers and retries, date by date.
    """
    executor = ManualExecutor(using or router.db_for_write(ProcessInstance), reraise=reraise)
    return executor.run_until_empty(advance=advance)


def assert_waits_at(instance: ProcessInstance, *elements: str) -> None:
    """Fail unless the instance is running, and waits at these elements and at no others."""
    view = _view(instance)
    found = _standing(view)
    if view.instance.end_time is not None or set(found) != set(elements):
        raise AssertionError(f"Expected an instance that waits at {_list(elements)}; {_told(view)}")


def assert_ended(instance: ProcessInstance, *, at: str | None = None, state: str = "completed") -> None:
    """Fail unless the instance has ended in this state, and if it is given, ``at`` this end event."""
    view = _view(instance)
    row = view.instance
    if row.end_time is None or row.state != state or at not in (None, row.end_element):
        where = f" at {at}" if at is not None else ""
        raise AssertionError(f"Expected an instance that has {state}{where}; {_told(view)}")


def complete_task(instance: ProcessInstance, element: str | None = None, **variables: Any) -> None:
    """Complete the only open user task of an instance and of those that it called, or the one at ``element``."""
    view = _view(instance)
    using = view.instance._state.db or "default"
    hierarchy = UserTask.objects.using(using).filter(root_id=view.instance.root_id).order_by("pk")
    found = [task for task in hierarchy if element in (None, task.element_id)]
    if len(found) != 1:
        wanted = f"a user task at {element}" if element else "one user task"
        there = _list(sorted(task.element_id for task in hierarchy))
        raise AssertionError(f"Expected {wanted}, found {len(found)} of the open tasks at {there}; {_told(view)}")
    complete(found[0], variables, using=using)


def variables_of(instance: ProcessInstance) -> dict[str, Any]:
    """The current variables of the instance itself, or, if it has ended, those at its end."""
    view = _view(instance)
    if view.instance.final_variables is not None:
        return dict(view.instance.final_variables)
    return {row.name: row.value for row in view.variables if row.scope_id == instance.pk}


def _view(instance: ProcessInstance) -> InstanceView:
    return view_of(instance._state.db or router.db_for_write(ProcessInstance), instance.pk)


def _standing(view: InstanceView) -> list[str]:
    """The element of each token at which something waits."""
    return [row.element_id for row in view.executions if row.state not in NOT_WAITING]


def _told(view: InstanceView) -> str:
    row = view.instance
    if row.end_time is not None:
        reason = f" ({row.delete_reason})" if row.delete_reason else ""
        return f"it has {row.state} at {row.end_element or 'no end event'}{reason}."
    jobs = [f"  {job._meta.object_name} at {job.failed_activity_id}: {job.exception_message}" for job in view.jobs]
    return "\n".join([f"it waits at {_list(_standing(view))}.", *(each.rstrip(": ") for each in jobs)])


def _list(elements: Any) -> str:
    return ", ".join(elements) or "nothing"
