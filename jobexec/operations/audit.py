"""The audit log: operators' changes through any entry point, written in the transaction of the change.

The entry point (admin, command, gateway ...) names the operator with :func:`acting`. Operators' verbs are
:func:`audited` and record their changes, one row for each call, however many jobs it affects. Changes by a project's
code or a handler have no operator: they are not recorded, and cause no queries.

The same decorator asks the policy in AUTHORIZATION before the verb begins, also if code calls it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache, partial, wraps
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder
from django.db import DatabaseError, connections, router, transaction
from django.db.models import Model, QuerySet
from django.utils.module_loading import import_string

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import NotAuthorized
from jobexec.models import AbstractJob, AuditLog, Job, OperatorType
from jobexec.sensitive import hide

from .sql.errors import one_line, storable
from .values.operator import AuthorizationRequest, Operator

P = ParamSpec("P")
R = TypeVar("R")

#: The maximum number of ids recorded for a change; only programs and clients can name more.
MOST_IDS = 1000
#: Longer values are truncated: the log shows what was changed, and is not a copy of it.
LONGEST = 1000

_COLUMNS = frozenset(column.name for column in AbstractJob._meta.fields)
#: The arguments recorded as new values: what a verb changes, not its target or its caller.
_SAID = _COLUMNS | {"at", "until", "reason", "from_creation"}
_SECRET = frozenset({"token_digest", "previous_token_digest", "lease_token", "secret"})


@dataclass(frozen=True, slots=True)
class _Noted:
    """The audit row of a change. ``tenants`` and ``ids`` are those of jobs; a row about another object has none."""

    pk: int
    about_jobs: bool
    count: int = 0
    ids: tuple[UUID, ...] = ()
    tables: frozenset[type[AbstractJob]] = frozenset()
    tenants: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Change:
    """A call of a verb."""

    verb: str
    arguments: dict[str, Any]
    operator: Operator
    #: The verb's object (table, id and tenant), which takes precedence over the objects of the verbs that it calls.
    subject: tuple[str, str, str | None] | None = None
    noted: _Noted | None = None


_operator: ContextVar[Operator | None] = ContextVar("jobexec_operator", default=None)
_change: ContextVar[_Change | None] = ContextVar("jobexec_change", default=None)
#: Whether the policy has permitted the change under way; it is not asked about what follows from that.
_permitted: ContextVar[bool] = ContextVar("jobexec_permitted", default=False)

#: The refusals within the innermost outlasting().
_refused: ContextVar[list[_Refusal]] = ContextVar("jobexec_refused")

logger = logging.getLogger("jobexec.audit")


@contextmanager
def acting(operator: Operator | None) -> Iterator[None]:
    """Attribute the changes in the block to the operator (None: to none). They are not part of an outer change."""
    token, change, before = _operator.set(operator), _change.set(None), _permitted.set(False)
    try:
        with outlasting():
            yield
    finally:
        _operator.reset(token)
        _change.reset(change)
        _permitted.reset(before)


@contextmanager
def outlasting() -> Iterator[None]:
    """Write the refusals in the block again if their transaction was rolled back. No effect on an event loop."""
    found: list[_Refusal] = []
    token = _refused.set(found)
    try:
        yield
    finally:
        _refused.reset(token)
        if found and not _is_on_a_loop():
            there = set[tuple[str, Any]]()
            for refusal in reversed(found):
                refusal.outlast(there)


def _is_on_a_loop() -> bool:
    with suppress(RuntimeError):
        return bool(asyncio.get_running_loop())
    return False


@contextmanager
def permitted() -> Iterator[None]:
    """Do not ask the policy in the block: it has permitted the change from which this follows."""
    token = _permitted.set(True)
    try:
        yield
    finally:
        _permitted.reset(token)


def authorize(
    action: str, target: Any, using: str | None, arguments: Mapping[str, Any], *, also_within: bool = False
) -> None:
    """Ask the policy in AUTHORIZATION. Raises :class:`~jobexec.exceptions.NotAuthorized`, and records the refusal.

    The policy is not asked about what follows from a permitted change, nor about what executors do by themselves.
    ``also_within``: ask even about a consequence, because this request says more.
    """
    path, operator = get_settings().authorization, _operator.get()
    if path is None or (_permitted.get() and not also_within):
        return
    if operator is not None and operator.type == OperatorType.EXECUTOR:
        return
    request = AuthorizationRequest(action, target, operator, dict(arguments), using)
    try:
        with permitted():  # a policy may use the verbs itself
            answer = _policy(path)(request)
        if answer is not True:
            reason = answer if isinstance(answer, str) and answer else "The policy in AUTHORIZATION does not permit it."
            raise NotAuthorized(reason)
    except NotAuthorized as error:
        _note_refusal(request, str(error))
        raise


@cache
def _policy(path: str) -> Callable[[AuthorizationRequest], Any]:
    found = import_string(path)
    policy: Callable[[AuthorizationRequest], Any] = found() if isinstance(found, type) else found
    return policy


def _note_refusal(request: AuthorizationRequest, reason: str) -> None:
    """Record a refusal: in the log of the process, and in the audit log unless the caller's transaction is broken."""
    operator = request.principal or Operator(OperatorType.CODE, "")
    who = f"{operator.type.value} {operator.name}".rstrip()
    logger.warning("Refused: %s by %s: %s", one_line(request.action), one_line(who), one_line(reason))
    change, columns = _Change(request.action, {}, operator), _meant(request)
    columns |= {"old": None, "new": {"refused": reason}, "count": 0}
    refusal = _Refusal(request.using or router.db_for_write(AuditLog), change, columns)
    refusal.write()
    _refused.get([]).append(refusal)


