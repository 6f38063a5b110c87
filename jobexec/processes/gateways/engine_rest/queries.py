"""Lists with conditions, an order and pages, from the parameters of an address or from a body."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse

from jobexec.gateways.rest.camunda7.bodies import Body, body_of
from jobexec.gateways.rest.camunda7.errors import invalid
from jobexec.gateways.rest.camunda7.queries import page_of
from jobexec.gateways.rest.camunda7.times import moment
from jobexec.gateways.rest.common import json_answer
from jobexec.identifiers import as_id


def ids(column: str) -> Callable[[str], Q]:
    """The condition that a UUID is in a column; another text finds nothing."""
    return lambda value: Q(**{f"{column}__in": [id] if (id := as_id(value)) else []})


def id_lists(column: str) -> Callable[[list[str]], Q]:
    return lambda values: Q(**{f"{column}__in": [id for value in values if (id := as_id(value))]})


def equals(column: str) -> Callable[[str], Q]:
    return lambda value: Q(**{column: value})


_REFUSED = ("variables", "processVariables", "taskVariables", "caseInstanceVariables", "orQueries")


@dataclass(frozen=True)
class Query:
    """The conditions of a list by their names; names that are not known are ignored, as in Camunda.

    Those of Camunda that would leave most rows out are refused: a client that acts on the list would act on all rows.
    """

    texts: Mapping[str, Callable[[str], Q]]
    lists: Mapping[str, Callable[[list[str]], Q]] = field(default_factory=dict)
    flags: Mapping[str, Q | Callable[[], Q]] = field(default_factory=dict)
    moments: Mapping[str, str] = field(default_factory=dict)
    sorts: Mapping[str, str] = field(default_factory=dict)

    def rows(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """The matching rows in order. Raises EngineError for a value that is wrong."""
        body = self._asked(request)
        for name in _REFUSED:
            if body.has(name):
                raise invalid(f"{name}: expected none: lists have no conditions on variables, and no alternatives.")
        return rows.filter(*self._conditions(body)).order_by(*self._order(body))

    def _conditions(self, body: Body) -> Iterator[Q]:
        for name, make in self.texts.items():
            if (value := body.text(name)) is not None:
                yield make(value)
        for name, make_of_list in self.lists.items():
            if values := body.texts(name):
                yield make_of_list(values)
        for name, lookup in self.moments.items():
            if (value := body.text(name)) is not None:
                yield Q(**{lookup: moment(name, value)})
        flags = (condition for name, condition in self.flags.items() if body.flag(name))
        yield from (each if isinstance(each, Q) else each() for each in flags)

    def page(
        self, request: HttpRequest, rows: QuerySet[Any], show: Callable[[list[Any]], list[dict[str, Any]]]
    ) -> HttpResponse:
        first, most = page_of(request)
        return json_answer(show(list(self.rows(request, rows)[first : first + most])))

    def count(self, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse:
        return json_answer({"count": self.rows(request, rows).count()})

    def _asked(self, request: HttpRequest) -> Body:
        if request.method == "POST":
            return body_of(request)
        given = {name: request.GET[name] for name in request.GET}
        return Body({name: value.split(",") if name in self.lists else value for name, value in given.items()})

    def _order(self, body: Body) -> list[str]:
        if body.has("sortBy") != body.has("sortOrder"):
            raise invalid("Only a single sorting parameter specified. sortBy and sortOrder required")
        parts = [body] if body.has("sortBy") else body.objects("sorting", most=max(1, len(self.sorts)))
        return [*(self._column(part) for part in parts), "pk"]

    def _column(self, part: Body) -> str:
        by, order = part.text("sortBy") or "", part.text("sortOrder") or "asc"
        if by not in self.sorts:
            raise invalid(f"Cannot set query sortBy parameter to value {by}")
        if order not in ("asc", "desc"):
            raise invalid(f"Cannot set query sortOrder parameter to value {order}")
        return f"-{self.sorts[by]}" if order == "desc" else self.sorts[by]


TENANTS: dict[str, Callable[[list[str]], Q]] = {"tenantIdIn": lambda values: Q(tenant_id__in=values)}
WITHOUT_TENANT: dict[str, Q | Callable[[], Q]] = {"withoutTenantId": Q(tenant_id="")}
