"""Read the executions and variables of call hierarchies: all of them, or those around some places."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from jobexec.operations.sql.dialect import prepared_cursor
from jobexec.operations.sql.locks import lock_rows

from ..models import Execution, ProcessInstance, Variable
from .lock import at_once

#: The columns of an execution, in the order of the fields of a token.
TOKEN = (
    "id", "instance_id", "parent_id", "element_id", "flow_id", "state", "activity_id", "entered_at", "job_id",
    "called_instance_id", "data",
)  # fmt: skip
CALLED = TOKEN.index("called_instance_id")
_VARIABLE = ("scope_id", "name", "value")
#: Where they are after the id of the topmost instance.
_INSTANCE, _PARENT = TOKEN.index("instance_id") + 1, TOKEN.index("parent_id") + 1

#: Makes a query return what is to be seen.
Seen = Callable[[QuerySet[Any]], QuerySet[Any]]


class Rows(NamedTuple):
    """Executions by their columns above, in the order of their ids; variables by scope, name and value."""

    tokens: list[Sequence[Any]]
    variables: list[Sequence[Any]]


def as_seen(queryset: QuerySet[Any]) -> QuerySet[Any]:
    """What the transaction sees."""
    return queryset


def current(queryset: QuerySet[Any]) -> QuerySet[Any]:
    """The current rows, for a transaction that reads an older snapshot: InnoDB returns them to locking reads."""
    return lock_rows(queryset)


def read(
    using: str, roots: Sequence[UUID], seen: Seen, tokens: int | None = None, variables: int | None = None
) -> dict[UUID, Rows] | None:
    """All rows of hierarchies, by the ids of their topmost instances; None if there are more than so many."""
    every = _every_at_once if at_once(using) else _every
    of_tokens, of_variables = every(using, roots, seen, _and_one(tokens), _and_one(variables))
    if _are_more(of_tokens, tokens) or _are_more(of_variables, variables):
        return None
    return _by_root(roots, of_tokens, of_variables)


def _and_one(most: int | None) -> int | None:
    """One row more shows that there are more."""
    return None if most is None else most + 1


def _are_more(rows: Sequence[Any], most: int | None) -> bool:
    return most is not None and len(rows) > most


def read_around(using: str, places: Mapping[UUID, Collection[UUID]], seen: Seen) -> dict[UUID, Rows]:
    """Tokens of hierarchies, by the ids of their topmost instances, and those around them, also around a call; the
    variables of them and of their instances.

    Places that are no tokens are instances.
    """
    read_some = _some_at_once if at_once(using) else _some
    tokens: dict[UUID, Sequence[Any]] = {}
    variables: list[Sequence[Any]] = []
    asked: set[UUID] = set()
    wanted = {id for root, ids in places.items() for id in (root, *ids)}
    while wanted:
        found = read_some(using, list(wanted), seen)
        variables += found.variables
        asked |= wanted
        tokens |= {row[1]: row for row in found.tokens}
        around = {id for row in found.tokens for id in (row[_INSTANCE], row[_PARENT])}
        wanted = (around | _callers(using, (wanted | around) - tokens.keys() - places.keys(), seen)) - asked
    return _by_root(places, sorted(tokens.values(), key=itemgetter(1)), variables)


def _by_root(
    roots: Iterable[UUID], tokens: Iterable[Sequence[Any]], variables: Iterable[Sequence[Any]]
) -> dict[UUID, Rows]:
    found = {root: Rows([], []) for root in roots}
    for root, *token in tokens:
        found[root].tokens.append(token)
    for root, *variable in variables:
        found[root].variables.append(variable)
    return found


def _callers(using: str, instances: Collection[UUID], seen: Seen) -> set[UUID]:
    """The tokens that have called these instances; other ids are ignored."""
    if not instances:
        return set()
    called = ProcessInstance.objects.using(using).filter(pk__in=instances, parent_execution_id__isnull=False)
    return set(seen(called).values_list("parent_execution_id", flat=True))


def count_joined(using: str, root: UUID, scope: UUID, element: str, known: Collection[UUID]) -> int:
    """How many tokens wait at a join, besides those that are known, where the database takes its own words."""
    with prepared_cursor(using) as cursor:
        cursor.execute(_COUNT_JOINED, [root, scope, element, list(known)])
        (count,) = cursor.fetchone()
    return count  # type: ignore[no-any-return]


# Each of the following returns executions and variables, whose columns come after the id of the topmost instance.


def _every(using: str, roots: Sequence[UUID], seen: Seen, tokens: int | None, variables: int | None) -> Rows:
    executions = seen(Execution.objects.using(using).filter(root_id__in=roots).order_by("pk"))
    of_tokens = list(executions.values_list("root_id", *TOKEN)[:tokens])
    if tokens is not None and len(of_tokens) == tokens:
        return Rows(of_tokens, [])
    values = seen(Variable.objects.using(using).filter(root_id__in=roots))
    return Rows(of_tokens, list(values.values_list("root_id", *_VARIABLE)[:variables]))


def _some(using: str, ids: Sequence[UUID], seen: Seen) -> Rows:
    """Tokens with these ids, and variables of scopes with these ids."""
    executions = seen(Execution.objects.using(using).filter(pk__in=ids))
    values = seen(Variable.objects.using(using).filter(scope_id__in=ids))
    return Rows(list(executions.values_list("root_id", *TOKEN)), list(values.values_list("root_id", *_VARIABLE)))


def _every_at_once(using: str, roots: Sequence[UUID], seen: Seen, tokens: int | None, variables: int | None) -> Rows:
    return _both(using, _EVERY, {"roots": list(roots), "tokens": tokens, "variables": variables})


def _some_at_once(using: str, ids: Sequence[UUID], seen: Seen) -> Rows:
    return _both(using, _SOME, {"ids": ids})


def _both(using: str, statement: str, parameters: Mapping[str, Any]) -> Rows:
    """The rows of a statement that returns tokens, and variables in the same columns."""
    found = Rows([], [])
    with prepared_cursor(using) as cursor:
        cursor.execute(statement, parameters)
        for is_variable, root, *columns, text in cursor.fetchall():
            value = {} if text == "{}" else json.loads(text) if isinstance(text, str) else text
            if is_variable:
                _, _, scope, name, *_ = columns
                found.variables.append((root, scope, name, value))
            else:
                found.tokens.append((root, *columns, value))
    found.tokens.sort(key=itemgetter(1))
    return found


# All names are our own.
_TOKENS = f"SELECT false, root_id, {', '.join(TOKEN)} FROM {Execution._meta.db_table}"
_VARIABLES = f"""
SELECT true, root_id, id, instance_id, scope_id, name, NULL, '', NULL, NULL, NULL, NULL, value
FROM {Variable._meta.db_table}"""
_COUNT_JOINED = f"""
SELECT count(*) FROM {Execution._meta.db_table}
WHERE root_id = %s AND parent_id = %s AND element_id = %s AND state = 'joined' AND id <> ALL (%s)
"""
_EVERY = f"""
({_TOKENS} WHERE root_id = ANY (%(roots)s) LIMIT %(tokens)s)
UNION ALL ({_VARIABLES} WHERE root_id = ANY (%(roots)s) LIMIT %(variables)s)
"""
_SOME = f"{_TOKENS} WHERE id = ANY (%(ids)s) UNION ALL {_VARIABLES} WHERE scope_id = ANY (%(ids)s)"
