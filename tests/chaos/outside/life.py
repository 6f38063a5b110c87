"""The life of a worker; its name says how it talks. One that is `healthy` does everything at once and well."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from .instrument import journal, monotonic
from .talk import Away, Camunda, Direct, Got, Grpc, Rest, Talker, Wish

_PAUSE = 0.2
#: What a gateway of whoever talks so is called, and the talk; all others talk over gRPC.
_WAYS: dict[str, tuple[str, Callable[[int], Talker]]] = {"rest": ("web", Rest), "camunda": ("web", Camunda)}


class Worker:
    """Fetches, works, reports, and tells before and after."""

    def __init__(self, name: str, seed: int, mixture: dict[str, Any], ports: dict[str, int]) -> None:
        self._journal = journal()
        self.name, self._mixture = f"{name}-{os.getpid()}", mixture
        self._way = name.rstrip("0123456789")
        self._chance = random.Random(f"{name} {seed} {os.getpid()}")
        self._ports, self._asked = ports, 0
        self.stop = threading.Event()

    def live(self) -> None:
        """Until somebody says so, or the process is killed."""
        self._journal.write("worker", name=self.name)
        while not self.stop.is_set():
            talker, wish = self._talker(), self._wish()
            try:
                for job in self._jobs(talker, wish):
                    self._work(talker, job, wish)
                    if self.stop.is_set():
                        break
            except Away as error:
                self._journal.write("away", error=str(error)[:200])
                self.stop.wait(_PAUSE)

    def _talker(self) -> Talker:
        """Each time to a gateway that chance decides."""
        if self._way == "direct":
            return Direct()
        kind, talks = _WAYS.get(self._way, ("grpc", Grpc))
        return talks(self._chance.choice([port for name, port in self._ports.items() if name.startswith(kind)]))

    @property
    def _healthy(self) -> bool:
        return self._way == "healthy"

    def _wish(self) -> Wish:
        chance = self._chance
        wait = 0.3 if self._healthy else chance.choice([0.5, 1.0, 1.5])
        hasty = chance.random() < self._mixture["hasty"] and not self._healthy
        self._asked += 1
        leased = chance.random() < self._mixture["leased"] and self._way not in ("camunda", "stream")
        return Wish(
            type=chance.choice(self._mixture["types"]),
            worker=f"{self.name}.{self._asked}",
            timeout=3.0 if self._healthy else chance.choice(self._mixture["timeouts"]),
            most=chance.randint(1, self._mixture["most"]),
            wait=wait,
            patience=chance.uniform(0.01, wait) if hasty else wait + 5,
            lease=leased or self._healthy,
        )

    def _jobs(self, talker: Talker, wish: Wish) -> Iterator[Got]:
        """Told when nobody listens any more to the answer of what was asked under this name."""
        try:
            if isinstance(talker, Grpc) and self._way == "stream":
                yield from talker.stream(wish, self._chance.uniform(0.5, 3))
                return
            jobs = talker.fetch(wish)
        finally:
            self._journal.write("over", worker=wish.worker)
        yield from jobs

    def _work(self, talker: Talker, job: Got, wish: Wish) -> None:
        deadline = monotonic(job.deadline)
        hold = {"key": job.key, "lease": job.lease, "worker": wish.worker, "moment": deadline - wish.timeout}
        self._journal.write("got", deadline=deadline, **hold)
        chance = self._chance
        deed = "complete"
        if not self._healthy:
            time.sleep(wish.timeout * chance.uniform(0.5, 1.3) if chance.random() < self._mixture["late"] else 0)
            time.sleep(chance.uniform(0, 0.06))
            deed = chance.choices(list(self._mixture["deeds"]), list(self._mixture["deeds"].values()))[0]
        self._do(deed, lambda verb, **values: self._report(talker, verb, job, hold, values), job, chance)

    def _do(self, deed: str, report: Any, job: Got, chance: random.Random) -> None:
        if deed == "leave":
            return
        if deed == "die":
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
        if deed in ("extend", "shorten"):
            report("extend", timeout=chance.choice([1000, 2000]) if deed == "extend" else 150)
            time.sleep(chance.uniform(0, 0.3))
        if deed in ("fail", "fail-later"):
            pause = chance.choice([200, 600]) if deed == "fail-later" else 0
            report("fail", retries=max(0, job.retries - 1), back_off=pause)
        elif deed == "give-up":
            report("fail", retries=0, back_off=0)
        elif deed in ("caught", "uncaught"):
            report("error", code=deed)
        else:
            report("complete")
            if deed == "complete-twice":
                report("complete")

    def _report(self, talker: Talker, verb: str, job: Got, hold: dict[str, Any], values: dict[str, Any]) -> None:
        number = self._chance.getrandbits(60)
        self._journal.write("report", number=number, verb=verb, values=values, **hold)
        came_to, said = talker.report(verb, job, hold["worker"], **values)
        self._journal.write("reported", number=number, came_to=came_to, said=said[:200])
