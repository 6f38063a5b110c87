"""A step: one transaction, from an event until every token waits again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.db import transaction

from jobexec import clock
from jobexec.operations.sql.dialect import dialect
from jobexec.operations.sql.locks import atomic
from jobexec.operations.sql.server_time import keep_time

from ..engine import inputs
from ..engine.step import step
from ..engine.tokens import Changes, Tokens
from ..models import ProcessInstance
from ..store import load
from ..store.flush import Flush
from ..store.incidents import IncidentWriter
from ..store.jobs import JobWriter
from .environment import StepEnvironment
from .rehearsal import Done, Replay, rehearse
from .results import check_step
from .signals import send_beyond

#: What happens, made from the loaded rows; None if nothing is to happen.
Event = Callable[[Tokens], inputs.Input | None]


def begin(using: str, origin: ProcessInstance, event: inputs.Start) -> Changes | None:
    """The first step of a new instance. ``origin`` is its row, which is not saved yet.

    After an error, what its handlers have written is undone, and the caller's transaction can go on.
    """
    keep_time(using)
    with transaction.atomic(using=using):
        return _take(using, origin, Tokens(), event)


def proceed(using: str, root: UUID, event: Event | inputs.Input, *, savepoint: bool = True) -> Changes | None:
    """A step of a running hierarchy; None if it has ended, or if what the event is about is not there any more.

    An error undoes the step alone, as in :func:`begin`; without ``savepoint``, the caller's transaction.
    """
    keep_time(using)
    with transaction.atomic(using=using, savepoint=savepoint):
        return _locked_step(using, root, event)


def _locked_step(using: str, root: UUID, event: Event | inputs.Input, done: Done | None = None) -> Changes | None:
    origin = load.locked(using, root)
    if origin is None:
        return None
    tokens = load.load(using, root, origin)
    found = event(tokens) if callable(event) else event
    return None if found is None else _take(using, origin, tokens, found, done)


def proceed_beside(using: str, root: UUID, event: inputs.Input, tenant: str) -> Changes | None:
    """As :func:`proceed`, but what the step begins with is done before the lock, in the caller's transaction.

    If the token has gone meanwhile, the handler's work is undone. Where an early read could hide from the step what
    others have committed (MariaDB under REPEATABLE READ), and where one writer is alone anyway, all is under the lock.
    """
    if not dialect(using).writes_in_with:
        return proceed(using, root, event, savepoint=False)
    keep_time(using)
    with transaction.atomic(using=using):
        done = rehearse(using, tenant, load.load(using, root), event)
        changes = _locked_step(using, root, event, done)
        if changes is None and done is not None:
            transaction.set_rollback(True, using=using)
    return changes


def change_variables(using: str, root: UUID, scope: UUID, variables: Mapping[str, Any], *, local: bool = False) -> bool:
    """Set variables that a scope of a running hierarchy sees, which no step overlaps; False if it has ended.

    ``local``: set them in this very scope, also if they are found in one around it.
    """
    keep_time(using)
    with atomic(using):
        origin = load.locked(using, root)
        if origin is None:
            return False
        tokens = load.load(using, root, origin)
        place = tokens.find(scope)
        if place is None:
            return False
        put = tokens.set_local if local else tokens.set
        for name, value in variables.items():
            put(place, name, value)
        changes = tokens.collect()
        check_step(tokens, changes)
        Flush(using, origin, tokens, changes, clock.now(using)).write()
    return True


def _take(
    using: str, origin: ProcessInstance, tokens: Tokens, event: inputs.Input, done: Done | None = None
) -> Changes | None:
    tenant = origin.tenant_id
    environment = StepEnvironment(using, tenant) if done is None else Replay(using, tenant, done)
    changes = step(tokens, event, environment)
    if not changes.accepted:
        return None
    check_step(tokens, changes)
    now = clock.now(using)
    Flush(using, origin, tokens, changes, now).write()
    JobWriter(using, origin, tokens, now).write(changes)
    IncidentWriter(using, origin, tokens).write(changes)
    send_beyond(using, origin.tenant_id, origin.root_id, changes.signals)
    return changes
