"""The project's middleware around each call of a handler: the setting MIDDLEWARE.

A middleware is made as one of Django is: a factory gets the next callable, and returns a callable that takes the
:class:`~jobexec.JobContext`. What it returns and raises counts as returned and raised by the handler. A factory that
serves async handlers too is marked with :func:`django.utils.decorators.sync_and_async_middleware`; for them, the next
callable is a coroutine function.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import lru_cache, partial
from inspect import isawaitable, iscoroutine
from typing import Any, TypeAlias

from django.core.exceptions import MiddlewareNotUsed
from django.utils.module_loading import import_string

from jobexec.conf import get_settings
from jobexec.exceptions import InvalidSettings

from .base import AsyncJobHandler, JobHandler
from .context import JobContext

Call: TypeAlias = Callable[[JobContext], Any]


def call(handler: JobHandler, context: JobContext, arguments: Any) -> Any:
    """Call the handler within the middleware. Returns and raises what the outermost one does."""
    paths = get_settings().middleware
    if not paths:
        return handler.execute(context, arguments)
    context.call = partial(handler.execute, context, arguments)
    result = _made(paths, is_async=False)(context)
    if iscoroutine(result):  # nobody awaits it: the handler has not run
        result.close()
        raise InvalidSettings(
            f"JOBEXEC['MIDDLEWARE']: a coroutine was returned for {context.handler_type}, which is not async. A factory"
            " must return a coroutine function only if the next callable is one."
        )
    return result


def call_async(handler: AsyncJobHandler, context: JobContext, arguments: Any) -> Awaitable[Any]:
    """The same for a handler on an event loop."""
    paths = get_settings().middleware
    if not paths:
        return handler.execute_async(context, arguments)
    context.call = partial(handler.execute_async, context, arguments)
    result: Awaitable[Any] = _made(paths, is_async=True)(context)
    if not isawaitable(result):
        raise InvalidSettings(
            f"JOBEXEC['MIDDLEWARE']: {type(result).__name__} was returned for the async {context.handler_type} instead"
            " of an awaitable. A factory must return a coroutine function if the next callable is one."
        )
    return result


def middleware_problems(paths: tuple[str, ...], *, is_async: bool) -> Iterator[str]:
    """Say what is wrong with each entry of the setting; ``is_async``: there are handlers that run on an event loop."""
    for path in paths:
        try:
            factory = import_string(path)
        except ImportError as error:
            yield f"{path!r} cannot be imported: {error}"
            continue
        if not callable(factory):
            yield f"{path!r} is not callable"
        elif not _serves(factory, is_async=False):
            yield f"{path!r} is for async handlers only"
        elif is_async and not _serves(factory, is_async=True):
            yield f"{path!r} is not for async handlers, which this project has"


def _serves(factory: Any, *, is_async: bool) -> bool:
    return bool(getattr(factory, "async_capable" if is_async else "sync_capable", not is_async))


def _made(paths: tuple[str, ...], *, is_async: bool) -> Call:
    with _making:  # threads that begin together would make it once each
        return _chain(paths, is_async=is_async)


_making = threading.Lock()


@lru_cache(maxsize=32)
def _chain(paths: tuple[str, ...], *, is_async: bool) -> Call:
    for problem in middleware_problems(paths, is_async=is_async):
        raise InvalidSettings(f"JOBEXEC['MIDDLEWARE']: {problem}.")
    chain: Call = _innermost_async if is_async else _innermost
    for path in reversed(paths):
        try:
            chain = import_string(path)(chain)
        except MiddlewareNotUsed:
            continue
        if not callable(chain):
            raise InvalidSettings(f"JOBEXEC['MIDDLEWARE']: {path!r} must return a callable; got {chain!r}.")
    return chain


def _innermost(context: JobContext) -> Any:
    return context.call()


async def _innermost_async(context: JobContext) -> Any:
    return await context.call()
