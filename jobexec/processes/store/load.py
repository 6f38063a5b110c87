"""Load the rows of call hierarchies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn
from uuid import UUID

from django.db.models import QuerySet, Sum, TextField
from django.db.models.functions import Cast, Length

from jobexec.models import Job
from jobexec.operations.sql.dialect import prepared_cursor
from jobexec.operations.sql.locks import reads_snapshots

from ..definition import Trigger
from ..engine import rows
from ..engine.tokens import Loaded, Tokens
from ..models import EventSubscription, Execution, ProcessInstance, UserTask, Variable
from ..models.instance import RUNNING
from . import definitions
from .lock import at_once, unlocked
from .read import CALLED, Rows, Seen, as_seen, count_joined, current, read, read_around

#: Tokens and variables up to which the hierarchies of a step are loaded whole.
FEW = (50, 200)
#: A step that finds more has read them in vain. So the process remembers such hierarchies, at most so many, by the ids
#: of their topmost instances, and for how many steps it does not look again.
_STEPS, _KEPT = 50, 1_000
_crowded: dict[UUID, int] = {}
_SUBSCRIBED = frozenset({Trigger.MESSAGE, Trigger.SIGNAL})


def user_task(using: str, owner: UUID, activity: UUID) -> UserTask:
    """The open task of a token."""
    return UserTask.objects.using(using).get(owner_id=owner, activity_id=activity)


def root_of(using: str, instance: UUID) -> UUID | None:
    """The topmost instance of the hierarchy of an instance that runs; None if there is none."""
    found = ProcessInstance.objects.using(using).filter(pk=instance, state__in=RUNNING)
    return found.values_list("root_id", flat=True).first()


def waiting(using: str, id: UUID, waits_for: UUID) -> tuple[Any, ...] | None:
    """The token to which a job belongs, if it waits for it, or for the batch ``waits_for`` of which that is a part.

    Its topmost instance, its own id, that of its activity, its instance, its definition and its element. Nothing is
    locked. Found by primary keys only: a fork of n branches asks n times.
    """
    if at_once(using):
        with prepared_cursor(using) as cursor:
            cursor.execute(_WAITING, [id, waits_for])
            return cursor.fetchone()  # type: ignore[no-any-return]
    owner = Job.objects.using(using).filter(pk=id).exclude(execution_id="").values_list("execution_id", flat=True)
    found = Execution.objects.using(using).filter(pk__in=[UUID(each) for each in owner], job_id=waits_for)
    return found.values_list(*_WAITS).first()


def all_waiting(using: str, jobs: Collection[UUID]) -> dict[UUID, tuple[Any, ...]]:
    """As :func:`waiting`, for several jobs and their batches, by the ids of the jobs."""
    if at_once(using):
        with prepared_cursor(using) as cursor:
            cursor.execute(_ALL_WAITING, [list(jobs)])
            return {row[0]: row[1:] for row in cursor.fetchall()}
    rows = Job.objects.using(using).filter(pk__in=jobs).exclude(execution_id="")
    owners = {id: (UUID(owner), batch) for id, owner, batch in rows.values_list("pk", "execution_id", "batch_id")}
    tokens = Execution.objects.using(using).filter(pk__in={owner for owner, _ in owners.values()})
    found = {pk: (job, token) for pk, job, *token in tokens.values_list("pk", "job_id", *_WAITS)}
    return {
        id: tuple(found[owner][1])
        for id, (owner, batch) in owners.items()
        if owner in found and found[owner][0] in (id, batch or id)
    }


_WAITS = ("root_id", "pk", "activity_id", "instance_id", "definition_id", "element_id")
_WAITING = f"""
SELECT root_id, token.id, activity_id, instance_id, token.definition_id, token.element_id
FROM {Job._meta.db_table} job JOIN {Execution._meta.db_table} token ON token.id = nullif(job.execution_id, '')::uuid
WHERE job.id = %s AND token.job_id = %s
"""
_ALL_WAITING = f"""
SELECT job.id, root_id, token.id, activity_id, instance_id, token.definition_id, token.element_id
FROM {Job._meta.db_table} job JOIN {Execution._meta.db_table} token ON token.id = nullif(job.execution_id, '')::uuid
WHERE job.id = ANY (%s) AND token.job_id IN (job.id, job.batch_id)
"""


def load(using: str, origin: ProcessInstance, places: Collection[UUID] | None = None) -> Tokens:
    """The rows of the call hierarchy of this instance, which is locked. What has ended is not among them.

    ``places`` are the tokens or instances that a step is about. Of a hierarchy with many tokens, only these are loaded,
    and the scopes around them; the step asks for others when it needs them, so that n branches do not cost n². What the
    definitions say cannot be there is not asked for.
    """
    return load_all(using, {origin.pk: origin}, {origin.pk: places})[origin.pk]


def load_all(
    using: str, origins: Mapping[UUID, ProcessInstance], places: Mapping[UUID, Collection[UUID] | None]
) -> dict[UUID, Tokens]:
    """As :func:`load`, for several hierarchies, by the ids of their topmost instances."""
    seen = current if reads_snapshots(using) else as_seen
    few = None not in places.values()
    crowded = [root for root in origins if few and _is_crowded(root)]
    others = [root for root in origins if root not in crowded]
    most = tuple(number * len(others) for number in FEW) if few else (None, None)
    loaded: dict[UUID, Tokens] = {}
    found = read(using, others, seen, *most) if others else {}
    if found is not None:
        whole = {root: _whole(using, origins[root], each, seen) for root, each in found.items()}
        loaded = {root: Tokens(*each) for root, each in _loaded(using, whole, seen).items()}
    elif len(others) > 1:
        loaded = {root: load(using, origins[root], places[root]) for root in others}
    else:
        _remember(*others)
        crowded += others
    if crowded:
        around = read_around(using, {root: places[root] or () for root in crowded}, seen)
        some = {root: _around(using, origins[root], places[root] or (), each, seen) for root, each in around.items()}
        for root, each in _loaded(using, some, seen).items():
            loaded[root] = Tokens(*each, others=_Others(using, origins[root], seen))
    return {root: loaded[root] for root in origins}


def _is_crowded(root: UUID) -> bool:
    """Whether the process remembers that a hierarchy has many tokens. Each call counts as a step."""
    left = _crowded.pop(root, 0)
    if left > 1:
        _crowded[root] = left - 1
    return left > 0


def _remember(root: UUID) -> None:
    if len(_crowded) >= _KEPT:
        _crowded.clear()
    _crowded[root] = _STEPS


def load_unlocked(using: str, root: UUID, token: UUID) -> Tokens | None:
    """A token and the scopes around it, as they are now; None if it is gone.

    Others are of no use without the lock: what needs them raises LookupError.
    """
    origin = unlocked(using, root)
    if origin is None:
        return None
    around = read_around(using, {root: [token]}, as_seen)
    some = {root: _around(using, origin, [token], around[root], as_seen)}
    found = Tokens(*_loaded(using, some, as_seen)[root], others=_Unlocked())
    return found if found.has_at_hand(token) else None


class _Others:
    """The rows of a locked hierarchy that were not loaded with its step (:class:`~..engine.tokens.Others`)."""

    def __init__(self, using: str, origin: ProcessInstance, seen: Seen) -> None:
        self.using, self.origin, self.seen = using, origin, seen

    def load(self) -> Loaded:
        root = self.origin.pk
        found = read(self.using, [root], self.seen)
        assert found is not None
        whole = _whole(self.using, self.origin, found[root], self.seen)
        return _loaded(self.using, {root: whole}, self.seen)[root]

    def count_joined(self, scope: UUID, element: str, known: Collection[UUID]) -> int:
        if at_once(self.using):
            return count_joined(self.using, self.origin.pk, scope, element, known)
        joined = self._in(scope, known).filter(element_id=element, state=rows.State.JOINED)
        return len(self.seen(joined).values_list("pk"))

    def is_empty(self, scope: UUID, known: Collection[UUID]) -> bool:
        active = self._in(scope, known).exclude(state=rows.State.COMPENSABLE)
        return not self.seen(active).values_list("pk")[:1]

    def _in(self, scope: UUID, known: Collection[UUID]) -> QuerySet[Execution]:
        executions = Execution.objects.using(self.using).filter(root_id=self.origin.pk, parent_id=scope)
        return executions.exclude(pk__in=known)

    def size_of_variables(self, instance: UUID, known: Collection[UUID]) -> int:
        variables = Variable.objects.using(self.using).filter(root_id=self.origin.pk, instance_id=instance)
        texts = variables.exclude(scope_id__in=known).annotate(text=Cast("value", TextField()))
        found = texts.aggregate(size=Sum(Length("text") + Length("name") + _PUNCTUATION))["size"]
        return _BYTES * (found or 0)


#: Characters beside a name and a value in an object of JSON, and the most bytes of a character.
_PUNCTUATION, _BYTES = 6, 4


class _Unlocked:
    def _refuse(self, *args: Any) -> NoReturn:
        raise LookupError("The call hierarchy is not locked.")

    load = count_joined = is_empty = size_of_variables = _refuse


class _Part(NamedTuple):
    """Rows of a hierarchy, before its subscriptions are loaded: those of ``owners``, with None all of them."""

    instances: list[ProcessInstance]
    rows: Rows
    owners: Collection[UUID] | None = None


def _whole(using: str, origin: ProcessInstance, found: Rows, seen: Seen) -> _Part:
    if all(token[CALLED] is None for token in found.tokens):
        return _Part([origin], found)
    running = ProcessInstance.objects.using(using).filter(root_id=origin.pk, state__in=RUNNING)
    return _Part(list(seen(running.order_by("pk"))), found)


def _around(using: str, origin: ProcessInstance, places: Collection[UUID], found: Rows, seen: Seen) -> _Part:
    """Tokens or instances, and the scopes around them up to the topmost instance, with the variables of all these."""
    tokens = {token[0] for token in found.tokens}
    ids = {origin.pk, *places, *(token[1] for token in found.tokens)} - tokens
    instances = [origin]
    if len(ids) > 1:
        running = ProcessInstance.objects.using(using).filter(pk__in=ids, state__in=RUNNING)
        instances = list(seen(running.order_by("pk")))
    return _Part(instances, found, ids | tokens)


def _loaded(using: str, parts: Mapping[UUID, _Part], seen: Seen) -> dict[UUID, Loaded]:
    """The rows of parts that are all whole, or all not, by the ids of their topmost instances."""
    subscriptions = _subscriptions(using, parts, seen)
    return {root: _values(part, subscriptions.get(root, ())) for root, part in parts.items()}


def _subscriptions(using: str, parts: Mapping[UUID, _Part], seen: Seen) -> dict[UUID, list[EventSubscription]]:
    found: dict[UUID, list[EventSubscription]] = {
        root: [] for root, part in parts.items() if any(_subscribes(using, row) for row in part.instances)
    }
    if found:
        owners = [parts[root].owners for root in found]
        queried = EventSubscription.objects.using(using).filter(root_id__in=found).order_by("pk")
        if None not in owners:
            queried = queried.filter(owner_id__in={id for some in owners for id in some or ()})
        for row in seen(queried):
            assert row.root_id is not None
            found[row.root_id].append(row)
    return found


def _subscribes(using: str, row: ProcessInstance) -> bool:
    return not definitions.process(using, row.definition_id).awaits.isdisjoint(_SUBSCRIBED)


def _values(part: _Part, subscriptions: Iterable[EventSubscription]) -> Loaded:
    variables: dict[UUID, dict[str, Any]] = {}
    for scope, name, value in part.rows.variables:
        variables.setdefault(scope, {})[name] = value
    return Loaded(
        [_instance(row) for row in part.instances],
        [_token(row) for row in part.rows.tokens],
        variables,
        [_subscription(row) for row in subscriptions],
    )


def _token(row: Sequence[Any]) -> rows.Token:
    """From the columns above, which are in the order of the fields."""
    id, instance, parent, element, flow, state, *rest = row
    return rows.Token(id, instance, parent, element, flow, rows.State(state), *rest)


def _instance(row: ProcessInstance) -> rows.Instance:
    return rows.Instance(
        id=row.pk,
        definition=row.definition_id,
        root=row.root_id,
        parent=row.parent_execution_id,
        business_key=row.business_key or None,
        state=rows.InstanceState(row.state),
        started_at=row.start_time,
        reason=row.delete_reason or None,
    )


def _subscription(row: EventSubscription) -> rows.Subscription:
    assert row.instance_id is not None and row.owner_id is not None  # those of start events have no root
    return rows.Subscription(
        id=row.pk,
        kind=rows.SubscriptionKind(row.kind),
        name=row.name,
        key=row.key or None,
        instance=row.instance_id,
        owner=row.owner_id,
        element=row.element_id,
        activity=row.activity_id,
    )
