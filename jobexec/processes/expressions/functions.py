"""Functions that expressions may call: a registry by name, with declared parameters.

A function gets values and returns one. The kinds of its parameters are declared, so that what does not fit is found
before the call: it makes null in FEEL, and an error in JUEL.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from .values import Value, kind

F = TypeVar("F", bound=Callable[..., Any])

#: Stands for every kind.
ANY = "any"


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    kinds: frozenset[str]
    optional: bool = False

    def fits(self, value: Value) -> bool:
        return ANY in self.kinds or kind(value) in self.kinds


@dataclass(frozen=True, slots=True)
class Function:
    """``call`` gets the evaluation first if ``evaluation`` is set: to read the clock, or to pay for its work.

    With ``variadic``, one list or any number of arguments are given as one list; with ``repeats``, the last parameter
    takes any number of them.
    """

    name: str
    call: Callable[..., Value]
    parameters: tuple[Parameter, ...]
    variadic: bool = False
    repeats: bool = False
    evaluation: bool = False

    def accepts(self, count: int) -> bool:
        required = sum(not parameter.optional for parameter in self.parameters)
        return self.variadic or (required <= count and (self.repeats or count <= len(self.parameters)))

    def arguments(self, values: Sequence[Value], names: Sequence[str] = ()) -> list[Value] | None:
        """The arguments in the order of the parameters; None if one of them has the wrong kind."""
        if self.variadic and not (len(values) == 1 and type(values[0]) is list):
            values = [list(values)]
        if names:
            given = dict(zip(names, values, strict=True))
            values = [given.get(parameter.name) for parameter in self.parameters]
        values = list(values)
        while values and values[-1] is None and self.parameters[min(len(values), len(self.parameters)) - 1].optional:
            values.pop()  # null for an optional argument is none
        if not all(parameter.fits(value) for parameter, value in zip(self.parameters, values, strict=False)):
            return None
        return values

    def matches(self, count: int, names: Sequence[str]) -> bool:
        """Whether it can be called with this number of arguments, or with arguments of these names."""
        if not names:
            return self.accepts(count)
        required = {parameter.name for parameter in self.parameters if not parameter.optional}
        return required <= set(names) <= {parameter.name for parameter in self.parameters}


class Functions:
    """A table of functions. A name may have several, which differ in the number or kinds of their parameters."""

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[Function, ...]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def named(self, name: str) -> tuple[Function, ...]:
        return self._by_name.get(name, ())

    def names(self) -> frozenset[str]:
        return frozenset(self._by_name)

    def update(self, other: Functions) -> None:
        for name in other.names():
            self._by_name[name] = (*self.named(name), *other.named(name))

    def register(
        self, name: str, parameters: str = "", *, variadic: bool = False, repeats: bool = False
    ) -> Callable[[F], F]:
        """Add a function under a name of the language.

        ``parameters`` are ``"string: string, start position: number, length?: number"``, several kinds divided by
        ``|``. A function whose first parameter is called ``evaluation`` gets the running evaluation there.
        """

        def add(function: F) -> F:
            wants = next(iter(inspect.signature(function).parameters), None) == "evaluation"
            entry = Function(name, function, _parameters(parameters), variadic, repeats, wants)
            self._by_name[name] = (*self.named(name), entry)
            return function

        return add


def _parameters(text: str) -> tuple[Parameter, ...]:
    return tuple(_parameter(part) for part in text.split(",") if part.strip())


def _parameter(text: str) -> Parameter:
    name, kinds = (part.strip() for part in text.split(":"))
    return Parameter(name.rstrip("?"), frozenset(part.strip() for part in kinds.split("|")), name.endswith("?"))


#: The functions of JUEL that need no registration.
JUEL_FUNCTIONS = Functions()


@JUEL_FUNCTIONS.register("now")
@JUEL_FUNCTIONS.register("dateTime")
def now(evaluation: Any) -> datetime:
    moment: datetime = evaluation.now()
    return moment
