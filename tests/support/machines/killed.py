"""Simulate a process that is killed before one of its statements arrives."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections


class Killed(BaseException):
    """Raised to end the code of a killed process."""


@contextmanager
def killed_at(alias: str, number: int) -> Iterator[None]:
    """Raise :class:`Killed` before the statement with this number (from 1) is sent."""
    sent = 0

    def wrapper(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        nonlocal sent
        sent += 1
        if sent == number:
            raise Killed
        return execute(sql, params, many, context)

    with connections[alias].execute_wrapper(wrapper):
        yield
