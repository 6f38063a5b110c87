"""Those who enqueue, and a person who interferes with what they enqueued."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection, transaction

import jobexec
from jobexec import clock, operations
from jobexec.identifiers import uuid7
from jobexec.operations.batches.of_jobs import count_added
from tests.chaos.journal import Journal, now
from tests.chaos.mixtures import CUSTOMERS, NEWS, NEWS_KEYS, Mixture

from .operators import Operators
from .starters import Starters
from .taskers import Taskers

TENANTS = ("north", "south", "east")
DEFINITIONS = ("order", "claim")
FAR = 86_400
_USING = "default"


def _create_batch(name: str, rows: list[dict[str, Any]]) -> None:
    """The same as a batch, in one transaction; the journal knows its children by its name."""
    from tests.chaos.jobs import all_done, not_all_done

    with transaction.atomic(using=_USING):
        done, not_done = all_done.s(), not_all_done.s()
        tenant = rows[0]["tenant_id"]
        with jobexec.batch(name=name, on_success=done, on_failure=not_done, tenant_id=tenant, using=_USING) as batch:
            operations.create_jobs(_USING, [{**row, "batch_id": batch.id} for row in rows])
            count_added(_USING, batch.row, len(rows))


def _of_tenant(wait: tuple[str, float] | None, tenant: str) -> tuple[str, float] | None:
    """Messages are for jobs of their tenant."""
    return wait and (f"{wait[0]} of {tenant}", wait[1])


class People:
    """Acts from time to time, by a chance that the seed decides. Errors of a database that is away are told."""

    def __init__(self, mixture: Mixture, seed: int, journal: Journal, killers_until: float) -> None:
        self._mixture, self._journal = mixture, journal
        #: It takes some crashes to convict a killer, so those that come late would only keep everybody from resting.
        self._killers_until = killers_until
        self._chance = random.Random(f"people {seed}")
        self._sharing = random.Random(f"resources {seed}")
        self._batching = random.Random(f"batches {seed}")
        self._jobs: list[UUID] = []
        self._held: list[dict[str, Any]] = []  # the scopes that were suspended, the last one first
        self._operators = Operators(random.Random(f"operators {seed}"), journal, self._tried)
        self._taskers = Taskers(mixture, seed, journal, self._tried)
        self._starters = Starters(mixture, seed, journal, self._tried)

    # Enqueueing.

    def enqueue(self) -> None:
        """Some jobs of one process instance, in one transaction, and perhaps some tasks and processes."""
        self._jobs += self._taskers.act()
        self._starters.act()
        if self._mixture.jobs:
            self._enqueue()

    def _enqueue(self) -> None:
        chance, mixture = self._chance, self._mixture
        shared = {
            "process_instance_id": f"instance-{chance.randrange(mixture.instances)}" if chance.random() < 0.9 else "",
            "process_definition_key": chance.choice(DEFINITIONS),
            "tenant_id": chance.choice(TENANTS),
        }
        resource = self._resource()
        if resource is not None:
            shared["resource"] = resource
        rows = [self._job() | shared for _ in range(chance.randint(1, mixture.batch))]
        batch = str(uuid7()) if self._batching.random() < mixture.batched else ""
        told = [
            {key: row[key] for key in ("id", "exclusive", "atomic", "retries", "priority")}
            | {"now": row.keys().isdisjoint({"due_date", "waits_for"}) and resource is None, "resource": resource}
            | {"waits": _of_tenant(row.pop("waits", None), shared["tenant_id"])}
            | {"kind": kind, "instance": shared["process_instance_id"], "tenant": shared["tenant_id"], "batch": batch}
            for row in rows
            if (kind := row.pop("kind"))
        ]
        self._journal.write("creating", jobs=told)
        create = partial(_create_batch, batch, rows) if batch else partial(operations.create_jobs, _USING, rows)
        if self._tried("created", create, jobs=[row["id"] for row in rows]):
            self._jobs += [row["id"] for row in rows]
        if mixture.people and chance.random() < 0.3:
            self._operators.record()

    def _resource(self) -> str | None:
        """What the jobs of a batch share, if anything."""
        chance, weights = self._sharing, self._mixture.resources
        if chance.random() >= self._mixture.shared:
            return None
        name = chance.choices(list(weights), list(weights.values()))[0]
        return f"{name}:{chance.randrange(CUSTOMERS)}" if name == "customer" else name

    def _job(self) -> dict[str, Any]:
        chance = self._chance
        kind = chance.choices(list(self._mixture.jobs), list(self._mixture.jobs.values()))[0]
        if kind.startswith("killer") and now() > self._killers_until:
            kind = "work"
        handler, arguments, columns = self._what(kind)
        delay = chance.choice([0, 0, 0, 0, 0.3, 1.0, 2.0, FAR if chance.random() < 0.2 else 0.5])
        due = {"due_date": clock.now() + timedelta(seconds=delay)} if delay and self._mixture.people else {}
        name = f"tests.chaos.jobs.{handler}"
        return {
            "kind": kind,
            "id": uuid7(),
            "handler_type": name,
            "handler_configuration": {"args": arguments, "kwargs": {}},
            "exclusive": chance.random() < self._mixture.exclusive,
            "priority": chance.randint(-2, 2),
            "atomic": handler == "effect",
            "retries": 3,
            **columns,
            **due,
        }

    def _what(self, kind: str) -> tuple[str, list[Any], dict[str, Any]]:
        """The handler, its arguments and further columns of a kind of job."""
        chance, lease = self._chance, self._mixture.lease
        key = f"key {chance.randrange(NEWS_KEYS)}"
        short = round(chance.uniform(0, 0.15), 3)
        long = round(chance.uniform(*self._mixture.slow) * lease, 3)
        makers: dict[str, Callable[[], tuple[str, list[Any], dict[str, Any]]]] = {
            "work": lambda: ("work", [short], {}),
            "slow": lambda: ("work", [long], {}),
            "async": lambda: ("waits", [short, 0], {}),
            "async-slow": lambda: ("waits", [long, 0], {}),
            "async-flaky": lambda: ("waits", [short, chance.randint(1, 2)], {}),
            "async-late": lambda: ("waits", [long, 0], {"timeout": timedelta(seconds=0.4 * long)}),
            "careful": lambda: ("careful", [long], {}),
            "late": lambda: ("work", [long], {"exclusive": True, "timeout": timedelta(seconds=0.4 * long)}),
            "flaky": lambda: ("flaky", [short, chance.randint(1, 2)], {}),
            "doomed": lambda: ("flaky", [short, 9], {}),
            "fatal": lambda: ("fatal", [short], {}),
            "effect": lambda: ("effect", [short, 0], {}),
            "effect-slow": lambda: ("effect", [long, 0], {}),
            "effect-flaky": lambda: ("effect", [short, chance.randint(1, 2)], {}),
            "chain": lambda: ("chain", [short / 2, chance.randint(1, 15)], {}),
            "herald": lambda: ("herald", [short], {}),
            "waiter": lambda: ("waiter", [], self._wait(key)),
            "publisher": lambda: ("publisher", [key, *self._news()], {}),
            "killer": lambda: ("killer", [chance.choice(["exit", "kill"]), 999], {"retries": 1}),
            "killer-once": lambda: ("killer", [chance.choice(["exit", "kill", "between"]), 1], {"retries": 2}),
        }
        return makers[kind]()

    def _wait(self, key: str) -> dict[str, Any]:
        """The columns of a job that waits for a message."""
        seconds = self._chance.choice([0.5, 2.0, 6.0])
        until = clock.now(_USING) + timedelta(seconds=seconds)
        return {"waits_for": NEWS, "waits_for_key": key, "waits_until": until, "waits": (key, seconds)}

    def _news(self) -> tuple[float | None, str | None, bool]:
        """How long a message is kept, its id, and whether it is published after all."""
        chance = self._chance
        id = f"id {chance.randrange(3)}" if chance.random() < 0.5 else None
        return chance.choice([None, 1.0, 4.0]), id, chance.random() < 0.9

    # Interfering.

    def interfere(self) -> None:
        """One thing that a person does in the admin."""
        chance = self._chance
        some: list[UUID] = chance.sample(self._jobs, min(len(self._jobs), chance.randint(1, 4)))
        recent = self._jobs[-40:]
        some += chance.sample(recent, min(len(recent), 2))
        later = clock.now() + timedelta(seconds=chance.choice([0.2, 1.0, 3.0]))
        scope: dict[str, Any] = chance.choice(
            [
                {"process_instance_id": f"instance-{chance.randrange(self._mixture.instances)}"},
                {"tenant_id": chance.choice(TENANTS)},
                {"process_definition_key": chance.choice(DEFINITIONS)},
                {"job_definition_id": f"tests.chaos.jobs.{chance.choice(['work', 'effect', 'flaky'])}"},
            ]
        )
        only = self._mixture.deeds
        if only or chance.random() < 0.35:
            if not only and chance.random() < 0.1:
                self._held.insert(0, scope)
            self._operators.interfere(self._jobs, scope, only)
            return
        deeds: list[tuple[float, str, Callable[[], Any]]] = [
            (3, "suspend", lambda: operations.suspend(some, using=_USING)),
            (3, "activate", lambda: operations.activate(some, using=_USING)),
            (2, "suspend-scope", lambda: operations.suspend(using=_USING, **scope)),
            (2, "suspend-scope-until", lambda: operations.suspend(using=_USING, until=later, **scope)),
            (6, "activate-scope", lambda: operations.activate(using=_USING, **scope)),
            (2, "requeue", lambda: operations.requeue(some, retries=chance.choice([1, 3]), using=_USING)),
            (2, "cancel", lambda: operations.cancel(some[:2], using=_USING)),
            (1, "delete", lambda: operations.delete_jobs(some[:1], using=_USING)),
            (2, "set_priority", lambda: operations.set_priority(some, chance.randint(-3, 3), using=_USING)),
            (1, "set_retries", lambda: operations.set_retries(some[:2], chance.randint(1, 3), using=_USING)),
            (2, "set_due_date", lambda: operations.set_due_date(some, chance.choice([None, later]), using=_USING)),
        ]
        _, verb, deed = chance.choices(deeds, [weight for weight, *_ in deeds])[0]
        if verb == "suspend-scope":
            self._held.insert(0, scope)
        elif verb == "activate-scope" and self._held:
            scope = self._held.pop()
        named: dict[str, Any] = {"scope": scope} if "scope" in verb else {"jobs": some}
        self._journal.write("asks", verb=verb, **named)
        self._tried("person", deed, verb=verb)

    def let_go(self, but: str) -> None:
        """Activate everything but one tenant, which stays suspended if it is for good."""
        while not self._tried("person", lambda: self._activate_all(but), verb="let-go"):
            pass

    def _activate_all(self, but: str) -> None:
        for scope, value, until in self._suspensions():
            named: dict[str, Any] = {scope: value}
            if named != {"tenant_id": but} or until:
                operations.activate(using=_USING, **named)
        operations.activate(self._jobs[: len(self._jobs) * 9 // 10], using=_USING)

    def _suspensions(self) -> list[tuple[str, str, datetime | None]]:
        from jobexec.models import Suspension

        return list(Suspension.objects.using(_USING).values_list("scope", "value", "activate_time"))

    def _tried(self, what: str, deed: Callable[[], Any], **values: Any) -> bool:
        """Do it and tell; whether it went well for sure. A database that goes away leaves it in doubt."""
        try:
            result = deed()
        except (OperationalError, InterfaceError) as error:
            self._journal.write(what, ok=False, error=f"{type(error).__name__}: {error}"[:200], **values)
            connection.close()
            return False
        changed = [str(pk) for pk in getattr(result, "changed", [])]
        self._journal.write(what, ok=True, **values, **({"changed": changed} if what == "person" else {}))
        return True
