"""Serve the REST gateways alone: ``uvicorn jobexec.gateways.rest.asgi:application``.

Django's own handler for ASGI starts a thread for each request, in which the receivers of its signals and most
middleware run, one hand-over each, and a task that listens for a disconnect. Calls of workers rarely need them.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress
from io import BytesIO
from types import FrameType
from typing import Any

import django
from asgiref.sync import SyncToAsync, sync_to_async
from django.core.cache import close_caches
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.core.handlers.base import reset_urlconf
from django.core.handlers.exception import convert_exception_to_response
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, reset_queries
from django.dispatch import Signal
from django.http import HttpRequest, HttpResponseBase
from django.urls import set_script_prefix

#: Django's receivers. They clean up what the thread of a request has used, and have no effect in another.
_CLEANERS: frozenset[Callable[..., Any]] = frozenset(
    {close_caches, close_old_connections, reset_queries, reset_urlconf}
)


class _GatewayRequest(ASGIRequest):
    urlconf = "jobexec.gateways.rest.urls"


#: Seconds after which a request that is not answered yet listens for a disconnect. Most are answered sooner.
_SOON = 0.05


class _Disconnect:
    """Cancels the task of a request if its client disconnects after :meth:`listen` was called, at the latest soon."""

    def __init__(self, receive: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        loop = asyncio.get_running_loop()
        self._receive, self._task, self._create = receive, asyncio.current_task(), loop.create_task
        self._listener: asyncio.Task[None] | None = None
        self._timer = loop.call_later(_SOON, self.listen)
        self._came = False

    def listen(self) -> None:
        if self._listener is None:
            self._listener = self._create(self._listen())

    async def _listen(self) -> None:
        message = await self._receive()
        assert message["type"] == "http.disconnect", message["type"]
        self._came = True
        if self._task is not None:
            self._task.cancel()

    async def over(self, *, cancelled: bool) -> bool:
        """Stop listening; return whether the client has disconnected, which is why the task was cancelled, if it was.

        ``cancelled``: the task has noticed that it was.
        """
        self._timer.cancel()
        if self._listener is not None:
            self._listener.cancel()
        if not self._came or self._task is None:
            return False
        if not cancelled:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        return self._task.uncancel() == 0


class GatewayHandler(ASGIHandler):
    """Django's handler with the gateways' URLs and without middleware; a request gets a thread only if it needs one.

    As CommonMiddleware does, it refuses hosts that ALLOWED_HOSTS does not contain.
    """

    request_class = _GatewayRequest
    _serves = False

    def load_middleware(self, is_async: bool = False) -> None:
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        self._middleware_chain = convert_exception_to_response(self._of_allowed_host)

    async def _of_allowed_host(self, request: HttpRequest) -> HttpResponseBase:
        request.get_host()  # raises DisallowedHost
        response: HttpResponseBase = await self._get_response_async(request)  # type: ignore[attr-defined]
        return response

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        if not self._serves:
            self._serves = True
            _answer_at_shutdown()
        # As in Django, except for the two signals.
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        with closing(body):
            set_script_prefix(get_script_prefix(scope))
            if self._has_other_receivers(request_started):
                await request_started.asend(sender=self.__class__, scope=scope)
            request, refusal = self.create_request(scope, body)
            response: HttpResponseBase | None = refusal
            if request is not None:
                response = await self._answer(request, receive, send)
            elif refusal is not None:
                await self.send_response(refusal, send)
            if response is None:
                await request_finished.asend(sender=self.__class__)
            elif self._has_thread() or self._has_other_receivers(request_finished):
                await sync_to_async(response.close)()
            else:
                response.close()

    async def read_body(self, receive: Any) -> Any:
        """Read the body without a file if it comes as one part, as Django does otherwise."""
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            return BytesIO(message.get("body", b""))
        parts = [message]

        async def received() -> Any:
            return parts.pop() if parts else await receive()

        return await super().read_body(received)

    async def _answer(self, request: ASGIRequest, receive: Any, send: Any) -> HttpResponseBase | None:
        """Answer the request; return the response, or None if the client disconnected before there was one."""
        response: HttpResponseBase | None = None
        disconnect = _Disconnect(receive)
        try:
            response = await self.run_get_response(request)
            if response.streaming:  # it has to know whether it has arrived
                disconnect.listen()
                await asyncio.sleep(0)
            await self.send_response(response, send)
        except asyncio.CancelledError:
            if not await disconnect.over(cancelled=True):
                raise
        except BaseException:
            await disconnect.over(cancelled=False)
            raise
        else:
            await disconnect.over(cancelled=False)
        return response

    def _has_other_receivers(self, signal: Signal) -> bool:
        """Return whether the project or another app has connected a receiver, which may need a thread."""
        receivers, coroutines = signal._live_receivers(self.__class__)
        return bool(coroutines) or not _CLEANERS.issuperset(receivers)

    @staticmethod
    def _has_thread() -> bool:
        """Return whether synchronous code of the request, such as an authentication, has run in its thread."""
        return SyncToAsync.thread_sensitive_context.get(None) in SyncToAsync.context_to_thread_executor


def _answer_at_shutdown() -> None:
    """Let requests that wait be answered when the server begins to shut down; called at the first request.

    ASGI tells this only after the last answer. So ours precede the handlers of signals that the server has set, as
    uvicorn does.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    from jobexec.gateways import long_polling  # now that Django is set up

    def precede(serve: Callable[[int, FrameType | None], Any]) -> Callable[[int, FrameType | None], Any]:
        def handle(number: int, frame: FrameType | None) -> Any:
            with suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(long_polling.answer_all)
            return serve(number, frame)

        return handle

    for number in (signal.SIGTERM, signal.SIGINT):
        handler = signal.getsignal(number)
        if callable(handler) and handler is not signal.default_int_handler:
            signal.signal(number, precede(handler))


django.setup(set_prefix=False)
application = GatewayHandler()
