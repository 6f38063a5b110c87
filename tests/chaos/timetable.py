"""The schedules of a run: they are saved before the nodes start, and stopped when all they missed is made good."""

import time
from typing import Any

from django.db import InterfaceError, OperationalError, connection

from .journal import Journal

_USING = "default"

#: Name, expression, time zone, misfire policy. Their times are whole seconds: all, the even, the odd ones.
SCHEDULES = (
    ("every-second", "R/PT1S", "UTC", "all"),
    ("even-seconds", "*/2 * * * * *", "Europe/Berlin", "once"),
    ("odd-seconds", "1-59/2 * * * * *", "UTC", "skip"),
)
#: Seconds after which a time counts as missed.
THRESHOLD = 3


class Timetable:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def save(self) -> None:
        from jobexec.operations import schedules

        for name, expression, zone, misfire in SCHEDULES:
            values: Any = {"expression": expression, "timezone": zone, "misfire": misfire}
            schedules.save_schedule(_USING, name=name, handler_type="tests.chaos.jobs.tick", **values)
            self._journal.write("schedule", name=name, misfire=misfire, threshold=THRESHOLD)

    def caught_up(self) -> bool:
        """Whether all schedules wait for a time to come; told with the wall clock's time before the look."""
        from jobexec.models import Schedule

        before = time.time()
        try:
            behind = Schedule.objects.filter(next_time__lte=_now()).exists()
        except (OperationalError, InterfaceError):
            connection.close()
            return False
        if not behind:
            self._journal.write("caught-up", until=before)
        return not behind

    def stop(self) -> None:
        """They fire no more, or there would be no rest."""
        from jobexec.operations import schedules

        self._journal.write("stopping")
        for name, *_ in SCHEDULES:
            schedules.set_enabled(_USING, name, False)


def _now() -> Any:
    from jobexec import clock

    return clock.now(_USING)
