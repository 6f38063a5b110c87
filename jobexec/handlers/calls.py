"""The calls passed to ``enqueue_many``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from jobexec.exceptions import InvalidJob

#: Positional arguments, or keyword arguments.
Call: TypeAlias = Sequence[Any] | Mapping[str, Any]


def split(call: Call) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The positional and the keyword arguments of a call. Raises InvalidJob if it is not a call."""
    if isinstance(call, Mapping):
        return (), call
    if isinstance(call, tuple | list):
        return call, {}
    raise InvalidJob(f"expected tuples of arguments or mappings of keyword arguments, got {call!r}.")
