"""Operators' changes to all jobs of a definition (Camunda: ManagementService, by job definition)."""

from __future__ import annotations

from typing import Any

from jobexec import clock
from jobexec.exceptions import InvalidJob
from jobexec.models import Batch, DeadLetterJob, JobDefinition

from ..audit import audited, count_more, note
from ..manage.adjust import set_retries
from ..manage.priority_overrides import apply_overrides, apply_to_all
from ..sql.locks import atomic, lock_rows
from ..targets.for_each import OperationResult, database_of
from ..values.arguments import check_retries
from ..values.ranking import check_priority
from .control import start_batch

#: The maximum number of dead letters to requeue in the caller's thread; for more, a batch is started.
_FEW = 500


@audited
def override_priority(job_definition_id: str, priority: int, *, cascade: bool = False, using: str | None = None) -> int:
    """Set the priority of a definition's future jobs, overriding that of their code.

    Jobs are created with their own priority, as enqueueing does not query the definition, and nodes apply the override
    within seconds. It may overwrite a priority that an operator sets in a job's first two minutes. With ``cascade``,
    existing jobs are changed immediately, too, in pages; running jobs use it at their next attempt. Returns how many
    jobs were changed now. A job that is committed more than two minutes after it was enqueued keeps its own priority.

    Camunda's setOverridingJobPriorityForJobDefinition. Raises ``JobDefinition.DoesNotExist`` for a definition that no
    node has recorded, and :class:`~jobexec.exceptions.InvalidJob` for an invalid priority.
    """
    check_priority(priority)
    if not isinstance(cascade, bool):
        raise InvalidJob(f"cascade: expected True or False, got {cascade!r}.")
    database = database_of(None, using)
    definition = _write(database, job_definition_id, priority)
    changed = apply_to_all(database, definition) if cascade else 0
    count_more(database, changed)
    return changed


@audited
def clear_overriding_priority(job_definition_id: str, *, using: str | None = None) -> None:
    """Let a definition's future jobs have the priority of their code again.

    Jobs that were changed keep their priority (Camunda: clearOverridingJobPriorityForJobDefinition cannot cascade).
    Raises ``JobDefinition.DoesNotExist``.
    """
    _write(database_of(None, using), job_definition_id, None)


def _write(using: str, id: str, priority: int | None) -> JobDefinition:
    # Jobs created while the previous override was in force get that priority first.
    apply_overrides(using, clock.now(using))
    with atomic(using):
        definition = lock_rows(JobDefinition.objects.using(using).filter(pk=id)).first()
        if definition is not None:
            old = {"overriding_priority": definition.overriding_priority}
            note(using, "jobdefinition", id, old=old, new={"overriding_priority": priority}, count=0)
            definition.overriding_priority = priority
            definition.overriding_since = None if priority is None else clock.now(using)
            definition.save(using=using, update_fields=["overriding_priority", "overriding_since"])
    if definition is None:  # outside the block, or the caller's transaction could not continue
        raise JobDefinition.DoesNotExist(f"There is no job definition {id!r}: no node has recorded it.")
    return definition


@audited
def set_retries_by_definition(
    job_definition_id: str, retries: int, *, using: str | None = None, user: str = ""
) -> OperationResult | Batch:
    """Set the retries of all dead letters of a definition, which requeues them (Camunda: by job definition).

    Jobs that still have retries are left unchanged, as in Camunda. Up to 500 are requeued immediately; for more, a
    batch is started in the name of ``user`` and returned. Raises :class:`~jobexec.exceptions.InvalidJob` for an invalid
    number of retries.
    """
    check_retries(retries)
    _check_id(job_definition_id)
    database = database_of(None, using)
    dead = DeadLetterJob.objects.using(database).filter(job_definition_id=job_definition_id)
    ids = list(dead.order_by("pk").values_list("pk", flat=True)[: _FEW + 1])
    if len(ids) <= _FEW:
        return set_retries(ids, retries, using=database)
    return start_batch("set_retries", dead, arguments={"retries": retries}, using=database, user=user)


def _check_id(value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidJob(f"job_definition_id: expected a string that is not empty, got {value!r}.")
