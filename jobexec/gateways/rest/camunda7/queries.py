"""Task queries over the tables of waiting, suspended and dead-letter external jobs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest

from jobexec import clock
from jobexec.models import EXTERNAL_TABLES, AbstractJob, SuspendedJob
from jobexec.operations.external.search import external_rows, without_large
from jobexec.operations.external.types import Caller

from .bodies import Body
from .conditions import LISTS, conditions, key_of
from .errors import invalid, no_such_task

#: The maximum number of results, also of a query without maxResults.
MOST = 10_000

_SORTS = {
    "id": "job_key",
    "createTime": "create_time",
    "lockExpirationTime": "lock_expiration_time",
    "processInstanceId": "process_instance_id",
    "processDefinitionId": "process_definition_id",
    "processDefinitionKey": "process_definition_key",
    "tenantId": "tenant_id",
    "taskPriority": "priority",
    "priority": "priority",
}


class TaskQuery:
    """A query from the parameters of a URL or from a body. Raises EngineError for invalid values."""

    def __init__(self, using: str, caller: Caller, body: Body) -> None:
        self._using, self._caller, self._body = using, caller, body
        self._condition = conditions(body, clock.now(using))
        self._order = _order(body)

    def rows(self, first: int, most: int, *loaded: str) -> list[Any]:
        """A page of rows in order, read with :func:`~jobexec.operations.external.search.without_large`."""
        # Select the ids first, because the rows in the tables may be large.
        names = ["pk", *sorted({column.lstrip("-") for column in self._order})]
        ids = [table.order_by().values_list(*names) for table in self.tables()]
        union = ids[0].union(*ids[1:], all=True) if len(ids) > 1 else ids[0] if ids else None
        if union is None or most == 0:
            return []
        page = [found[0] for found in union.order_by(*self._order)[first : first + most]]
        rows = {pk: row for table in self.tables() for pk, row in without_large(table, *loaded).in_bulk(page).items()}
        return [rows[pk] for pk in page if pk in rows]

    def count(self) -> int:
        return sum(table.count() for table in self.tables())

    def ids(self) -> list[UUID]:
        """The ids of all matching rows."""
        return [pk for table in self.tables() for pk in table.values_list("pk", flat=True)]

    def ids_by_key(self) -> dict[str, UUID]:
        """The ids of all matching rows, by the ids that clients see."""
        return {str(key): pk for table in self.tables() for key, pk in table.values_list("job_key", "pk")}

    def tables(self) -> list[QuerySet[AbstractJob]]:
        """A queryset of the matching rows for each table that may have some."""
        suspended, active = self._body.flag("suspended"), self._body.flag("active")
        if suspended and active:
            return []
        given = suspended or active
        chosen = [table for table in EXTERNAL_TABLES if not given or (table is SuspendedJob) == bool(suspended)]
        return [external_rows(self._using, table, self._caller).filter(self._condition) for table in chosen]


def one(using: str, caller: Caller, id: str, *loaded: str) -> Any:
    """The task with this id, read like those of a query. Raises EngineError (404)."""
    key = key_of(id)
    for table in EXTERNAL_TABLES if key is not None else ():
        row = without_large(external_rows(using, table, caller), *loaded).filter(job_key=key).first()
        if row is not None:
            return row
    raise no_such_task(id)


def of_address(request: HttpRequest) -> Body:
    """Convert the parameters of the URL to a body; lists are separated by commas."""
    given = {name: request.GET[name] for name in request.GET}
    return Body({name: value.split(",") if name in LISTS else value for name, value in given.items()})


def page_of(request: HttpRequest) -> tuple[int, int]:
    """The requested page: the offset and the number of results."""
    given = of_address(request)
    most = given.integer("maxResults", MOST, least=0)
    return given.integer("firstResult", 0, least=0) or 0, min(MOST if most is None else most, MOST)


def _order(body: Body) -> list[str]:
    sortings = body.objects("sorting", most=len(_SORTS))
    if body.has("sortBy") != body.has("sortOrder"):
        raise invalid("Only a single sorting parameter specified. sortBy and sortOrder required")
    if body.has("sortBy"):
        sortings = [body, *sortings]
    order = [_column(each) for each in sortings]
    # A unique last column keeps the order of equal rows stable across pages.
    return order if {"job_key", "-job_key"} & set(order) else [*order, "job_key"]


def _column(body: Body) -> str:
    by, order = body.text("sortBy"), body.text("sortOrder") or "asc"
    if by not in _SORTS:
        raise invalid(f"Cannot set query sortBy parameter to value {by}")
    if order not in ("asc", "desc"):
        raise invalid(f"Cannot set query sortOrder parameter to value {order}")
    return f"-{_SORTS[by]}" if order == "desc" else _SORTS[by]
