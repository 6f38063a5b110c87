"""Enqueueing with the option ``unique``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from .keys import key_of
from .options import seconds

if TYPE_CHECKING:
    from jobexec.operations.enqueue.create import Pattern
    from jobexec.operations.enqueue.unique import Rule
    from jobexec.operations.values.inserted_rows import AnyJob

    from .function import JobFunction


def creating(handler: JobFunction[..., Any], pattern: Pattern, key: str) -> Callable[..., AnyJob]:
    """A function that inserts the job as ``Pattern.create`` does, unless its key is taken."""
    from jobexec.operations.enqueue.create_unique import create_unique_job

    return partial(create_unique_job, pattern, rule_of(handler, pattern), key)


def key_for(handler: JobFunction[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The key of a call whose arguments have been checked."""
    return key_of(handler.options["unique"], handler.arguments, args, kwargs, secret=handler.encrypted)


def rule_of(handler: JobFunction[..., Any], pattern: Pattern) -> Rule:
    """The rule for keys in the handler's options, for jobs of this pattern, whose tenant may be that of a batch."""
    from jobexec.operations.enqueue.unique import Rule

    options = handler.options
    lasts = seconds("unique_for", options["unique_for"]) if "unique_for" in options else None
    unique_while, on_conflict = options.get("unique_while", "active"), options.get("on_conflict", "return")
    return Rule(handler.name, unique_while, lasts, on_conflict, pattern.tenant_id)
