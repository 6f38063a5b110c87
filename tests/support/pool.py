"""A pool whose jobs end when the test releases them."""

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

from jobexec.executor.pool.pool import Pool
from tests.support.waiting import TIMEOUT


class Bench:
    """A pool whose batches run until they are released."""

    def __init__(self, threads: int, queue_size: int, engines: Sequence[str] = ()) -> None:
        self.began: list[Any] = []
        self.given_back: list[Any] = []
        self.ended: list[Any] = []
        self.go: dict[UUID, threading.Event] = {}
        self.pool = Pool(threads, queue_size, self.run, self.given_back.extend, engines)

    def batch(self, *lost_runs: int, using: str = "default") -> Any:
        """Return a batch of siblings, one by default, which run until :meth:`let_go`."""
        batch = [
            SimpleNamespace(id=uuid4(), lost_runs=count, using=using, share=using, followers=None)
            for count in lost_runs or (0,)
        ]
        self.go[batch[0].id] = threading.Event()
        return batch

    def quick(self, count: int, using: str = "default") -> list[Any]:
        """Return batches of one job that end at once."""
        batches = [self.batch(using=using) for _ in range(count)]
        self.let_go(*batches)
        return batches

    def submit(self, *batches: Any) -> None:
        """Reserve places for batches of one engine and submit them."""
        count, using = sum(map(len, batches)), batches[0][0].using
        assert self.pool.reserve(count, lambda: None, using) == count
        self.pool.submit(batches, count, using)

    def run(self, batch: Any) -> None:
        self.began.append(batch)
        assert self.go[batch[0].id].wait(TIMEOUT)
        self.ended.append(batch)

    def let_go(self, *batches: Any) -> None:
        """Release these batches."""
        for batch in batches:
            self.go[batch[0].id].set()
