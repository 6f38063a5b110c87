"""People who start processes and flows, send them messages, and cancel some."""

import heapq
import random
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.db import transaction

import jobexec
from jobexec import processes
from jobexec.identifiers import uuid7
from jobexec.processes.exceptions import InstanceOver, MismatchingMessage
from tests.chaos.journal import Journal, now
from tests.chaos.mixtures import Mixture

from .operators import Tried

_USING = "default"


class _ChangeOfMind(Exception):
    pass


class Starters:
    """Act when they are told to, by a chance of their own."""

    def __init__(self, mixture: Mixture, seed: int, journal: Journal, tried: Tried) -> None:
        self._mixture, self._journal, self._tried = mixture, journal, tried
        self._chance = random.Random(f"processes {seed}")
        #: What they mean to do: when, what, and with which instance.
        self._plans: list[tuple[float, str, str, str]] = []

    def act(self) -> None:
        """Do what is due, and perhaps start some instances."""
        while self._plans and self._plans[0][0] <= now():
            _, deed, kind, name = heapq.heappop(self._plans)
            self._send(kind, name) if deed == "send" else self._cancel(name)
        if self._mixture.processes and self._chance.random() < self._mixture.process_share:
            self._start()

    def _start(self) -> None:
        """One or some in a transaction, which is sometimes rolled back."""
        from tests.chaos.processes import flows

        chance, weights = self._chance, self._mixture.processes
        kept = chance.random() < 0.9
        started = [self._instance(chance.choices(list(weights), list(weights.values()))[0]) for _ in range(2)]
        self._journal.write("starting", instances=[{"kind": kind, "name": name} for kind, name, _ in started])

        def deed() -> None:
            with suppress(_ChangeOfMind), transaction.atomic(using=_USING):
                for kind, name, given in started:
                    flows.start(_USING, kind, name, given)
                if not kept:
                    raise _ChangeOfMind

        begun = now()
        if self._tried("started", deed, kept=kept, names=[name for _, name, _ in started]) and kept:
            for kind, name, given in started:
                self._plan(begun, kind, name, given)

    def _instance(self, kind: str) -> tuple[str, str, dict[str, Any]]:
        chance = self._chance
        return kind, str(uuid7()), {
            "seconds": round(chance.uniform(0, 0.1 if self._mixture.people else 0.3), 3),
            "failures": chance.choice([0, 0, 0, 1, 2]),
            "patience": round(chance.uniform(0.3, 2.0), 2),
            "refused": chance.random() < 0.3,
            "dies": "a" if chance.random() < self._mixture.dying else "",
        }  # fmt: skip

    def _plan(self, begun: float, kind: str, name: str, given: dict[str, Any]) -> None:
        """Messages come about when those that wait for them lose their patience, and now and then twice."""
        from tests.chaos.processes.flows import MESSAGES

        chance = self._chance
        if kind in MESSAGES:
            at = begun + given["patience"] - chance.uniform(0, 0.35)
            for _ in range(chance.choice([0, 1, 1, 2])):
                heapq.heappush(self._plans, (at, "send", kind, name))
        if self._mixture.people and chance.random() < 0.2:
            heapq.heappush(self._plans, (now() + chance.uniform(0, 2), "cancel", kind, name))

    def _send(self, kind: str, name: str) -> None:
        from tests.chaos.processes.flows import APPROVED, MESSAGES

        message, delivered = MESSAGES[kind], list[int]()

        def deed() -> None:
            if message == APPROVED:
                jobexec.publish_message(message, key=name, payload={"by": "chaos"}, using=_USING)
                return
            with suppress(MismatchingMessage):
                delivered.append(processes.correlate(message, business_key=name, using=_USING))

        self._tried("sent", deed, name=name, delivered=delivered)

    def _cancel(self, name: str) -> None:
        from jobexec.processes.models import ProcessInstance

        done: list[UUID] = []

        def deed() -> None:
            for pk in ProcessInstance.objects.using(_USING).filter(business_key=name, parent_execution_id=None)[:1]:
                with suppress(InstanceOver):
                    processes.cancel(pk, "enough", using=_USING)
                    done.append(pk.pk)

        self._journal.write("cancelling", name=name)
        self._tried("cancelled", deed, name=name, done=done)
