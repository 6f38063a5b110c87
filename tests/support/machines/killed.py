"""A process that dies in the middle of its work: it is killed before one of its statements arrives."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections


class Killed(BaseException):
    """What a process that is killed sees: nothing more."""


@contextmanager
def killed_at(alias: str, number: int) -> Iterator[None]:
    """Whoever sends the statement of this number (from 1) is killed before it arrives: :class:`Killed` is raised."""
    sent = 0

    def wrapper(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        nonlocal sent
        sent += 1
        if sent == number:
            raise Killed
        return execute(sql, params, many, context)

    with connections[alias].execute_wrapper(wrapper):
        yield
