"""Holding a request under ASGI without holding a thread, and not losing what is sent to a client that has gone."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

from asgiref.sync import SyncToAsync, sync_to_async
from django.db import connections
from django.http import StreamingHttpResponse

#: Seconds after which an answer that is not sent is looked for among the garbage.
_COLLECT = 1.0


async def release_thread() -> None:
    """Let go the thread in which Django runs what is not async of this very request (most middleware).

    A request under ASGI has one from its first synchronous middleware to its end, also while it only waits. What comes
    after the wait gets another one. Of no effect where nothing of the request has needed a thread yet.
    """
    context = SyncToAsync.thread_sensitive_context.get(None)
    executors: Any = SyncToAsync.context_to_thread_executor
    if context is None or context not in executors:
        return
    await sync_to_async(connections.close_all)()  # nobody else would: they belong to the thread
    executor = executors.pop(context, None)
    if executor is not None:
        executor.shutdown(wait=False)


class Parcel(StreamingHttpResponse):
    """An answer that knows whether it was sent; if the client goes before, ``lost`` is called, once, in any thread.

    Only for ASGI. That all was handed to the server is not yet that the client got it: a connection that breaks in that
    very moment is like a worker that dies with the job in hand, and the deadline is for that.
    """

    def __init__(self, content: bytes, lost: Callable[[], object], **options: Any) -> None:
        self._fate = _Fate(lost)
        super().__init__(self._parts(content, self._fate), **options)
        self.headers["Content-Length"] = str(len(content))
        # Who is cancelled between the view and the server never closes it, and the error holds it in a cycle.
        weakref.finalize(self, self._fate.over).atexit = False
        asyncio.get_running_loop().call_later(_COLLECT, _collect, weakref.ref(self), _COLLECT)

    @staticmethod
    async def _parts(content: bytes, fate: _Fate) -> AsyncIterator[bytes]:
        fate.begun = True
        try:
            yield content
            fate.lost = None  # the server has taken it, and asks for more
        finally:
            fate.over()

    @property
    def waits(self) -> bool:
        """It is neither sent nor given up, as far as anybody knows."""
        return not self._fate.begun and self._fate.lost is not None

    def close(self) -> None:
        super().close()
        self._fate.over()


def _collect(found: weakref.ref[Parcel], seconds: float) -> None:
    """An answer that nobody has begun to send is held by slow middleware, or is garbage that Python does not yet know.

    On a server with little to do it would not know for hours.
    """
    parcel = found()
    if parcel is None or not parcel.waits:
        return
    del parcel
    gc.collect()
    if found() is not None:
        asyncio.get_running_loop().call_later(2 * seconds, _collect, found, 2 * seconds)


class _Fate:
    def __init__(self, lost: Callable[[], object]) -> None:
        self.lost: Callable[[], object] | None = lost
        self.begun = False

    def over(self) -> None:
        lost, self.lost = self.lost, None
        if lost is not None:
            lost()
