"""Explain why a job is not running, from the current rows alone: nothing is guessed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from jobexec.exceptions import JobNotFound
from jobexec.identifiers import as_id
from jobexec.models import AbstractJob, ExternalWorkerJob

from ..sql.server_time import time_of
from ..targets.lookup import find_job
from . import external, held, over, waiting
from .batch import batch_reasons
from .facts import HEAVY, Facts, Reason

#: The number of attempts at a job that changes while it is examined.
_LOOKS = 3


@dataclass(frozen=True, slots=True)
class Explanation:
    """Every reason that applies at the time ``at`` (the database's time), the decisive one first.

    ``job`` is its row, with large columns deferred, or None if no table contains it; ``state`` is the state of its
    table, ``over`` for a job that only the log contains and ``unknown`` for a job without any trace. For a batch of
    jobs it is the state of the batch.
    """

    id: str
    using: str
    at: datetime
    job: AbstractJob | None
    state: str
    reasons: list[Reason]

    def as_json(self) -> dict[str, Any]:
        """The explanation as JSON values, with times in ISO 8601."""
        reasons = [{"code": each.code, "text": each.text, "details": each.details} for each in self.reasons]
        handler = None if self.job is None else self.job.handler_type
        facts = {"id": self.id, "database": self.using, "at": self.at.isoformat(), "state": self.state}
        return {**facts, "handler": handler, "reasons": reasons}


def why(id: UUID | str, *, using: str) -> Explanation:
    """Explain why this job is not running, or where it runs; or why a batch of jobs is not over.

    Read-only; a dozen statements, all bounded. The texts are in the active language. If the job moves or changes
    meanwhile, it is examined again, so that the reasons match the row. (Neither Camunda nor Flowable answers this
    question.) An invalid id counts as the id of an unknown job.
    """
    explanation = _look(id, using)
    for _ in range(_LOOKS - 1):
        if _still(explanation):
            break
        explanation = _look(id, using)
    return explanation


def _look(id: UUID | str, using: str) -> Explanation:
    now = time_of(using)
    try:
        job = find_job(id, using, defer=HEAVY)
    except JobNotFound:
        if (wanted := as_id(id)) is not None and (found := batch_reasons(wanted, using, now)) is not None:
            return Explanation(str(wanted), using, now, None, found[0].state, found[1])
        reasons = over.gone(id, using, now)
        state = "unknown" if reasons[0].code == "not_found" else "over"
        return Explanation(str(as_id(id) or id), using, now, None, state, reasons)
    facts = Facts(job, using, now)
    return Explanation(str(job.pk), using, now, job, job.state, _reasons(facts))


def _reasons(facts: Facts) -> list[Reason]:
    if isinstance(facts.job, ExternalWorkerJob):
        return external.reasons(facts)
    if facts.job.locked:
        return held.reasons(facts)
    if facts.job.dead:
        return over.dead(facts)
    return waiting.reasons(facts)


def _still(explanation: Explanation) -> bool:
    """Return whether the job is unchanged since its reasons were collected."""
    job = explanation.job
    if job is None:
        return True
    rows = type(job)._base_manager.using(explanation.using).filter(pk=job.pk, revision=job.revision)
    return rows.filter(lock_owner=job.lock_owner).exists()
