"""Tokens that cannot go on without an operator: each has a dead letter, and with it an incident."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db import transaction

from jobexec import clock
from jobexec.models import DeadLetterJob, Incident
from jobexec.operations.enqueue.create import create_jobs
from jobexec.operations.notify.signals import announce
from jobexec.operations.reports.failure_groups import count_failures, group_of_text
from jobexec.operations.rows.move import move
from jobexec.operations.values.failure import MESSAGE_LENGTH, STACK_LENGTH
from jobexec.sensitive import redact_text, values_below

from ..engine import rows
from ..engine.tokens import Changes, Tokens
from ..models import ProcessInstance
from ..signals import incident_opened
from .columns import columns_of

#: Lets a token that has failed do again what failed.
RETRY = "jobexec.processes.retry"


class IncidentWriter:
    """Opens the incidents of one step, in its transaction.

    The dead letter is a job that has not run: requeued, it lets its token try again. It goes with its token.
    """

    def __init__(self, using: str, origin: ProcessInstance, tokens: Tokens) -> None:
        self.using, self.origin, self.tokens = using, origin, tokens

    def write(self, changes: Changes) -> None:
        if not changes.incidents:
            return
        now = clock.now(self.using)
        jobs = self._made(changes.incidents)
        for incident, job in zip(changes.incidents, jobs, strict=True):
            message = self._without_secrets(incident.message)[:MESSAGE_LENGTH]
            alike = group_of_text(self.using, RETRY, message)
            told: dict[str, Any] = {"retries": 0, "exception_message": message, "died_at": now}
            move(job, DeadLetterJob, incident_type=incident.kind, **told, fingerprint=alike)
            # After the commit: the caller's transaction may go on to lock what others hold who wait for the group.
            count = partial(count_failures, self.using, [job], alike, message)
            transaction.on_commit(count, using=self.using, robust=True)
        if incident_opened.receivers:
            found = Incident.objects.using(self.using).filter(job_id__in=[job.pk for job in jobs])
            announce(incident_opened, self.using, Incident, incidents=list(found))

    def _without_secrets(self, message: str) -> str:
        """The message without sensitive values: whoever threw the error may have quoted variables in it."""
        variables = self.tokens.variables.values()
        return redact_text(message, (secret for each in variables for secret in values_below(each)), STACK_LENGTH)

    def _made(self, incidents: list[rows.Incident]) -> list[Any]:
        each = []
        for incident in incidents:
            definition = self.tokens.definition(incident.instance)
            columns = columns_of(
                self.using, self.origin, incident.instance, incident.owner, incident.element, definition, "retry"
            )
            kwargs = {"root": str(self.origin.root_id), "token": str(incident.owner)}
            columns |= {"handler_type": RETRY, "handler_configuration": {"args": [], "kwargs": kwargs}, "atomic": True}
            each.append(columns)
        return create_jobs(self.using, each)
