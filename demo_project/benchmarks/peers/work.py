"""What each job does, and the journal in which it leaves its time. Imported by workers of every contender."""

import os
import time
from functools import cache
from pathlib import Path

DATABASE = os.environ.get("PEERS_DATABASE", "")
REDIS = os.environ.get("PEERS_REDIS", "")
THREADS = int(os.environ.get("PEERS_THREADS", "10"))
#: Seconds that a job of the kind ``wait`` waits.
WAIT = 0.02
_LINE = 24


def write() -> None:
    """Append 24 bytes to the journal: the monotonic clock in nanoseconds, which processes of a machine share."""
    os.write(_journal(), b"%023d\n" % time.monotonic_ns())


def wait() -> None:
    """Wait as for a service, then the same."""
    time.sleep(WAIT)
    write()


@cache
def _journal() -> int:
    return os.open(os.environ["PEERS_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def times(journal: Path) -> list[int]:
    """The times in a journal, in order."""
    return sorted(map(int, journal.read_bytes().split())) if journal.exists() else []


def lines(journal: Path) -> int:
    """How many jobs have left their time."""
    return journal.stat().st_size // _LINE if journal.exists() else 0
