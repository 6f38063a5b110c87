"""The base class of recurrences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta

_SECOND = timedelta(seconds=1)
#: The last moment that a clock can show in every time zone: they are ahead of UTC by at most 14 hours.
_LAST = datetime.max.replace(tzinfo=UTC) - timedelta(hours=14)


class Recurrence(ABC):
    """A strictly increasing sequence of times, in whole seconds and UTC. Stateless.

    All moments are aware datetimes.
    """

    @abstractmethod
    def next_after(self, moment: datetime) -> datetime | None:
        """The first time after the moment, exclusive; None if there is none."""

    def times_between(self, since: datetime, until: datetime, limit: int) -> list[datetime]:
        """The first ``limit`` times after ``since``, up to ``until``, inclusive."""
        times: list[datetime] = []
        while len(times) < limit:
            time = self.next_after(since)
            if time is None or time > until:
                break
            times.append(time)
            since = time
        return times

    def upcoming(self, since: datetime, count: int) -> list[datetime]:
        """The first ``count`` times after ``since``."""
        return self.times_between(since, _LAST, count)

    def last_between(self, since: datetime, until: datetime) -> datetime | None:
        """The last time after ``since`` and up to ``until``, inclusive; None if there is none.

        By bisection, so in some forty steps, however many times lie between.
        """
        last, end = None, until
        while True:
            middle = since + (end - since) / 2 if last else since
            time = self.next_after(middle)
            if time is not None and time <= until:
                last = since = time
            elif last is None:
                return None
            else:
                end = middle
            if end - since < _SECOND:
                return last
