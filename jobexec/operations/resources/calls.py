"""Count the calls of resources with a circuit breaker in this process, and open or close the breakers."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from django.db import connections

from jobexec.conf import get_settings
from jobexec.conf.resources import BreakerProfile, Resources
from jobexec.models import BreakerState

from ..sql.errors import one_line
from ..sql.on_commit import after_commit
from ..sql.place import place
from .breaker import count_trials, open_breaker
from .limits import states

logger = logging.getLogger("jobexec.executor")


class Breakers:
    """The last calls of each resource with a circuit breaker, as one process has seen them."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self._lock = threading.Lock()
        self._windows: dict[str, deque[bool]] = {}

    def profile_of(self, name: str) -> BreakerProfile | None:
        """The breaker of a resource, if it has one."""
        entry = self.resources.covering(name)
        return self.resources[entry].breaker if entry is not None else None

    def judge(self, using: str, told: Mapping[str, Sequence[str]]) -> None:
        """Count calls by resource ('' for a success, or the reason of a failure); open and close their breakers."""
        known = states(using, list(told)) if told else {}
        for name, calls in told.items():
            profile = self.profile_of(name)
            if profile is None:
                continue
            reason = self.count(name, profile, calls, known[name])
            if reason:
                if open_breaker(using, name, profile, reason):
                    logger.warning("The circuit breaker of %s on %s opens: %s", one_line(name), using, one_line(reason))
            elif known[name] == BreakerState.HALF_OPEN and count_trials(using, name, profile, len(calls)):
                logger.info("The circuit breaker of %s on %s closes", one_line(name), using)

    def count(self, name: str, profile: BreakerProfile, calls: Sequence[str], state: str) -> str:
        """Count calls of a resource whose breaker is in this state; returns the reason to open it, or ''."""
        failed = [call for call in calls if call]
        if state == BreakerState.OPEN:
            return ""  # they began before it opened
        if state == BreakerState.HALF_OPEN:
            return f"a trial call failed: {failed[0]}" if failed else ""
        with self._lock:
            window = self._windows.setdefault(name, deque(maxlen=profile.window))
            window.extend(bool(call) for call in calls)
            failures = sum(window)
            if len(window) < profile.minimum_calls or failures * 100 < profile.failure_rate * len(window):
                return ""
            self._windows.pop(name)
        last = failed[-1] if failed else ""
        return f"{failures} of the last {len(window)} calls failed{f', the last with {last}' if last else ''}"


def counts(names: Collection[str], profile: BreakerProfile) -> bool:
    """Whether a failure with these names (the classes of an exception, the code of an error) counts."""
    given = set(names)
    return not given.intersection(profile.ignores) and (not profile.counts or bool(given.intersection(profile.counts)))


# The calls that external workers report. A gateway has no loop that could judge them.

_lock = threading.Lock()
_of_workers: dict[tuple[str, str, str], Breakers] = {}


def report_call(using: str, resource: str | None, failure: str | None = None, code: str = "") -> None:
    """After the commit, count the call of a resource by a worker; ``failure`` is None for a success.

    ``code`` is that of an error that the worker has thrown, which ``counts`` and ``ignores`` may name. An error here is
    logged: the worker's report is committed.
    """
    if resource is None:
        return
    known = get_settings().resources
    entry = known.covering(resource)
    profile = known[entry].breaker if entry is not None else None
    if profile is None:
        return
    failed = failure is not None and counts([code], profile)
    call = (failure or "an error without a message").partition("\n")[0] if failed else ""
    after_commit(connections[using], partial(_judge, using, resource, call))


def _judge(using: str, resource: str, call: str) -> None:
    known = get_settings().resources
    where = place(using)
    with _lock:
        breakers = _of_workers.get(where)
        if breakers is None or breakers.resources is not known:
            breakers = _of_workers[where] = Breakers(known)
    breakers.judge(using, {resource: [call]})
