"""Somebody who enqueues jobs with unique keys, in a process of its own: `python -m tests.chaos.people.callers c1`.

All callers act at the same moments and mostly choose the same key, so that they meet.
"""

import os
import random
import signal
import sys
import threading
import time
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

from tests.chaos.journal import Journal, now

#: Seconds between the moments; CLOCK_MONOTONIC is that of the whole machine.
_BEAT = 0.4
#: Keys by what they are unique while, and how many there are of each.
KEYS = {"active": 3, "waiting": 2, "existing": 2, "for": 2}
#: Seconds for which a key of the kind "for" is taken, whatever becomes of its job.
LASTS = 3.0
#: What is said of a key that was not taken because of another one of the same call.
TOGETHER = "another key of the call was taken"
CONFLICTS = ("return", "ignore", "replace", "raise")


class Caller:
    """Enqueues, and tells what came of it. Errors of a database that is away or refuses are told, others too."""

    def __init__(self, name: str, seed: int, journal: Journal) -> None:
        self._journal, self._seed = journal, seed
        self._own = random.Random(f"{name} {seed} {os.getpid()}")
        self._calls: dict[str, dict[str, Any]] = {}

    def live(self, stop: threading.Event) -> None:
        """Until somebody says so, or the process is killed."""
        from tests.chaos.instrument import tell_created

        tell_created(self._told)
        while not stop.wait(_BEAT - now() % _BEAT):
            beat = int(now() / _BEAT)
            shared = random.Random(f"{self._seed} {beat}")
            self._enqueue(_keys(shared if shared.random() < 0.8 else self._own), shared)

    def _told(self, row: Any) -> None:
        """A row is inserted, and not yet committed."""
        columns = {"instance": "", "exclusive": row.exclusive, "atomic": row.atomic, "retries": row.retries}
        job = {"id": row.pk, "kind": "keyed", "tenant": "", **columns}
        due = row.due_date and row.due_date.timestamp()
        self._journal.write("creating", jobs=[job], **self._calls[row.handler_configuration["kwargs"]["key"]], due=due)

    def _enqueue(self, keys: list[str], shared: random.Random) -> None:
        """One call, which asks for a key or for several; each is told as if it were a call of its own."""
        from django.db import connection, transaction

        from jobexec.operations.sql.errors import is_conflict

        conflict = self._own.choice(CONFLICTS)
        self._calls = {key: {"call": self._own.getrandbits(60), "key": key, "on_conflict": conflict} for key in keys}
        for call in self._calls.values():
            self._journal.write("keying", **call)
        # Half of them in a transaction that does more, and takes its time.
        whole = transaction.atomic() if self._own.random() < 0.5 else nullcontext()
        try:
            with whole:
                answers = self._answers(keys, conflict, shared)
                if not isinstance(whole, nullcontext):
                    time.sleep(self._own.choice([0, 0, 0.02, 0.1]))
        except Exception as error:
            self._failed(f"{type(error).__name__}: {error}"[:300], is_conflict(error))
            connection.close()
            return
        for key, answer in answers.items():
            self._journal.write("keyed", ok=True, **answer, **self._calls.pop(key))
            if not answer["duplicate"]:
                self._journal.write("created", ok=True, jobs=[answer["job"]])
        self._failed(TOGETHER, True)

    def _failed(self, error: str, conflict: bool) -> None:
        for call in self._calls.values():
            self._journal.write("keyed", ok=False, error=error, conflict=conflict, **call)

    def _answers(self, keys: list[str], conflict: Any, shared: random.Random) -> dict[str, dict[str, Any]]:
        """Whose jobs have these keys now. After a DuplicateJob only that of the key that it names."""
        from jobexec.exceptions import DuplicateJob
        from tests.chaos.jobs import keyed

        kind = keys[0].split("-")[0]
        options: Any = {"unique": lambda *_, key, **more: key, "on_conflict": conflict}
        options |= {"unique_for": timedelta(seconds=LASTS)} if kind == "for" else {"unique_while": kind}
        delay = shared.choice([0, 0, 0, 0.8]) if kind != "waiting" else shared.choice([0, 1.2, 2.5])
        if delay:
            options["delay"] = delay
        seconds, failures = round(self._own.uniform(0, 0.6), 3), self._own.choice([0, 0, 0, 1, 2, 9])
        calls: list[Any] = [{"seconds": seconds, "failures": failures, "key": key} for key in keys]
        handler = keyed.using(**options)
        try:
            rows = handler.enqueue_many(calls) if len(calls) > 1 else [handler.enqueue(**calls[0])]
        except DuplicateJob as error:
            return {error.key: {"job": error.job_id, "duplicate": True}}
        return {
            key: {"job": row.pk, "duplicate": getattr(row, "is_duplicate", False)}
            for key, row in zip(keys, rows, strict=True)
        }


def _keys(chance: random.Random) -> list[str]:
    """One, or now and then some of a kind."""
    kind = chance.choice(list(KEYS))
    keys = [f"{kind}-{number}" for number in range(KEYS[kind])]
    return chance.sample(keys, 1 if chance.random() < 0.75 else len(keys))


def main(name: str) -> None:
    import django

    django.setup()
    from django.conf import settings

    from tests.chaos import breaks

    if broken := os.environ.get("JOBEXEC_CHAOS_BREAK"):
        breaks.GUARDS[broken]()
    from tests.chaos.jobs import FOLDER

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    Caller(name, getattr(settings, "CHAOS_SEED", 0), Journal(FOLDER / "journal", name)).live(stop)


if __name__ == "__main__":
    main(sys.argv[1])
