"""Execute the exclusive jobs of many process instances: siblings one after the other, the instances side by side."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, ClassVar

from jobexec.operations.enqueue.create import create_jobs

from .. import ours
from ..case import Case, Contenders
from ..measure import BenchError, Sample
from ..noop import CATEGORY, HANDLER, Ledger, registered
from ..raw import drain
from ..sandbox import tidy

_SIBLINGS = 20
_CHUNK = 10_000


class Siblings:
    """Notes the jobs, and that none ran beside a sibling or twice."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._running: dict[int, int] = {}
        self._met: list[tuple[int, int]] = []

    def note(self, number: int) -> None:
        """The handler. No lock: dict.setdefault and pop are one step each."""
        instance = instance_of(number)
        other = self._running.setdefault(instance, number)
        if other != number:
            self._met.append((other, number))
        self._ledger.note(number)
        self._running.pop(instance, None)

    def check(self) -> None:
        """Raise BenchError if siblings have met."""
        if self._met:
            one, other = self._met[0]
            raise BenchError(f"Exclusive jobs ran side by side: {one} and {other}, and {len(self._met) - 1} more.")


def instance_of(number: int) -> int:
    """The process instance of a job, by its argument."""
    return number // _SIBLINGS


class Exclusive(Case):
    """20 jobs in each process instance, which stand in the table in random order, the same in each run."""

    name: ClassVar[str] = "exclusive"
    summary: ClassVar[str] = "execute exclusive jobs of process instances, against the loop that does not ask for them"
    default_jobs: ClassVar[int] = 20_000
    ratios = (("ours", "ours, not exclusive"),)

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "raw": self.raw, "ours, not exclusive": self.ours_not_exclusive}

    def facts(self) -> dict[str, int]:
        return {"process_instances": -(-self.plan.jobs // _SIBLINGS)}

    def ours(self) -> Sample:
        ledger = self.ledger()
        siblings = Siblings(ledger)
        with registered(self.plan.alias, siblings.note):
            sample = self._execute(ledger, exclusive=True)
        siblings.check()
        return sample

    def ours_not_exclusive(self) -> Sample:
        ledger = self.ledger()
        # The same handler, so that what it costs is no difference; without exclusivity siblings may meet.
        with registered(self.plan.alias, Siblings(ledger).note):
            return self._execute(ledger, exclusive=False)

    def _execute(self, ledger: Ledger, exclusive: bool) -> Sample:
        self._fill(exclusive)
        return ours.execute_all(self.plan.settings, self.plan.alias, ledger)

    def raw(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        self._fill(exclusive=True)
        tidy(alias)
        sample = drain.drain(alias, ledger, self.plan.raw_page)
        ours.check_nothing_left(alias)
        return sample

    def _fill(self, exclusive: bool) -> None:
        rows = list(_rows(self.plan.jobs, exclusive))
        for start in range(0, len(rows), _CHUNK):
            create_jobs(self.plan.alias, rows[start : start + _CHUNK])


def _rows(jobs: int, exclusive: bool) -> Iterator[dict[str, Any]]:
    numbers = list(range(jobs))
    random.Random(1).shuffle(numbers)
    for number in numbers:
        yield {
            "handler_type": HANDLER,
            "handler_configuration": {"args": [number], "kwargs": {}},
            "category": CATEGORY,
            "process_instance_id": f"jobbench-{instance_of(number)}",
            "exclusive": exclusive,
            "atomic": False,
        }
