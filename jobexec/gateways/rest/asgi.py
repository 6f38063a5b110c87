"""Serve the REST gateways alone: ``uvicorn jobexec.gateways.rest.asgi:application``.

Django's own handler for ASGI starts a thread for each request, in which the receivers of its signals and most
middleware run, one hand-over each. Calls of workers need neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
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


class _Answered(Exception):
    """Ends the wait for a disconnect."""


class GatewayHandler(ASGIHandler):
    """Django's handler with the gateways' URLs and without middleware; a request gets a thread only if it needs one.

    As CommonMiddleware does, it refuses hosts that ALLOWED_HOSTS does not contain.
    """

    request_class = _GatewayRequest

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

    async def _answer(self, request: ASGIRequest, receive: Any, send: Any) -> HttpResponseBase | None:
        """Answer the request; return the response, or None if the client disconnected before there was one."""
        response: HttpResponseBase | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.listen_for_disconnect(receive))
                response = await self.run_get_response(request)
                await self.send_response(response, send)
                raise _Answered
        except* (_Answered, RequestAborted):
            pass
        except* Exception as group:
            raise group.exceptions[0] from None
        return response

    def _has_other_receivers(self, signal: Signal) -> bool:
        """Return whether the project or another app has connected a receiver, which may need a thread."""
        receivers, coroutines = signal._live_receivers(self.__class__)
        return bool(coroutines) or not _CLEANERS.issuperset(receivers)

    @staticmethod
    def _has_thread() -> bool:
        """Return whether synchronous code of the request, such as an authentication, has run in its thread."""
        return SyncToAsync.thread_sensitive_context.get(None) in SyncToAsync.context_to_thread_executor


django.setup(set_prefix=False)
application = GatewayHandler()
