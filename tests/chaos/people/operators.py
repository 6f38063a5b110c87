"""What operators do: batches, overriding priorities, suspensions of what is to come, locks by hand, resources that are
held, limited or broken; and records of history that belong to a transaction."""

import random
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction

from jobexec import clock, operations
from jobexec.conf.resources import breaker
from jobexec.exceptions import BatchNotFound, BatchOver
from jobexec.models import JOB_TABLES, JobDefinition
from jobexec.operations.enqueue.record_history import record_history
from jobexec.operations.resources.breaker import open_breaker
from tests.chaos.journal import Journal
from tests.chaos.mixtures import CUSTOMERS, LEDGER, NEVER, RESOURCES

_USING = "default"

#: Does a deed and tells how it went: what the lines are called, the deed, further values.
Tried = Callable[..., bool]


class _ChangeOfMind(Exception):
    pass


class Operators:
    """Acts when it is told to, by the chance that it is given."""

    def __init__(self, chance: random.Random, journal: Journal, tried: Tried) -> None:
        self._chance, self._journal, self._tried = chance, journal, tried
        self._batches: list[UUID] = []

    def record(self) -> None:
        """Hand some records to the history, in a transaction that is sometimes rolled back."""
        chance = self._chance
        failures = [0, 0, 0, 0, 1, 2, NEVER if chance.random() < 0.2 else 0]
        records = [{"id": str(uuid4()), "failures": chance.choice(failures)} for _ in range(chance.randint(1, 3))]
        kept = chance.random() < 0.85

        def deed() -> None:
            with suppress(_ChangeOfMind), transaction.atomic(using=_USING):
                record_history(LEDGER, *records, using=_USING)
                if not kept:
                    raise _ChangeOfMind

        self._journal.write("recording", records=records, kept=kept)
        self._tried("recorded", deed, records=[record["id"] for record in records])

    def interfere(self, jobs: list[UUID], scope: dict[str, Any], only: Collection[str] = ()) -> None:
        """One thing that an operator does, to some of these jobs or to those of a scope; perhaps only such things."""
        chance = self._chance
        definition = f"tests.chaos.jobs.{chance.choice(['work', 'effect', 'waits'])}"
        some = chance.sample(jobs[-40:], min(len(jobs), 4))
        deeds: list[tuple[float, str, Callable[[], Any]]] = [
            (6, "batch", lambda: self._start_batch(jobs)),
            (4, "batch-managed", self._manage_batch),
            (2, "suspend-scope", lambda: operations.suspend(include_jobs=False, using=_USING, **scope)),
            (2, "unlock", lambda: operations.unlock(some, using=_USING)),
            (6, "hold-resource", self._hold_resource),
            (2, "limit-resource", self._limit_resource),
            (3, "break-resource", self._break_resource),
            (1, "override", lambda: _override(definition, chance.randint(-3, 3), cascade=chance.random() < 0.3)),
            (1, "override", lambda: operations.clear_overriding_priority(definition, using=_USING)),
        ]
        deeds = [each for each in deeds if not only or each[1] in only]
        _, verb, deed = chance.choices(deeds, [weight for weight, *_ in deeds])[0]
        self._journal.write("asks", verb=verb, **({"scope": scope} if verb == "suspend-scope" else {}))
        self._tried("person", _unless_it_is_gone(deed), verb=verb)

    def _hold_resource(self) -> None:
        """Let none of its jobs begin for a while. Not where there is a rate: permits that are given back are new ones,
        also those of jobs that have been lost meanwhile, which have begun."""
        chance = self._chance
        until = clock.now(_USING) + timedelta(seconds=chance.choice([1, 2, 4]))
        name = chance.choice(["gate", "line", f"customer:{chance.randrange(CUSTOMERS)}"])
        self._journal.write("breaker-holds", resource=name)
        operations.hold_resource(name, until=until, using=_USING)
        self._journal.write("breaker-held", resource=name, until=until.timestamp())

    def _limit_resource(self) -> None:
        """Lower a limit, or take that back. Never above that of the settings, by which the runs are judged."""
        name = self._chance.choice(["gate", "line"])
        operations.set_resource_limits(name, limit=self._chance.choice([1, 2, None]), using=_USING)

    def _break_resource(self) -> None:
        """Open the breaker of the line, as a node does that has seen calls fail; or close it, whatever it has seen."""
        if self._chance.random() < 0.3:
            self._journal.write("breaker-releases", resource="line")
            operations.release_resource("line", using=_USING)
        else:
            self._journal.write("breaker-opens", resource="line")
            done = open_breaker(_USING, "line", breaker(RESOURCES["line"]["breaker"]), "It was cut.")
            self._journal.write("breaker-opened", resource="line", done=done)

    def _start_batch(self, jobs: list[UUID]) -> None:
        chance = self._chance
        verb, arguments = chance.choice(
            [
                ("requeue", {"retries": 2}),
                ("set_priority", {"priority": chance.randint(-3, 3)}),
                ("suspend", {}),
                ("activate", {}),
                ("retry_now", {}),
                ("cancel", {}),
                ("delete", {}),
            ]
        )
        target: Any = chance.sample(jobs, min(len(jobs), 6 if verb in {"cancel", "delete"} else 60))
        named: dict[str, Any] = {"jobs": target}
        if verb not in {"cancel", "delete"} and chance.random() < 0.5:
            tenant = chance.choice(["north", "east"])
            target, named = chance.choice(JOB_TABLES).objects.filter(tenant_id=tenant), {"tenant": tenant}
        self._journal.write("asks", verb=verb, by_batch=True, **named)
        self._batches.append(operations.start_batch(verb, target, arguments=arguments, using=_USING).pk)

    def _manage_batch(self) -> None:
        verbs: list[Callable[..., Any]] = [operations.suspend_batch, operations.activate_batch]
        verbs += [operations.activate_batch, operations.cancel_batch, operations.delete_batch]
        if self._batches:
            self._chance.choice(verbs)(self._chance.choice(self._batches[-4:]), using=_USING)


def _override(definition: str, priority: int, *, cascade: bool) -> None:
    operations.override_priority(definition, priority, cascade=cascade, using=_USING)


def _unless_it_is_gone(deed: Callable[[], Any]) -> Callable[[], Any]:
    def done() -> Any:
        with suppress(BatchNotFound, BatchOver, JobDefinition.DoesNotExist):
            return deed()

    return done
