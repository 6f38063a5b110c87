"""Execute jobs with large arguments: how much of them is in memory at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from jobexec.operations.enqueue.create import create_jobs

from .. import ours
from ..case import Case, Contenders
from ..measure import BenchError, Sample
from ..noop import CATEGORY, HANDLER, Ledger, registered_as
from ..raw import drain
from ..raw.queue import RawQueue
from ..raw.sql import Row
from ..report import Shown
from ..sampler import Sampler, give_back_memory, memory
from ..sandbox import tidy

_LOOK = 0.005
_CHUNK = 4  # statements stay below what a server takes by default (MariaDB: 16 MB)
_PAGE = 10


class Payload(Case):
    """Arguments of ``--payload`` kilobytes each; beside the rate stands how far the memory grew meanwhile."""

    name: ClassVar[str] = "payload"
    summary: ClassVar[str] = "execute jobs with large arguments: rate and memory, against the loop that reads the same"
    default_jobs: ClassVar[int] = 200
    shown = Shown({"memory_growth": "MB", "payload_in_page": "MB"})

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "raw": self.raw}

    @property
    def _size(self) -> int:
        return int(self.plan.options["payload"]) * 1024

    def facts(self) -> dict[str, int]:
        return {"payload_bytes": self._size}

    def ours(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()

        def take(number: int, text: str) -> None:
            self._check(text)
            ledger.note(number)

        with registered_as(alias, take):
            self._fill(ledger)
            return self._watched(self.plan.page, lambda: ours.execute(self.plan.settings, alias, ledger))

    def raw(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()

        def take(queue: RawQueue, rows: Sequence[Row]) -> list[Any]:
            for row in rows:
                number, text = json.loads(row[2])["args"]
                self._check(text)
                ledger.note(number)
            return [row[0] for row in rows]

        with registered_as(alias, lambda number, text: None):
            self._fill(ledger)
        page = min(_PAGE, self.plan.raw_page)

        def run() -> Sample:
            sample = drain.drain(alias, ledger, page, take)
            ledger.check()
            return sample

        return self._watched(page, run)

    def _fill(self, ledger: Ledger) -> None:
        text = "x" * self._size
        for start in range(0, ledger.wanted, _CHUNK):
            create_jobs(
                self.plan.alias, [_row(each, text) for each in range(start, min(ledger.wanted, start + _CHUNK))]
            )
        tidy(self.plan.alias)

    def _check(self, text: str) -> None:
        if len(text) != self._size:
            raise BenchError(f"An argument has {len(text)} characters, expected {self._size}.")

    def _watched(self, page: int, run: Callable[[], Sample]) -> Sample:
        give_back_memory()
        with Sampler(memory, _LOOK) as looks:
            sample = run()
        ours.check_nothing_left(self.plan.alias)
        growth = max(looks.values) - looks.values[0]
        in_page = min(page, self.plan.jobs) * self._size / 1024 / 1024
        return replace(sample, figures={"memory_growth": growth, "payload_in_page": in_page})


def _row(number: int, text: str) -> dict[str, Any]:
    return {
        "handler_type": HANDLER,
        "handler_configuration": {"args": [number, text], "kwargs": {}},
        "category": CATEGORY,
        "atomic": False,
    }
