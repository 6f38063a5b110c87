"""Execute atomic jobs: each commits what it has written and its own end together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from jobexec.operations.sql.locks import is_single_writer

from .. import ours
from ..case import Case, Contenders
from ..measure import Sample
from ..noop import fill, registered
from ..raw import drain
from ..raw.queue import RawQueue
from ..raw.sql import Row
from ..sandbox import tidy

_PAGE = 100


class Atomic(Case):
    """``atomic`` no-op jobs, against as many connections as ours has threads (SQLite: one, as only one may write)."""

    name: ClassVar[str] = "atomic"
    summary: ClassVar[str] = "execute atomic no-op jobs, against BEGIN, DELETE and COMMIT for each"
    default_jobs: ClassVar[int] = 5_000

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "raw": self.raw}

    @property
    def _connections(self) -> int:
        return 1 if is_single_writer(self.plan.alias) else self.plan.settings.threads

    def facts(self) -> dict[str, int]:
        return {"raw_connections": self._connections}

    def ours(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with registered(alias, ledger.note, atomic=True) as handler:
            fill(handler, ledger.wanted)
            return ours.execute_all(self.plan.settings, alias, ledger)

    def raw(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()

        def settle(queue: RawQueue, rows: Sequence[Row]) -> Sequence[Any]:
            for row in rows:
                queue.settle_alone(row[0])
                ledger.note(drain.number_of(row))
            return ()

        with registered(alias, ledger.note, atomic=True) as handler:
            fill(handler, ledger.wanted)
        tidy(alias)
        page = max(1, min(_PAGE, self.plan.raw_page, ledger.wanted // (4 * self._connections)))
        sample = drain.drain(alias, ledger, page, settle, self._connections)
        ledger.check()
        ours.check_nothing_left(alias)
        return sample
