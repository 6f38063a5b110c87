"""The raw SQL's side of a case whose jobs are coroutines: an event loop that locks pages and settles them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections

from ..kinds import Work
from .drain import Loop, number_of
from .queue import RawQueue
from .sql import Row


class EventLoop(Loop):
    """Begins all jobs, page by page, and deletes those that have ended, page by page."""

    def __init__(self, queue: RawQueue, run: Work, page: int) -> None:
        super().__init__(queue, lambda queue, rows: ())
        self._run, self._page = run, page

    def __call__(self) -> None:
        try:
            asyncio.run(self._drain())
        except BaseException as error:
            self.error = error

    async def _drain(self) -> None:
        tasks: set[asyncio.Task[None]] = set()
        ended: list[Any] = []

        async def run(row: Row) -> None:
            await self._run(number_of(row))
            ended.append(row[0])

        while rows := self._queue.turn(self._taken(ended)):
            tasks |= {asyncio.create_task(run(row)) for row in rows}
            await asyncio.sleep(0)
        while tasks:
            done, tasks = await asyncio.wait(tasks, timeout=0.02, return_when=asyncio.ALL_COMPLETED)
            for each in done:
                each.result()  # raises what the job has raised
            while page := self._taken(ended):
                self._queue.settle(page)

    def _taken(self, ended: list[Any]) -> Sequence[Any]:
        taken, ended[: self._page] = ended[: self._page], []
        return taken


def close_connection(alias: str) -> None:
    """Close the connection that Django has opened for coroutines, in the thread in which their queries run."""
    asyncio.run(sync_to_async(lambda: connections[alias].close())())