@dataclass(slots=True)
class _Refusal:
    """A line about a refusal. The transaction in which it was written may be rolled back because of it."""

    using: str
    change: _Change
    columns: dict[str, Any]
    row: AuditLog | None = None

    def write(self) -> None:
        if connections[self.using].needs_rollback:
            return
        try:
            with transaction.atomic(using=self.using):  # with a savepoint: the caller's transaction may go on
                self.row = _insert(self.using, self.change, **self.columns)
        except DatabaseError as error:  # a role that only enqueues may not write here
            logger.error("The refusal is not in the audit log: %s", one_line(str(error)))

    def outlast(self, there: set[tuple[str, Any]]) -> None:
        """Write the row again if it was rolled back; if its transaction goes on, the end of that decides.

        ``there`` holds the rows of later refusals: some databases reuse the number of a row that was rolled back.
        """
        if connections[self.using].in_atomic_block:
            return
        row = self.row
        with suppress(DatabaseError):
            rows = AuditLog.objects.using(self.using)
            if row is None or (self.using, row.pk) in there or not _is_there(rows, row):
                self.write()
        if self.row is not None:
            there.add((self.using, self.row.pk))


def _is_there(rows: QuerySet[AuditLog], row: AuditLog) -> bool:
    return rows.filter(pk=row.pk, timestamp=row.timestamp, verb=row.verb).exists()


def _meant(request: AuthorizationRequest) -> dict[str, Any]:
    """The object of a refused request, for the audit log, without a query."""
    target, tenant = request.target, request.arguments.get("tenant_id")
    about: dict[str, Any] = {"object_type": "", "object_id": "", "tenant_id": tenant, "scope": None}
    if isinstance(target, Model):
        tenant = getattr(target, "tenant_id", tenant)
        return about | {"object_type": target._meta.model_name, "object_id": str(target.pk), "tenant_id": tenant}
    if isinstance(target, QuerySet):
        return about | {"object_type": target.model._meta.model_name}
    if isinstance(target, list | tuple | set | frozenset):
        ids = [str(getattr(each, "pk", each)) for each in list(target)[:MOST_IDS]]
        return about | {"object_type": "job", "scope": {"ids": ids}}
    if isinstance(target, UUID | str | int):
        return about | {"object_id": str(target)}
    return about


