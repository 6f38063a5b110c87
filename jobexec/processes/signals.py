"""Django signals by which processes, BPMN files and flows alike, inform the rest of the project.

They are sent as those of :mod:`jobexec.signals`: after the commit of the step, with ``send_robust``, in the thread that
has taken the step, and only in this process of the operating system. A crash between commit and signal loses the
signal: work that must not be missed belongs in the process, or in a listener of its model.

Every signal has ``sender`` (the model class of the rows) and ``using`` (the alias of the database, str). The rows are
those of one step, as it wrote them. Without receivers a signal costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.dispatch import Signal

from jobexec.signals import job_dead_lettered

#: Instances have started; a call activity starts one, too. Arguments: ``using``, ``instances`` (rows of
#: ProcessInstance). One that has ended in the same step has a row that says so.
process_started = Signal()

#: Instances have ended: see their ``state``, ``end_element`` and ``final_variables``. Arguments: ``using``,
#: ``instances`` (rows of ProcessInstance).
process_ended = Signal()

#: Activities, events and gateways have ended, completed or cancelled. Arguments: ``using``, ``activities`` (rows of
#: ActivityInstance).
activity_ended = Signal()

#: User tasks are open. Arguments: ``using``, ``tasks`` (rows of UserTask).
task_created = Signal()


class _IncidentOpened(Signal):
    """Hears of the dead letters of processes while it has receivers: executors write those faster if nobody hears."""

    def connect(self, receiver: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        super().connect(receiver, *args, **kwargs)
        job_dead_lettered.connect(_of_dead_letter, dispatch_uid=_of_dead_letter)

    def disconnect(self, *args: Any, **kwargs: Any) -> bool:
        found = bool(super().disconnect(*args, **kwargs))
        if not self.receivers:
            job_dead_lettered.disconnect(dispatch_uid=_of_dead_letter)
        return found


#: Something of an instance needs an operator: a job has become a dead letter, or nothing has caught an error.
#: Arguments: ``using``, ``incidents`` (rows of jobexec's Incident, with ``process_instance_id``,
#: ``failed_activity_id``, the element, and ``message``).
incident_opened = _IncidentOpened()


def _of_dead_letter(sender: type[Any], using: str, job: Any, **kwargs: Any) -> None:
    """Of a job that belongs to a process; ``process_instance_id`` alone may be any job's."""
    from jobexec.models import Incident, IncidentState

    if job.process_definition_id:
        found = list(Incident.objects.using(using).filter(job_id=job.pk, state=IncidentState.OPEN))
        if found:
            incident_opened.send_robust(Incident, using=using, incidents=found)
