"""The jobs of a step: the only caller of jobexec's operations on jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from jobexec import tracing
from jobexec.conf import get_settings
from jobexec.handlers.function import JobFunction
from jobexec.handlers.options import to_columns
from jobexec.handlers.registry import registered
from jobexec.identifiers import uuid7s
from jobexec.operations.batches.of_jobs import begin_batch, count_added, seal_batch
from jobexec.operations.enqueue.create import Insert, check_resource, create_job_by, create_jobs
from jobexec.operations.external.create import create_external_jobs
from jobexec.operations.rows.discard import discard_jobs, stop_jobs

from ..definition import Trigger
from ..engine import rows
from ..engine.exceptions import StepError
from ..engine.rows import JobKind
from ..engine.tokens import Changes, Tokens
from ..models import ProcessInstance
from . import definitions
from .columns import INNER, MESSAGE, columns_of, option_columns
from .timers import first, of_cycle

#: The handlers of the jobs of processes.
CONTINUE, TIMER = "jobexec.processes.continue", "jobexec.processes.timer"
#: What precedes, in place of CONTINUE, the name of a function with a callable retry plan that is called in the step: no
#: row can keep such a plan.
PLANNED = f"{CONTINUE}:"
#: They follow external jobs that a worker has completed, or ended with an error.
WORKED, THREW = "jobexec.processes.worked", "jobexec.processes.threw"
#: They follow the batch of a multi-instance without tokens.
GATHERED, NOT_GATHERED = "jobexec.processes.gathered", "jobexec.processes.not_gathered"
#: Waits for a message that is published with a key.
RECEIVE = "jobexec.processes.receive"
#: What precedes the name of a function that runs as a step, or for an item of a long list: its jobs have the
#: function's arguments and options.
STEP, ITEM = "step:", "item:"
#: Jobs that are made in one page.
_PAGE = 1_000

_HANDLERS = {JobKind.CONTINUE: CONTINUE, JobKind.TIMER: TIMER}

#: Kinds of jobs that :meth:`JobWriter.prepare` creates itself.
MADE_AT_ONCE = (JobKind.EXTERNAL, JobKind.BATCH)

#: Events for which jobs wait.
_ARMED = frozenset({Trigger.TIMER, Trigger.MESSAGE})

_ENDED_BY_FORCE = frozenset({rows.InstanceState.CANCELLED, rows.InstanceState.TERMINATED})

#: Options of a function's declaration that its steps have, too.
_DECLARED = ("retries", "priority", "category", "deployment", "timeout", "headers")


def step_columns(name: str) -> dict[str, Any]:
    """The columns that the jobs of a step have by the declaration of its function."""
    function = registered(name)
    options: Mapping[str, Any] = function.options if isinstance(function, JobFunction) else {}
    given: Any = {option: options[option] for option in _DECLARED if option in options}
    return {"handler_type": f"{STEP}{name}"} | to_columns(given)


def _resource_of(element: str, handler: str, call: Mapping[str, Any], tenant: str) -> str | None:
    """The resource of a step's job: that of its function, which may make it of the arguments, or that of its tenant.

    Raises StepError for one that cannot be made, or that RESOURCES does not cover.
    """
    function = registered(handler)
    try:
        if isinstance(function, JobFunction) and "resource" in function.options:
            name = function.resource_for(call["args"], call["kwargs"])
        else:
            name = get_settings().resources.of_tenant(tenant)
        check_resource(name)
    except Exception as error:  # of the project's function, too
        raise StepError(element, f"Its resource cannot be used: {error}") from error
    return name


class PreparedJob(NamedTuple):
    """The columns of a job, and the token that waits for it, as :func:`.load.waiting` finds it."""

    columns: dict[str, Any]
    token: tuple[Any, ...] | None = None


def create(using: str, jobs: Sequence[PreparedJob], insert: Insert) -> None:
    """Create jobs. A single one, which ``insert`` writes, may stay with the node that takes the step."""
    if len(jobs) == 1:
        create_job_by(using, insert, *jobs[0])
    elif jobs:
        create_jobs(using, (job.columns for job in jobs))


def discard_job(using: str, instance: str, job: UUID) -> None:
    """Remove a job of an instance that no thread has, from whichever table, and close its incident."""
    discard_jobs(using, [instance], [], [job])


class JobWriter:
    """Makes and takes away the jobs of one step, in its transaction."""

    def __init__(self, using: str, origin: ProcessInstance, tokens: Tokens, now: datetime) -> None:
        self.using, self.origin, self.tokens, self.now = using, origin, tokens, now

    def prepare(self, changes: Changes) -> list[PreparedJob]:
        """Remove and create jobs, except those that it returns, for :func:`create`."""
        self._discard(changes)
        for job in changes.new_jobs:
            if job.kind is JobKind.EXTERNAL:
                self._create_external(job)
            elif job.kind is JobKind.BATCH:
                self._create_batch(job)
        ours = [job for job in changes.new_jobs if job.kind not in MADE_AT_ONCE]
        receivers = [each for row in changes.new_subscriptions if (each := self._receiver(row)) is not None]
        return [*map(self._prepared, ours), *map(PreparedJob, receivers)]

    def _receiver(self, row: rows.Subscription) -> dict[str, Any] | None:
        """A job that waits for the message of a subscription with a key, for ``publish_message``."""
        if row.kind is not rows.SubscriptionKind.MESSAGE or row.key is None:
            return None
        definition = self.tokens.definition(row.instance)
        columns = columns_of(self.using, self.origin, row.instance, row.owner, row.element, definition, MESSAGE)
        columns |= {
            "handler_type": RECEIVE,
            "handler_configuration": {"args": [], "kwargs": {"subscription": str(row.id)}},
            "waits_for": row.name,
            "waits_for_key": row.key,
            "atomic": True,
        }
        return self._traced(row.id, columns)

    def _traced(self, id: UUID, columns: dict[str, Any]) -> dict[str, Any]:
        """In the trace of the event that has made it, if that is not the current one; headers come first."""
        trace = self.tokens.traces.get(id)
        if trace is not None:
            columns["traceparent"] = tracing.of_headers(columns.get("custom_headers")) or trace
        return columns

    def _create_external(self, job: rows.Job) -> None:
        """When its worker is done, the same row carries the process on; so the token still names its job."""
        payload = job.payload
        columns = self._common(job) | {"handler_type": payload["topic"], "custom_headers": payload["headers"]}
        columns.pop("retry_plan", None)  # of a file it says how often; the pause is the worker's, as in Camunda
        columns["resource"] = get_settings().resources.of_tenant(self.origin.tenant_id)
        columns = self._traced(job.id, columns)
        kwargs = {"root": str(self.origin.root_id), "token": str(job.owner)}
        activity = {"activity": str(job.activity)}
        options = {"atomic": True, "job_definition_id": columns["job_definition_id"], "resource": None}
        options["failed_activity_id"] = job.element
        configuration = {
            "variables": payload["variables"],
            "element_id": job.element,
            "business_key": self.origin.business_key,
            "keys": self._keys(job),
            "on_complete": {"handler": WORKED, "kwargs": kwargs, "columns": options, "sent_only": True},
            "on_error": {
                "": {"handler": THREW, "kwargs": kwargs | activity, "columns": options, "sent_only": True},
            },
        }
        create_external_jobs(self.using, columns, [configuration], ids=[job.id])

    def _create_batch(self, job: rows.Job) -> None:
        """A job for each item, counted by a batch of jobexec, whose id is that of the job that the token waits for.

        What follows the batch belongs to the token as these jobs do, but has no options of its element.
        """
        kwargs = {"root": str(self.origin.root_id), "token": str(job.owner), "batch": str(job.id)}
        common = self._common(job)
        given = {"database": self.using, "encrypted": False, "resource": None}  # its arguments are ids
        calls = {"on_success": GATHERED, "on_failure": NOT_GATHERED}
        arguments = {
            when: registered(name).using(**given).s(**kwargs).stored(when, self.using)  # type: ignore[union-attr]
            for when, name in calls.items()
        }
        for call in arguments.values():
            call["columns"] |= self._place(job)
        batch = begin_batch(
            self.using,
            name=job.element,
            arguments=arguments,
            deadline=None,
            tenant_id=self.origin.tenant_id,
            user=self.origin.start_user,
            id=job.id,
        )
        columns = step_columns(job.payload["handler"]) | common
        columns |= {"handler_type": f"{ITEM}{job.payload['handler']}", "batch_id": batch.pk}
        columns["atomic"] = job.payload["atomic"]
        columns = self._traced(job.id, columns)
        calls_of = job.payload["calls"]
        for start in range(0, len(calls_of), _PAGE):
            page = calls_of[start : start + _PAGE]
            made = zip(uuid7s(len(page)), page, strict=True)
            create_jobs(self.using, [columns | self._call(job, each) | {"id": id} for id, each in made])
            count_added(self.using, batch, len(page))
        seal_batch(batch.pk, using=self.using)

    def _definition(self, job: rows.Job) -> str:
        return self.tokens.definition(job.instance)

    def _keys(self, job: rows.Job) -> dict[str, int]:
        """What clients of Camunda 8 call the keys of a job; those that are not known are left out."""
        root = self.origin.key
        instance = root if job.instance == self.origin.pk else self._key_of(job.instance)
        number, version = definitions.number(self.using, self.tokens.definition(job.instance))
        found = {"instance": instance, "root": root, "definition": number, "version": version}
        return {name: key for name, key in found.items() if key is not None}

    def _key_of(self, instance: UUID) -> int | None:
        rows = ProcessInstance.objects.using(self.using).filter(pk=instance)
        return rows.values_list("key", flat=True).first()

    def _discard(self, changes: Changes) -> None:
        """Those that a thread has are asked to stop: they find their token gone, and end without an error."""
        instances = [str(row.id) for row in self.tokens.instances_at_hand]
        gone = changes.gone_tokens if self._may_have_more(changes) else changes.left_batches
        owners: list[tuple[str, str | None]] = [(str(id), None) for id in gone]
        owners += [(str(owner), element) for owner, element in changes.disarmed]
        owners += [(str(row.id), None) for row in changes.changed_instances if self._had_events(row)]
        discard_jobs(self.using, instances, owners, changes.cancelled_jobs)
        if changes.cancelled_jobs:
            stop_jobs(self.using, changes.cancelled_jobs, changes.cancelled_jobs if changes.left_batches else ())

    def _had_events(self, row: rows.Instance) -> bool:
        """Whether an instance has ended whose process has event sub-processes, which wait for timers and messages."""
        return row.ended_at is not None and bool(
            definitions.process(self.using, row.definition).event_sub_processes(None)
        )

    def _may_have_more(self, changes: Changes) -> bool:
        """Whether tokens may have jobs beside the one that they wait for: timers, receivers, those of incidents.

        When an instance is cancelled, what was left behind by nodes that were killed goes, too.
        """
        if any(row.state in _ENDED_BY_FORCE for row in changes.changed_instances):
            return True
        processes = [definitions.process(self.using, row.definition) for row in self.tokens.instances_at_hand]
        return self.tokens.had_incidents or any(process.awaits & _ARMED for process in processes)

    def _prepared(self, job: rows.Job) -> PreparedJob:
        columns = self._columns(job)
        if job.kind in _HANDLERS:
            return PreparedJob(columns)
        root, definition = self.origin.root_id, self.tokens.definition(job.instance)
        return PreparedJob(columns, (root, job.owner, job.activity, job.instance, definition, job.element))

    def _columns(self, job: rows.Job) -> dict[str, Any]:
        if job.kind in _HANDLERS:
            columns = {"handler_type": _HANDLERS[job.kind], "atomic": True} | self._of_function(job)
        else:
            columns = step_columns(job.payload["handler"]) | to_columns(job.payload.get("options") or {})
        columns |= self._common(job) | {"id": job.id}
        cycle: dict[str, str] = {}
        if job.timer is not None:
            due, repeat = first(job.element, job.timer, self.now)
            columns["due_date"], cycle = due, of_cycle(repeat, due)
        if job.kind in _HANDLERS:
            columns["handler_configuration"] = self._configuration(job, cycle)
        elif registered(job.payload["handler"]) is None:  # a service task outside
            columns |= self._call(job, self._configuration(job, cycle))
        else:  # a step of a flow
            columns |= self._call(job, job.payload["arguments"])
        return self._traced(job.id, columns)

    def _of_function(self, job: rows.Job) -> dict[str, Any]:
        """What a ``@job`` function that is called in the step of a job decides about that job."""
        handler = job.payload.get("handler")
        function = None if handler is None else registered(handler)
        if handler is None or not isinstance(function, JobFunction):
            return {}
        call = job.payload.get("arguments") or {"args": [], "kwargs": {}}
        columns = step_columns(handler) | {"resource": _resource_of(job.element, handler, call, self.origin.tenant_id)}
        asks = function.retry_plan is not None and function.retry_plan.function is not None
        return columns | {"handler_type": f"{PLANNED}{handler}" if asks else CONTINUE}

    def _call(self, job: rows.Job, call: Mapping[str, Any]) -> dict[str, Any]:
        """The columns that a call of a job function decides."""
        resource = _resource_of(job.element, job.payload["handler"], call, self.origin.tenant_id)
        return {"handler_configuration": dict(call), "resource": resource}

    def _common(self, job: rows.Job) -> dict[str, Any]:
        options = option_columns(job.element, job.retry_plan, job.priority, job.category, job.retries)
        return self._place(job) | {"exclusive": job.exclusive} | options

    def _place(self, job: rows.Job) -> dict[str, Any]:
        """The columns by which a job belongs to its process."""
        definition = self.tokens.definition(job.instance)
        return columns_of(self.using, self.origin, job.instance, job.owner, job.element, definition, self._kind(job))

    def _kind(self, job: rows.Job) -> str:
        """Those that begin and leave a body, and each instance in it, have definitions of their own."""
        owner = self.tokens.find(job.owner)
        return INNER if job.kind is JobKind.CONTINUE and isinstance(owner, rows.Token) and owner.is_inner else job.kind

    def _configuration(self, job: rows.Job, cycle: Mapping[str, str]) -> dict[str, Any]:
        kwargs: dict[str, Any] = {"root": str(self.origin.root_id)}
        if job.kind not in _HANDLERS:
            return {"args": [], "kwargs": kwargs | {"token": str(job.owner), "arguments": job.payload["arguments"]}}
        if job.kind is JobKind.CONTINUE:
            handler = job.payload.get("handler")
            call = {"call": handler} if handler is not None else {}
            return {"args": [], "kwargs": kwargs | {"token": str(job.owner)} | call}
        kwargs |= {"owner": str(job.owner), "element": job.element, **cycle}
        return {"args": [], "kwargs": kwargs | {"activity": str(job.activity) if job.activity else None}}
