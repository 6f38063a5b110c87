"""Hold a request under ASGI without holding a thread, and recover responses to clients that have disconnected."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

from asgiref.sync import SyncToAsync, sync_to_async
from django.db import connections
from django.http import StreamingHttpResponse

#: Seconds after which an unsent response is looked for in the garbage.
_COLLECT = 1.0


async def release_thread() -> None:
    """Release the thread in which Django runs this request's synchronous code (most middleware).

    Under ASGI a request keeps such a thread from its first synchronous middleware to its end, even while it only waits.
    Code after the wait gets another thread. Has no effect if the request has not needed a thread yet.
    """
    context = SyncToAsync.thread_sensitive_context.get(None)
    executors: Any = SyncToAsync.context_to_thread_executor
    if context is None or context not in executors:
        return
    await sync_to_async(connections.close_all)()  # connections belong to the thread: no other code would close them
    executor = executors.pop(context, None)
    if executor is not None:
        executor.shutdown(wait=False)


class TrackedResponse(StreamingHttpResponse):
    """A response that knows whether it was sent, and otherwise calls ``lost`` once, in any thread.

    Only for ASGI. A response that was passed to the server may still not reach the client: a connection that breaks at
    that very moment is like a worker that dies while it holds the job, which the job's deadline covers.
    """

    def __init__(self, content: bytes, lost: Callable[[], object], **options: Any) -> None:
        self._fate = _Fate(lost)
        super().__init__(self._parts(content, self._fate), **options)
        self.headers["Content-Length"] = str(len(content))
        # If the task is cancelled between view and server, the response is never closed, and the error's reference
        # cycle keeps it alive.
        weakref.finalize(self, self._fate.over).atexit = False
        asyncio.get_running_loop().call_later(_COLLECT, _collect, weakref.ref(self), _COLLECT)

    @staticmethod
    async def _parts(content: bytes, fate: _Fate) -> AsyncIterator[bytes]:
        fate.begun = True
        try:
            yield content
            fate.lost = None  # the server has accepted the content and asks for more
        finally:
            fate.over()

    @property
    def waits(self) -> bool:
        """Whether the response is, as far as known, neither sent nor lost."""
        return not self._fate.begun and self._fate.lost is not None

    def close(self) -> None:
        super().close()
        self._fate.over()


def _collect(found: weakref.ref[TrackedResponse], seconds: float) -> None:
    """Collect garbage if a response has not been sent yet: it is held by slow middleware, or is uncollected garbage.

    On an idle server Python might not collect it for hours.
    """
    answer = found()
    if answer is None or not answer.waits:
        return
    del answer
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
