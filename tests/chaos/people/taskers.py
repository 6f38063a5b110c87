"""People who enqueue tasks of django.tasks and ask how they are, and who fire a schedule by hand."""

import random
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from tests.chaos.journal import Journal
from tests.chaos.mixtures import CUSTOMERS, Mixture
from tests.chaos.timetable import SCHEDULES

from .operators import Tried

_USING = "default"


class Taskers:
    """Act when they are told to, by a chance of their own."""

    def __init__(self, mixture: Mixture, seed: int, journal: Journal, tried: Tried) -> None:
        self._mixture, self._journal, self._tried = mixture, journal, tried
        self._chance = random.Random(f"tasks {seed}")
        #: Those that are certainly there.
        self.tasks: list[Any] = []

    def act(self) -> list[UUID]:
        """Perhaps one of these; returns the tasks that are new."""
        new = list[UUID]()
        if self._mixture.tasks and self._chance.random() < self._mixture.task_share:
            new = [UUID(id) for id in self._enqueue()]
        if self.tasks and self._chance.random() < 0.4:
            self._ask()
        if self._mixture.schedules and self._mixture.people and self._chance.random() < 0.02:
            self._fire()
        return new

    def _enqueue(self) -> list[str]:
        """Some tasks in a transaction; what they are called is known before it ends."""
        chance, ids = self._chance, list[Any]()

        def deed() -> None:
            with transaction.atomic(using=_USING):
                ids.extend(self._task() for _ in range(chance.randint(1, 3)))

        if not self._tried("created", deed, jobs=ids):
            return []
        self.tasks += ids
        return ids

    def _task(self) -> Any:
        from tests.chaos import tasks

        chance, mixture = self._chance, self._mixture
        kind = chance.choices(list(mixture.tasks), list(mixture.tasks.values()))[0]
        short = round(chance.uniform(0, 0.15), 3)
        long = round(chance.uniform(*mixture.slow) * mixture.lease, 3)
        task, arguments = {
            "task": (tasks.answers, (short, 0)),
            "task-slow": (tasks.answers, (long, 0)),
            "task-flaky": (tasks.answers, (short, chance.randint(1, 2))),
            "task-doomed": (tasks.answers, (short, 9)),
            "task-async": (tasks.answers_later, (short, 0)),
            "task-async-slow": (tasks.answers_later, (long, 0)),
            "task-mute": (tasks.mute, (short,)),
        }[kind]
        instance = f"instance-{chance.randrange(mixture.instances)}" if chance.random() < 0.5 else ""
        exclusive, tenant = chance.random() < mixture.exclusive, chance.choice(("north", "south", "east"))
        options: dict[str, Any] = {"exclusive": exclusive, "tenant_id": tenant, "process_instance_id": instance}
        if mixture.people and chance.random() < 0.2:
            options["run_after"] = timedelta(seconds=chance.choice([0.3, 1.0, 2.0]))
        resource = None
        if chance.random() < mixture.shared / 4:
            options["resource"] = resource = f"customer:{chance.randrange(CUSTOMERS)}"
        result = task.using(**options).enqueue(*arguments)
        columns = {"instance": instance, "exclusive": exclusive, "atomic": False, "retries": 3, "tenant": tenant}
        columns["resource"] = resource
        self._journal.write("creating", jobs=[{"id": result.id, "kind": kind, **columns}])
        return result.id

    def _ask(self) -> None:
        """How some tasks are, by the backend."""
        seen: dict[str, Any] = {}
        asked = [self._chance.choice(self.tasks[-30:]) for _ in range(3)]

        def deed() -> None:
            seen.update({id: _look(id) for id in asked})

        self._tried("saw", deed, seen=seen)

    def _fire(self) -> None:
        from jobexec.operations import schedules

        name = self._chance.choice(SCHEDULES)[0]
        self._tried("fired", lambda: schedules.fire_now(_USING, name), name=name)


def _look(id: str) -> tuple[str, Any]:
    from jobexec.backends.compat import TaskResultDoesNotExist, task_backends

    try:
        result = task_backends["default"].get_result(id)
    except TaskResultDoesNotExist:
        return "nowhere", None
    return str(result.status), result._return_value
