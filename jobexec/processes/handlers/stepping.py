"""A step: one transaction, from an event until every token waits again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction

from jobexec import clock, tracing
from jobexec.exceptions import DoNotRetry
from jobexec.operations.sql.locks import atomic, is_single_writer, reads_snapshots
from jobexec.operations.sql.server_time import keep_time
from jobexec.operations.values.acquired_job import AcquiredJob

from ..definition import Trigger
from ..engine import inputs
from ..engine.rows import RUNNING
from ..engine.step import step, step_with_all
from ..engine.tokens import Changes, Tokens
from ..models import ProcessInstance
from ..store import definitions, load, lock
from ..store.flush import Flush
from ..store.incidents import IncidentWriter
from ..store.jobs import MADE_AT_ONCE, JobWriter, create
from ..store.statement import Statement
from .environment import StepEnvironment, hide_variables, noting_variables
from .rehearsal import Done, Replay, rehearse
from .results import check_step, kept
from .signals import send_beyond

#: Hierarchies of one transaction, each of which may have thousands of tokens.
_MOST = 100

#: What happens, made from the loaded rows; None if nothing is to happen.
Event = Callable[[Tokens], inputs.Input | None]
#: What happens after an error; None if the step is tried again, or nothing else can be done.
Failed = Callable[[Exception], inputs.Input | None]


def begin(using: str, origin: ProcessInstance, event: inputs.Start) -> Changes | None:
    """The first step of a new instance. ``origin`` is its row, which is not saved yet.

    After an error, what its handlers have written is undone, and the caller's transaction can go on.
    """
    keep_time(using)
    with transaction.atomic(using=using):
        return _take(using, origin, Tokens(), event)


def proceed(
    using: str, root: UUID, event: Event | inputs.Input, place: UUID | None = None, *, savepoint: bool = True
) -> Changes | None:
    """A step of a running hierarchy; None if it has ended, or if what the event is about is not there any more.

    ``place`` is the token, or the instance, that an event is about which is made from the loaded rows. An error undoes
    the step alone, as in :func:`begin`; without ``savepoint``, the caller's transaction.
    """
    keep_time(using)
    with transaction.atomic(using=using, savepoint=savepoint):
        return _locked_step(using, root, event, place)


def _locked_step(
    using: str, root: UUID, event: Event | inputs.Input, place: UUID | None = None, done: Done | None = None
) -> Changes | None:
    origin = lock.locked(using, root)
    if origin is None:
        return None
    if not callable(event):
        return _take(using, origin, load.load(using, origin, inputs.places([event])), event, done)
    tokens = load.load(using, origin, None if place is None else [place])
    found = event(tokens)
    return None if found is None else _take(using, origin, tokens, found)


def proceed_or_fail(using: str, root: UUID, event: inputs.Input, failed: Failed) -> Changes | None:
    """As :func:`proceed`, in the caller's transaction, which an error that is raised undoes.

    If an error event of the hierarchy may catch a failure, an error undoes the step alone, and if ``failed`` returns
    an event, that happens instead. If it is not accepted, the error is raised.
    """
    keep_time(using)
    origin = lock.locked(using, root)
    if origin is None:
        return None
    tokens = load.load(using, origin, inputs.places([event]))
    if not any(
        Trigger.FAILURE in definitions.process(using, row.definition).awaits for row in tokens.instances_at_hand
    ):
        return _take(using, origin, tokens, event)
    try:
        with transaction.atomic(using=using):
            return _take(using, origin, tokens, event)
    except Exception as error:
        instead = failed(error)
        if instead is None:
            raise
        with _instead_of(error):
            changes = _take(using, origin, load.load(using, origin, inputs.places([instead])), instead)
        if changes is None:
            raise
        return changes


def proceed_beside(using: str, root: UUID, event: inputs.Continue, tenant: str, failed: Failed) -> Changes | None:
    """As :func:`proceed_or_fail`, but what the step begins with is done before the lock.

    If the token has gone meanwhile, or goes past the handler, the handler's work is undone. Where an early read could
    hide from the step what others have committed (REPEATABLE READ), and where one writer is alone anyway, all is under
    the lock.
    """
    if is_single_writer(using) or reads_snapshots(using):
        return proceed_or_fail(using, root, event, failed)
    keep_time(using)
    try:
        with transaction.atomic(using=using):
            tokens = load.load_unlocked(using, root, event.token)
            done = None if tokens is None else rehearse(using, tenant, tokens, event)
            changes = _locked_step(using, root, event, done=done)
            if changes is None and done is not None:
                transaction.set_rollback(True, using=using)
        return changes
    except Exception as error:
        instead = failed(error)
        if instead is None:
            raise
        with _instead_of(error):
            changes = _locked_step(using, root, instead)
        if changes is None:
            raise
        return changes


@contextmanager
def _instead_of(error: Exception) -> Iterator[None]:
    """What happens after an error. If it fails, too, because the database is away for example, a handler that must not
    run again has the last word."""
    try:
        yield
    except Exception as problem:
        if isinstance(error, DoNotRetry):
            raise error from problem
        raise


def change_variables(using: str, root: UUID, scope: UUID, variables: Mapping[str, Any], *, local: bool = False) -> bool:
    """Set variables that a scope of a running hierarchy sees, which no step overlaps; False if it has ended.

    ``local``: set them in this very scope, also if they are found in one around it.
    """
    keep_time(using)
    with atomic(using):
        origin = lock.locked(using, root)
        if origin is None:
            return False
        tokens = load.load(using, origin, [scope])
        place = tokens.find(scope)
        if place is None:
            return False
        put = tokens.set_local if local else tokens.set
        for name, value in variables.items():
            put(place, name, value)
        changes = tokens.collect()
        check_step(tokens, changes)
        statement = Statement(using)
        Flush(using, origin, tokens, changes, clock.now(using), statement).gather()
        statement.send()
    return True


class End(NamedTuple):
    """What the end of a job is to its process."""

    root: UUID
    event: inputs.Input
    traceparent: str = ""
    """The span of its run, to which the jobs belong that its step makes."""


def proceed_together(using: str, ends: Sequence[tuple[AcquiredJob, End]]) -> set[UUID]:
    """Steps of many hierarchies in the caller's transaction (:class:`~jobexec.handlers.base.SharedEnd`).

    Nothing is waited for: returns the ids of the jobs whose hierarchy another step has locked, or which are too many
    for one transaction. Raises DoNotRetry for results that cannot be kept, or that stop their process.
    """
    keep_time(using)
    roots = list(dict.fromkeys(end.root for _, end in ends))
    origins, busy = lock.locked_now(using, roots[:_MOST])
    busy.update(roots[_MOST:])
    theirs: dict[UUID, list[End]] = {root: [] for root in origins}
    for _, end in ends:
        if end.root in theirs:
            theirs[end.root].append(end)
    steps = []
    with kept():
        places = {root: inputs.places(end.event for end in found) for root, found in theirs.items()}
        for root, tokens in load.load_all(using, origins, places).items():
            environment = StepEnvironment(using, origins[root].tenant_id)
            with noting_variables(tokens):
                changes = step_with_all(tokens, _events(tokens, theirs[root]), environment)
            if changes.accepted:
                steps.append(Step(origins[root], tokens, changes))
        write(using, steps)
    return {work.id for work, end in ends if end.root in busy}


def _events(tokens: Tokens, ends: Sequence[End]) -> Iterator[inputs.Input]:
    for end in ends:
        tokens.trace = end.traceparent
        yield end.event


class Step(NamedTuple):
    """What a step has changed, before it is written."""

    origin: ProcessInstance
    tokens: Tokens
    changes: Changes


def _take(
    using: str, origin: ProcessInstance, tokens: Tokens, event: inputs.Input, done: Done | None = None
) -> Changes | None:
    tenant = origin.tenant_id
    environment = StepEnvironment(using, tenant) if done is None else Replay(using, tenant, done)
    with noting_variables(tokens):
        changes = step(tokens, event, environment)
    if not changes.accepted:
        return None
    if isinstance(environment, Replay):
        environment.check_taken()
    write(using, [Step(origin, tokens, changes)])
    return changes


def _rows_come_first(changes: Changes) -> bool:
    """Whether the rows of a step must be written before its jobs are made and discarded.

    Jobs that are made at once are made of the rows of new instances. The end of an instance waits for a transaction
    that suspends it, and whose moved jobs are to be found.
    """
    ends = any(row.state not in RUNNING for row in changes.changed_instances)
    return ends or any(job.kind in MADE_AT_ONCE for job in changes.new_jobs)


def write(using: str, steps: Sequence[Step]) -> None:
    """Write steps of hierarchies that are locked, with their jobs."""
    try:
        _write(using, steps)
    except Exception as error:
        for each in steps:
            hide_variables(error, each.tokens)
        raise


def _write(using: str, steps: Sequence[Step]) -> None:
    now, statement = clock.now(using), Statement(using)
    for origin, tokens, changes in steps:
        check_step(tokens, changes)
        Flush(using, origin, tokens, changes, now, statement).gather()
    if any(_rows_come_first(each.changes) for each in steps):
        statement.send()
    jobs = [job for each in steps for job in JobWriter(using, each.origin, each.tokens, now).prepare(each.changes)]
    if len(jobs) != 1:
        statement.send()
    create(using, jobs, statement.send_with_row)
    for origin, tokens, changes in steps:
        IncidentWriter(using, origin, tokens).write(changes)
        with tracing.within(tokens.trace):
            send_beyond(using, origin.tenant_id, origin.root_id, changes.signals)
