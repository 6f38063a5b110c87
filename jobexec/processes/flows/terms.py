"""Values that a flow computes while it runs: results, variables, and what is made of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any

from ..definition import Expression, InvalidProcess, Problem, Value


class Term:
    """A placeholder for a value. Use Python's operators on it: ``charged.result["amount"] * 2 > 1000``.

    The engine computes the value when the flow runs. ``&``, ``|`` and ``~`` mean *and*, *or* and *not*. They need
    brackets around comparisons, as in Django's ``Q`` or in pandas. ``sources`` are the ids of the steps whose results
    the term contains.
    """

    __slots__ = ("flow", "sources", "text")

    def __init__(self, text: str, sources: frozenset[str] = frozenset(), flow: object = None) -> None:
        self.text, self.sources, self.flow = text, sources, flow

    def __repr__(self) -> str:
        return f"<{self.text}>"

    @property
    def expression(self) -> Expression:
        """Return it as an expression of a definition."""
        return Expression(f"${{{self.text}}}")

    def __getitem__(self, key: str | int) -> Term:
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise _wrong(f"{self!r}: expected the name or the number of an item, got {key!r}.")
        if isinstance(key, int) and key < 0:
            raise _wrong(f"{self!r}: the number of an item counts from 0, got {key}.")
        return self._made(f"{self.text}[{literal(key)}]")

    def get(self, key: str) -> Term:
        """An item of an object that may have no such item: then it is None, while ``result[key]`` is an error.

        ``key`` is a name: letters, digits and ``_``.
        """
        if not isinstance(key, str) or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", key):
            raise _wrong(f"{self!r}.get(): expected a name of letters, digits and _, got {key!r}.")
        return self._made(f"{self.text}.{key}")

    def is_empty(self) -> Term:
        """Whether the value is None, or an empty string, list or object. The result of a skipped step is None."""
        return self._made(f"(empty {self.text})")

    def __eq__(self, other: object) -> Term:  # type: ignore[override]
        return self._with("==", other)

    def __ne__(self, other: object) -> Term:  # type: ignore[override]
        return self._with("!=", other)

    def __lt__(self, other: object) -> Term:
        return self._with("<", other)

    def __le__(self, other: object) -> Term:
        return self._with("<=", other)

    def __gt__(self, other: object) -> Term:
        return self._with(">", other)

    def __ge__(self, other: object) -> Term:
        return self._with(">=", other)

    def __and__(self, other: Term) -> Term:
        return self._with("&&", other)

    def __or__(self, other: Term) -> Term:
        return self._with("||", other)

    def __invert__(self) -> Term:
        return self._made(f"(!{self.text})")

    def __neg__(self) -> Term:
        return self._made(f"(-{self.text})")

    def __add__(self, other: object) -> Term:
        return self._with("+", other)

    def __radd__(self, other: object) -> Term:
        return self._with("+", other, swapped=True)

    def __sub__(self, other: object) -> Term:
        return self._with("-", other)

    def __rsub__(self, other: object) -> Term:
        return self._with("-", other, swapped=True)

    def __mul__(self, other: object) -> Term:
        return self._with("*", other)

    def __rmul__(self, other: object) -> Term:
        return self._with("*", other, swapped=True)

    def __truediv__(self, other: object) -> Term:
        return self._with("/", other)

    def __mod__(self, other: object) -> Term:
        return self._with("%", other)

    __hash__ = object.__hash__

    # What Python would do with an object like this is never what was meant.

    def __bool__(self) -> bool:
        raise _wrong(f"{self!r} has no value yet. Use &, | and ~ instead of and, or and not; give conditions to when=.")

    def __iter__(self) -> Iterator[Any]:
        raise _wrong(f"{self!r} has no items yet. To run a job for each of them, use map().")

    def __contains__(self, item: object) -> bool:
        raise _wrong(f"{self!r} has no items yet. Compare them one by one, or do it in a step.")

    def __str__(self) -> str:
        raise _wrong(f"{self!r} has no text yet. Give it to a step as an argument of its own, which makes the text.")

    def __format__(self, spec: str) -> str:
        return str(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copy and pickle ask for these
            raise AttributeError(name)
        raise AttributeError(f"{self!r} has no attribute {name!r}; an item of a result is result[{name!r}].")

    def without(self, names: Iterable[str]) -> Term:
        """The same, where these names are known."""
        return Term(self.text, self.sources.difference(names), self.flow)

    def _made(self, text: str, *others: Term) -> Term:
        flow = self.flow
        for other in others:
            if flow is not None and other.flow is not None and other.flow is not flow:
                raise _wrong(f"{self!r} and {other!r} belong to different flows.")
            flow = flow or other.flow
        return Term(text, self.sources.union(*(other.sources for other in others)), flow)

    def _with(self, operator: str, other: object, *, swapped: bool = False) -> Term:
        others = (other,) if isinstance(other, Term) else ()
        left, right = self.text, other.text if isinstance(other, Term) else literal(other)
        if swapped:
            left, right = right, left
        return self._made(f"({left} {operator} {right})", *others)


#: The item of a list for which a step of ``map`` runs, and its number, from 0.
item, index = Term("item", frozenset(["item"])), Term("loopCounter", frozenset(["loopCounter"]))
#: What the step before returned, in ``chain``; after ``parallel``, the list of what its steps returned. In the call
#: that compensates a step: what this step returned.
previous = Term("previous", frozenset(["previous"]))
#: Where each of them can be used. No step has such a name.
WHERE = {"previous": "in the calls of chain() and in compensate="} | dict.fromkeys(
    ["item", "loopCounter"], "in the arguments of map()"
)
_PREVIOUS = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![\w.])previous\b((?:\[\d+\])*)')


def with_previous(value: Value, result: Term | list[Any]) -> Value:
    """A value of lists and mappings in which :data:`previous` is this result, or this list of results."""
    return replaced(value, lambda term: _with_previous(term, result) if "previous" in term.sources else term)


def _with_previous(term: Term, result: Term | list[Any]) -> Term | list[Any]:
    if whole := _PREVIOUS.fullmatch(term.text):
        return _picked(term, result, whole)
    made = term.without(["previous"])

    def replace(found: re.Match[str]) -> str:
        nonlocal made
        if found[0].startswith('"'):
            return found[0]
        one = _picked(term, result, found)
        if isinstance(one, list):  # which an expression cannot contain
            raise _wrong(f"{term!r}: previous is a list of {len(one)} results here; use one of them, or only the list.")
        made = made._made("", one)
        return one.text

    text = _PREVIOUS.sub(replace, term.text)
    return Term(text, made.sources, made.flow)


def _picked(term: Term, result: Term | list[Any], found: re.Match[str]) -> Term | list[Any]:
    """The result that is meant, or the item of a list of results, by its numbers."""
    numbers = re.findall(r"\d+", found[1])
    while isinstance(result, list) and numbers:
        if int(numbers[0]) >= len(result):
            raise _wrong(f"{term!r}: previous is a list of {len(result)} results here.")
        result = result[int(numbers.pop(0))]
    if isinstance(result, list):
        return result
    return Term(result.text + "".join(f"[{number}]" for number in numbers), result.sources, result.flow)


def literal(value: object) -> str:
    """A constant in an expression. Raises InvalidProcess for values that expressions cannot contain."""
    if isinstance(value, float) and not isfinite(value):
        raise _wrong(f"An expression cannot contain {value!r}.")
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    raise _wrong(
        f"A condition compares with a string, a number, True, False, None or another result, not with {value!r}."
    )


def replaced(value: Value, replace: Any) -> Value:
    """A value of lists and mappings in which ``replace`` has been called for each term."""
    if isinstance(value, Term):
        return replace(value)
    if isinstance(value, dict):
        return {key: replaced(each, replace) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [replaced(each, replace) for each in value]
    return value


def terms_in(value: Value) -> Iterator[Term]:
    """All terms in lists and mappings."""
    if isinstance(value, Term):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from terms_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from terms_in(each)


def _wrong(message: str) -> InvalidProcess:
    return InvalidProcess([Problem("flow", message)])
