"""The contract, declared once: from it, requests are read, responses written and the OpenAPI document generated."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.http.request import RawPostDataException

from .problems import INVALID_ARGUMENT, TOO_LARGE, Refused, invalid
from .values import CURSOR, FLAG, NUMBER, OBJECT, TEXT, Kind, Schema, check_length, cursor, described, integer, nullable

_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_T = TypeVar("_T")

#: The schemas of all named requests and responses.
SCHEMAS: dict[str, Schema] = {}

_DEFAULT_ROWS, _MOST_ROWS = 100, 10_000


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a request. One that is null counts as missing."""

    kind: Kind
    default: Any = None
    is_required: bool = False


def required(kind: Kind, about: str = "") -> Member:
    return Member(described(kind, about) if about else kind, is_required=True)


def optional(kind: Kind, default: Any = None, about: str = "") -> Member:
    return Member(nullable(described(kind, about) if about else kind), default)


class Request:
    """The JSON object that a call takes, or, without a name, a part of one. Unknown members are ignored."""

    def __init__(self, name: str = "", /, **members: Member) -> None:
        self.name, self.members = name, members
        self.required = [name for name, member in members.items() if member.is_required]
        properties = {name: member.kind.schema for name, member in members.items()}
        self.schema: Schema = {"type": "object", "properties": properties, "additionalProperties": True}
        if self.required:
            self.schema["required"] = self.required
        if name:
            SCHEMAS[name] = self.schema

    def values(self, given: Mapping[str, Any], where: str = "") -> dict[str, Any]:
        """The value of each member, or its default. Raises Refused (400), which names the member below ``where``."""
        found = {}
        for name, member in self.members.items():
            value = given.get(name)
            if value is not None:
                found[name] = member.kind.read(f"{where}{name}", value)
            elif member.is_required:
                raise Refused(INVALID_ARGUMENT, f"{where}{name}: expected a value, got none.")
            else:
                found[name] = member.default
        return found

    def part(self) -> Kind:
        """The kind of a member that holds such an object."""
        return Kind(self.schema, lambda field, value: self.values(OBJECT.read(field, value), f"{field}."))

    def read(self, request: HttpRequest) -> dict[str, Any]:
        """The values in a request's body. An empty body counts as an empty object. Raises Refused."""
        return self.values(_json_of(request))


def several(part: Request, most: int) -> Kind:
    """The kind of a member that holds a list of at most ``most`` such objects."""
    one = part.part()

    def read(field: str, value: Any) -> list[dict[str, Any]]:
        if not isinstance(value, list):
            raise invalid(field, "a list of JSON objects", value)
        check_length(field, value, most)
        return [one.read(f"{field}[{place}]", each) for place, each in enumerate(value)]

    return Kind({"type": "array", "items": part.schema}, read)


def _json_of(request: HttpRequest) -> dict[str, Any]:
    try:
        raw = request.body
    except RequestDataTooBig as error:
        raise Refused(TOO_LARGE, "The body is larger than DATA_UPLOAD_MAX_MEMORY_SIZE allows.") from error
    except RawPostDataException as error:  # earlier code, such as middleware, has read it as a form
        raise Refused(INVALID_ARGUMENT, "The body: expected a JSON object, got a form.") from error
    if not raw.strip():
        return {}
    try:
        members = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Refused(INVALID_ARGUMENT, f"The body: expected a JSON object, got invalid JSON: {error}.") from error
    if not isinstance(members, dict):
        raise invalid("The body", "a JSON object", members)
    return members


@dataclass(frozen=True, slots=True)
class Property(Generic[_P]):
    """A member of a response, computed by ``value`` from what the response shows.

    A search compares in the database by ``column``, if one holds the value unchanged; ``needs`` are the columns from
    which it is computed otherwise.
    """

    kind: Kind
    value: Callable[_P, Any]
    column: str = ""
    needs: tuple[str, ...] = ()
    is_searchable: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        return self.needs or ((self.column,) if self.column else ())


def constant(kind: Kind, value: Any) -> Property[...]:
    return Property(kind, lambda *shown, **named: value)


class Response(Generic[_P]):
    """The JSON object that a call returns, or a part of one; every member is always present."""

    def __init__(self, name: str, /, **members: Property[_P]) -> None:
        self.name, self.members = name, members
        self.searchable = {name: member for name, member in members.items() if member.is_searchable}
        SCHEMAS[name] = response_schema({name: member.kind.schema for name, member in members.items()})

    def of(self, *shown: _P.args, **named: _P.kwargs) -> dict[str, Any]:
        return {name: member.value(*shown, **named) for name, member in self.members.items()}

    def only(self, names: Collection[str], *shown: _P.args, **named: _P.kwargs) -> dict[str, Any]:
        """Some of the members; reads only their columns."""
        return {name: self.members[name].value(*shown, **named) for name in names}

    def one(self: Response[[_T]], value: Callable[_Q, _T]) -> Property[_Q]:
        """A member that holds such an object, made of what ``value`` returns."""

        def shown(*args: _Q.args, **kwargs: _Q.kwargs) -> dict[str, Any]:
            return self.of(value(*args, **kwargs))

        return Property(_output(ref(self.name)), shown)

    def several(self: Response[[_T]], value: Callable[_Q, Sequence[_T]]) -> Property[_Q]:
        """A member that holds a list of such objects."""

        def shown(*args: _Q.args, **kwargs: _Q.kwargs) -> list[dict[str, Any]]:
            return [self.of(each) for each in value(*args, **kwargs)]

        return Property(_output({"type": "array", "items": ref(self.name)}), shown)


def response_schema(properties: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "properties": dict(properties), "required": sorted(properties)}


def _output(schema: Schema) -> Kind:
    """A kind that occurs only in responses."""
    return Kind(schema, lambda field, value: value)


#: A page of a search's result, by position or by the cursor of an earlier page.
PAGE = Request(
    limit=optional(integer(0, _MOST_ROWS), _DEFAULT_ROWS),
    after=optional(CURSOR),
    before=optional(CURSOR),
    **{"from": optional(integer(0), 0)},
)
ANY_PAGE = optional(PAGE.part(), PAGE.values({}))


class Pages:
    """The response of a search: a page of rows, and where it is."""

    def __init__(self, name: str, item: Response[...]) -> None:
        self.name = name
        SCHEMAS[name] = response_schema({"items": {"type": "array", "items": ref(item.name)}, "page": ref(_PAGE.name)})

    def of(
        self,
        page: Mapping[str, Any],
        rows: Sequence[dict[str, Any]],
        more: bool = False,
        complete: Callable[[Sequence[dict[str, Any]]], list[dict[str, Any]]] = list,
    ) -> dict[str, Any]:
        """The requested page of the rows.

        ``more``: there are further rows that the search has not read. ``complete`` serialises the rows of the page in
        full.
        """
        begin, limit = page["from"], page["limit"]
        if page["after"] is not None:
            begin = page["after"]
        elif page["before"] is not None:
            begin, limit = max(0, page["before"] - limit), min(limit, page["before"])
        part = rows[begin : begin + limit]
        return {"items": complete(part), "page": _PAGE.of(len(rows), more, begin, len(part))}


_PAGE = Response(
    "SearchQueryPageResponse",
    totalItems=Property(NUMBER, lambda total, more, begin, length: total),
    hasMoreTotalItems=Property(FLAG, lambda total, more, begin, length: more),
    startCursor=Property(nullable(TEXT), lambda total, more, begin, length: cursor(begin) if length else None),
    endCursor=Property(nullable(TEXT), lambda total, more, begin, length: cursor(begin + length) if length else None),
)
