"""Those who make jobs, in transactions, and interfere with them."""

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connection, transaction

from jobexec import external_job, operations
from jobexec.exceptions import JobExecError
from jobexec.models import Incident, IncidentState, Suspension
from jobexec.operations.external import resolve_external_incident, set_external_retries, unlock_external_job
from tests.chaos.journal import Journal

from . import jobs
from .mixture import Mixture

TENANTS = ("", "north", "south")
_USING = "default"


class _NotToday(Exception):
    """Rolls a transaction back."""


class People:
    """Acts from time to time, by a chance that the seed decides. Errors of a database that is away are told."""

    def __init__(self, mixture: Mixture, seed: int, journal: Journal) -> None:
        self._mixture, self._journal = mixture, journal
        self._chance = random.Random(f"people {seed}")
        self._jobs: list[tuple[int, UUID]] = []  # by key

    def act(self) -> None:
        """Make some jobs, and perhaps interfere."""
        self._make()
        if self._mixture.people and self._chance.random() < 0.3:
            self._interfere()

    def _make(self) -> None:
        """Some jobs in one transaction, of which some are rolled back."""
        chance, made = self._chance, list[tuple[int, UUID]]()
        number = chance.getrandbits(60)
        rolled_back = chance.random() < 0.1
        try:
            with transaction.atomic():
                for _ in range(chance.randint(1, self._mixture.batch)):
                    row, told = self._job()
                    made.append((row.job_key or 0, row.pk))
                    self._journal.write("creating", number=number, key=row.job_key, job=row.pk, **told)
                if rolled_back:
                    raise _NotToday
        except _NotToday:
            self._journal.write("created", number=number, came_to="refused")
        except (DatabaseError, InterfaceError) as error:
            self._journal.write("created", number=number, came_to="doubt", error=str(error)[:200])
            connection.close()
        else:
            self._journal.write("created", number=number, came_to="ok")
            self._jobs += made

    def _job(self) -> tuple[Any, dict[str, Any]]:
        chance, mixture = self._chance, self._mixture
        instances = mixture.instances
        instance = f"i-{chance.randrange(instances)}" if instances and chance.random() < 0.4 else ""
        callback = chance.choices(list(mixture.callbacks), list(mixture.callbacks.values()))[0]
        options: dict[str, Any] = {
            "process_instance_id": instance,
            "exclusive": bool(instance) and chance.random() < 0.9,
            "priority": chance.randint(-1, 1),
            "tenant_id": chance.choice(TENANTS),
        }
        told = {
            "callback": callback,
            "instance": instance and f"{instance} of {options['tenant_id']}",
            "exclusive": options["exclusive"],
        }
        if callback:
            options["on_complete"] = getattr(jobs, callback)
        if chance.random() < 0.15:
            options["delay"] = chance.choice([0.3, 1.0])
        if chance.random() < 0.1:
            options["max_deliveries"] = 3
        row = external_job(
            chance.choice(mixture.types),
            variables={"n": chance.randrange(1000)},
            on_error={"caught": jobs.caught},
            retries=chance.randint(1, 4),
            **options,
        )
        return row, told

    def _interfere(self) -> None:
        chance = self._chance
        recent = self._jobs[-60:]
        if not recent:
            return
        some = [pk for _, pk in chance.sample(recent, min(4, len(recent)))]
        key = chance.choice(recent)[0]
        tenant = chance.choice(TENANTS[1:])
        deeds: list[tuple[float, str, Callable[[], Any], dict[str, Any]]] = [
            (2, "suspend", lambda: operations.suspend(some, using=_USING), {"jobs": some}),
            (3, "activate", lambda: operations.activate(some, using=_USING), {"jobs": some}),
            (1, "suspend", lambda: operations.suspend(using=_USING, tenant_id=tenant), {"tenant": tenant}),
            (3, "activate", lambda: operations.activate(using=_USING, tenant_id=tenant), {"tenant": tenant}),
            (1.5, "cancel", lambda: operations.cancel(some[:2], using=_USING), {"jobs": some[:2]}),
            (1.5, "delete", lambda: operations.delete_jobs(some[:2], using=_USING), {"jobs": some[:2]}),
            (1, "requeue", lambda: operations.requeue(some, retries=2, using=_USING), {"jobs": some}),
            (3, "resolve", self._resolve, {}),
            (3, "unlock", lambda: unlock_external_job(_USING, key), {"keys": [key]}),
            (1, "set_priority", lambda: operations.set_priority(some, chance.randint(-3, 3), using=_USING), {}),
        ]
        _, verb, deed, told = chance.choices(deeds, [weight for weight, *_ in deeds])[0]
        self._try(verb, deed, told)

    def _resolve(self) -> None:
        """Give the job of an incident retries, and end the incident."""
        found = Incident.objects.filter(state=IncidentState.OPEN, incident_key__isnull=False).order_by("pk").first()
        by_id = {pk: key for key, pk in self._jobs}
        if found is not None and found.incident_key is not None and found.job_id in by_id:
            set_external_retries(_USING, by_id[found.job_id], 2)
            resolve_external_incident(_USING, found.incident_key)

    def _try(self, verb: str, deed: Callable[[], Any], told: dict[str, Any]) -> bool:
        """Do it, and tell before and after; whether it went well for sure."""
        number = self._chance.getrandbits(60)
        self._journal.write("asks", number=number, verb=verb, **told)
        came_to, said = "ok", ""
        try:
            deed()
        except JobExecError as error:
            came_to, said = "refused", str(error)
        except (DatabaseError, InterfaceError) as error:
            came_to, said = "doubt", str(error)
            connection.close()
        self._journal.write("asked", number=number, came_to=came_to, said=said[:200])
        return came_to == "ok"

    def let_go(self, but: str) -> None:
        """Activate everything but one tenant, which stays suspended if it is."""
        while not self._try("activate", lambda: self._activate_all(but), {}):
            pass

    def _activate_all(self, but: str) -> None:
        for scope, value in Suspension.objects.values_list("scope", "value"):
            named: dict[str, Any] = {scope: value}
            if named != {"tenant_id": but}:
                operations.activate(using=_USING, **named)
        operations.activate([pk for _, pk in self._jobs], using=_USING)