def carried(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function for another thread, so that it runs there with the current operator."""
    operator = _operator.get()
    return function if operator is None else partial(_called_as, operator, function)


def _called_as(operator: Operator, function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    with acting(operator):
        return function(*args, **kwargs)


def audited(verb: Callable[P, R]) -> Callable[P, R]:
    """Decorate an operator's verb: each call is one change, with the function's name and arguments.

    A verb that is called within another verb is part of the outer change. Raises
    :class:`~jobexec.exceptions.NotAuthorized` if the policy refuses it.
    """
    signature = inspect.signature(verb)

    @wraps(verb)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if _permitted.get() or get_settings().authorization is None:
            return recorded(*args, **kwargs)
        given = dict(signature.bind_partial(*args, **kwargs).arguments)
        using = given.pop("using", None)
        named = ("target", *signature.parameters)
        target = given.pop(next((name for name in named if name in given), ""), None)
        authorize(verb.__name__, target, using, given)
        with permitted():
            return recorded(*args, **kwargs)

    def recorded(*args: P.args, **kwargs: P.kwargs) -> R:
        if not _records():
            return verb(*args, **kwargs)
        with changing(verb.__name__, _said(signature.bind_partial(*args, **kwargs).arguments)):
            return verb(*args, **kwargs)

    return wrapped


def _records() -> bool:
    return _operator.get() is not None and _change.get() is None


@contextmanager
def changing(verb: str, arguments: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Record the notes in the block as one change; no policy is asked about it as a whole."""
    operator = _operator.get()
    if operator is None or _change.get() is not None:
        yield
        return
    token = _change.set(_Change(verb, dict(arguments or {}), operator))
    try:
        yield
    finally:
        _change.reset(token)


def _said(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in arguments.items() if name in _SAID and (value is not None or name in _COLUMNS)
    }


def is_on() -> bool:
    """Return whether the current change will be recorded, so that it is worth reading the old value."""
    change = _change.get()
    return change is not None and change.noted is None


@contextmanager
def part(using: str) -> Iterator[None]:
    """A transaction that is part of a change: its notes count only if it succeeds."""
    change = _change.get()
    before = change.noted if change else None
    try:
        with transaction.atomic(using=using):
            yield
    except BaseException:
        if change:
            change.noted = before
        raise


def note(
    using: str,
    object_type: str,
    object_id: object = "",
    *,
    old: Mapping[str, Any] | None = None,
    new: Mapping[str, Any] | None = None,
    tenant: str | None = None,
    scope: Mapping[str, Any] | None = None,
    count: int = 1,
) -> None:
    """Record what this transaction changes: an object, or a ``scope``.

    Only the first note of a change is written: the others follow from it. ``tenant`` is None if none applies. Values
    are masked, and truncated if long.
    """
    change = _change.get()
    if change is None or change.noted is not None:
        return
    if change.subject is not None:
        object_type, object_id, tenant = change.subject
    row = _insert(
        using,
        change,
        object_type=object_type,
        object_id=str(object_id),
        tenant_id=tenant,
        old=old,
        new=new,
        scope=scope,
        count=count,
    )
    change.noted = _Noted(row.pk, about_jobs=False, count=count)


def about(object_type: str, object_id: object, tenant: str | None) -> None:
    """Make this object the subject of the notes of the verbs called from now on."""
    change = _change.get()
    if change is not None and change.subject is None:
        change.subject = (object_type, str(object_id), tenant)


def count_more(using: str, number: int) -> None:
    """Add ``number`` to the change's count of objects."""
    change = _change.get()
    if change is None or change.noted is None or not number:
        return
    noted = replace(change.noted, count=change.noted.count + number)
    AuditLog.objects.using(using).filter(pk=noted.pk).update(count=noted.count)
    change.noted = noted


def note_rows(using: str, model: type[Model], ids: Sequence[Any], names: Sequence[str]) -> None:
    """Record that the change affects these rows of a table other than the job tables, with their readable names."""
    change = _change.get()
    if change is None or not ids:
        return
    if change.noted is not None:
        count_more(using, len(ids))
        return
    single = len(ids) == 1
    scope: dict[str, Any] = {} if single else {"ids": [str(id) for id in ids[:MOST_IDS]]}
    scope |= {"names": names[:MOST_IDS]} if any(names) else {}
    note(using, model._meta.model_name or "", ids[0] if single else "", scope=scope or None, count=len(ids))


def tenants_among(using: str, table: type[AbstractJob], ids: Collection[UUID]) -> frozenset[str]:
    """The tenants of these jobs, before the change; not queried if there is no change to record."""
    if _change.get() is None:
        return frozenset()
    rows = table._base_manager.using(using).filter(pk__in=ids).order_by()
    return frozenset(rows.values_list("tenant_id", flat=True).distinct())


def old_of(row: AbstractJob) -> dict[str, Any]:
    """The current values of a job's columns that the verb's arguments name."""
    change = _change.get()
    return {name: getattr(row, name) for name in change.arguments if name in _COLUMNS} if change else {}


def note_jobs(
    using: str,
    table: type[AbstractJob],
    ids: Sequence[UUID],
    tenants: Collection[str],
    old: Mapping[str, Any] | None = None,
) -> None:
    """Record that the change affects these jobs, which were in this table; ``old``: the old values of a single job."""
    change = _change.get()
    if change is None or not ids or (change.noted is not None and not change.noted.about_jobs):
        return
    before = change.noted or _Noted(0, about_jobs=True)
    noted = replace(
        before,
        count=before.count + len(ids),
        ids=(*before.ids, *ids)[:MOST_IDS],
        tables=before.tables | {table},
        tenants=before.tenants | set(tenants),
    )
    if change.noted is None:
        single = old if noted.count == 1 else None
        row = _insert(using, change, old=single, new=change.arguments, **_about(noted))
        noted = replace(noted, pk=row.pk)
    elif noted == replace(before, count=noted.count):  # the list of ids is full: do not write it again for each job
        count_more(using, len(ids))
    else:
        AuditLog.objects.using(using).filter(pk=noted.pk).update(**_about(noted), old_value=None)
    change.noted = noted


def _about(noted: _Noted) -> dict[str, Any]:
    tables = noted.tables if len(noted.tables) == 1 else {Job}
    names = [str(id) for id in noted.ids]
    single = noted.count == 1
    return {
        "object_type": next(iter(tables))._meta.model_name,
        "object_id": names[0] if single else "",
        "tenant_id": next(iter(noted.tenants)) if len(noted.tenants) == 1 else None,
        "scope": None if single else {"ids": names},
        "count": noted.count,
    }


def _insert(
    using: str,
    change: _Change,
    *,
    object_type: str,
    object_id: str,
    tenant_id: str | None,
    old: Mapping[str, Any] | None,
    new: Mapping[str, Any] | None,
    scope: Mapping[str, Any] | None,
    count: int,
) -> AuditLog:
    operator = change.operator
    return AuditLog.objects.using(using).create(
        timestamp=clock.now(using),
        operator_type=operator.type,
        operator=storable(operator.name)[:255],
        via=storable(operator.via)[:64],
        origin=storable(operator.origin)[:255],
        verb=change.verb[:64],
        object_type=object_type[:64],
        object_id=storable(object_id)[:255],
        tenant_id=tenant_id,
        count=count,
        scope=scope,
        old_value=_value(old),
        new_value=_value(new),
    )


def _value(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Values for storage: without secret or sensitive ones, and truncated."""
    if not value:
        return None
    shown: dict[str, Any] = hide({name: each for name, each in value.items() if name not in _SECRET})
    return {name: _cut(each) for name, each in shown.items()} or None


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value) if len(value) <= LONGEST else f"{storable(value)[:LONGEST]}…"
    if not isinstance(value, dict | list | tuple):
        return value
    text = json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False)
    return json.loads(text) if len(text) <= LONGEST else f"{text[:LONGEST]}…"
