"""An HTTP server that answers each call after 5 ms, in a process of its own.

It knows nothing of Django, prints its port, and ends when its standard input closes: with the process that started it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SECONDS = 0.005
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
_BACKLOG = 1024


class ServiceError(Exception):
    """The server did not start."""


@contextmanager
def running() -> Iterator[int]:
    """Start it for the block; gives its port. Raises ServiceError."""
    command = [sys.executable, __file__]
    # In a session of its own, so that Ctrl-C reaches only who started it.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdin is not None and process.stdout is not None
        port = process.stdout.readline().strip()
        try:
            if not port:
                raise ServiceError("The HTTP server did not start.")
            yield int(port)
        finally:
            process.stdin.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with suppress(OSError, asyncio.IncompleteReadError):  # a client need not wait for it
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(SECONDS)
            writer.write(_ANSWER)
            await writer.drain()
    finally:
        writer.close()


async def _serve() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, backlog=_BACKLOG)
    async with server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
