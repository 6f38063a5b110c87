"""Execute jobs that wait for something else: what counts is how many wait at the same time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from .. import ours
from ..case import Case, Contenders
from ..measure import Sample
from ..noop import fill, registered
from ..raw import drain
from ..sandbox import tidy

_SLEEP = 0.02
_PAGE = 10


class Waiting(Case):
    """Jobs that sleep for 20 ms. The ideal is what the sleeping alone allows: 50 jobs per second and thread."""

    name: ClassVar[str] = "waiting"
    summary: ClassVar[str] = "execute jobs that sleep for 20 ms, against as many threads that lock, sleep and delete"
    default_jobs: ClassVar[int] = 4_000
    default_settings: ClassVar[Mapping[str, Any]] = {"threads": 20}

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "raw": self.raw}

    def facts(self) -> dict[str, float]:
        return {"ideal": self._threads / _SLEEP}

    @property
    def _threads(self) -> int:
        return self.plan.settings.threads

    def ours(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()

        def sleep(number: int) -> None:
            time.sleep(_SLEEP)
            ledger.note(number)

        with registered(alias, sleep) as handler:
            fill(handler, ledger.wanted)
            return ours.execute_all(self.plan.settings, alias, ledger)

    def raw(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()

        def sleep(number: int) -> None:
            time.sleep(_SLEEP)
            ledger.note(number)

        with registered(alias, ledger.note) as handler:
            fill(handler, ledger.wanted)
        tidy(alias)
        # Small pages, so that all threads are busy until the end; each page waits for its last job to be deleted.
        page = max(1, min(_PAGE, self.plan.raw_page, ledger.wanted // (4 * self._threads)))
        sample = drain.drain(alias, ledger, page, drain.calling(sleep), self._threads)
        ledger.check()
        ours.check_nothing_left(alias)
        return sample
