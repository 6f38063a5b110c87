"""The resources in RESOURCES: what jobs share and may overload, with their limits, rates and circuit breakers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any

from . import values

MAX_LENGTH = 255
#: Entries that begin so limit tenants: their jobs need not name the resource.
TENANT = "tenant:"
_NO_MORE_THAN = 1_000_000
_RATE = re.compile(r"([1-9][0-9]{0,6})/(P\S{1,40})")
#: Seconds: a rate's default burst is what accrues in this time, so that a fast rate needs no step for each job.
_ACCRUES = 0.1


@dataclass(frozen=True, slots=True)
class Rate:
    """At most ``count`` jobs in any period, at most ``burst`` of them at the same moment."""

    count: int
    period: timedelta
    burst: int = 1

    @property
    def interval(self) -> timedelta:
        """The time in which one more job is allowed.

        After a burst, ``count - burst`` more must not come within the period.
        """
        return -(-self.period // (self.count - self.burst + 1))  # rounded up

    def __str__(self) -> str:
        from isodate import duration_isoformat

        return f"{self.count}/{duration_isoformat(self.period)}"


def rate(value: Any, burst: int | None = None) -> Rate:
    """A text such as ``"100/PT1M"``: a number of jobs, and the period in which they may start."""
    found = _RATE.fullmatch(value) if isinstance(value, str) else None
    expected = "a number of jobs and an ISO 8601 duration such as '100/PT1M'"
    try:
        period = values.duration()(found[2]) if found else None
    except ValueError:
        period = None
    if found is None or period is None:
        raise ValueError(expected)
    count = int(found[1])
    if burst is None:
        burst = max(1, min(count, math.floor(count * _ACCRUES / period.total_seconds())))
    if burst > count:
        raise ValueError(f"a burst of at most the rate's number of jobs, {count}")
    if count > _NO_MORE_THAN * period.total_seconds():
        raise ValueError("a rate of at most a million jobs a second")
    return Rate(count, period, burst)


@dataclass(frozen=True, slots=True)
class BreakerProfile:
    """When a circuit breaker opens, and what closes it (Ratchet, Resilience4j).

    It opens when, of the last ``window`` calls on a node, at least ``minimum_calls``, ``failure_rate`` per cent have
    failed. After ``wait``, ``trial_calls`` calls are let through. A call counts as failed if it raises one of the
    exceptions ``counts`` (by their dotted paths, or codes of the errors that external workers throw; none: any failure)
    that is not one of ``ignores``, or takes longer than ``slow_call``.
    """

    failure_rate: int = 50
    window: int = 100
    wait: timedelta = timedelta(seconds=30)
    trial_calls: int = 3
    minimum_calls: int = 5
    counts: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    slow_call: timedelta | None = None


#: The profiles of Ratchet, by their names there.
PROFILES: Mapping[str, BreakerProfile] = {
    "default": BreakerProfile(),
    "fast": BreakerProfile(50, 20, timedelta(seconds=10), 2, 3),
    "critical": BreakerProfile(75, 200, timedelta(seconds=60), 5, 10),
    "external_api": BreakerProfile(60, 50, timedelta(seconds=60), 3, 5),
    "claim_path": BreakerProfile(50, 20, timedelta(seconds=5), 1, 5),
}
_OF_BREAKER: Mapping[str, values.Parser] = {
    "failure_rate": values.integer(1, 100),
    "window": values.integer(1, 10_000),
    "wait": values.duration(),
    "trial_calls": values.integer(1, 1000),
    "minimum_calls": values.integer(1, 10_000),
    "counts": values.words,
    "ignores": values.words,
    "slow_call": values.duration(none=True),
}


def breaker(value: Any) -> BreakerProfile:
    """The name of a profile, or a dict of a profile's numbers; ``profile`` names the one that it changes."""
    known = ", ".join(map(repr, PROFILES))
    if isinstance(value, str) and value in PROFILES:
        return PROFILES[value]
    if not isinstance(value, Mapping):
        raise ValueError(f"one of {known}, or a dict")
    own = dict(value)
    base = own.pop("profile", "default")
    if base not in PROFILES:
        raise ValueError(f"a dict in which 'profile' is one of {known}")
    made = replace(PROFILES[base], **_parsed(own, _OF_BREAKER))
    if made.minimum_calls > made.window:
        raise ValueError(f"a dict in which 'minimum_calls' is at most the window, {made.window}")
    return made


def _parsed(raw: Mapping[Any, Any], known: Mapping[str, values.Parser]) -> dict[str, Any]:
    parsed = {}
    for key, value in raw.items():
        if key not in known:
            raise ValueError(f"a dict with keys out of {', '.join(map(repr, known))}, without {key!r}")
        try:
            parsed[key] = known[key](value)
        except ValueError as error:
            raise ValueError(f"a dict in which {key!r} is {error}") from None
    return parsed


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """The limits of a resource: ``limit`` jobs at once, a ``rate``, and a circuit ``breaker``; None is without."""

    limit: int | None = None
    rate: Rate | None = None
    breaker: BreakerProfile | None = None


_OF_RESOURCE: Mapping[str, values.Parser] = {
    "limit": values.integer(1, _NO_MORE_THAN),
    "burst": values.integer(1, _NO_MORE_THAN),
    "rate": lambda value: value,
    "breaker": breaker,
}


def _limits(value: Any) -> ResourceLimits:
    if not isinstance(value, Mapping) or not value:
        raise ValueError("a dict with at least one of 'limit', 'rate' and 'breaker'")
    own = _parsed(value, _OF_RESOURCE)
    burst = own.pop("burst", None)
    if "rate" in own:
        try:
            own["rate"] = rate(own["rate"], burst)
        except ValueError as error:
            raise ValueError(f"a dict in which 'rate' is {error}") from None
    elif burst is not None:
        raise ValueError("a dict in which 'burst' comes with a 'rate'")
    return ResourceLimits(**own)


class Resources(Mapping[str, ResourceLimits]):
    """The entries of RESOURCES. One whose name ends with ``*`` covers each name that begins as it does, by itself."""

    def __init__(self, entries: Mapping[str, ResourceLimits] | None = None) -> None:
        self._entries = dict(entries or {})
        prefixes = sorted((name[:-1] for name in self._entries if name.endswith("*")), key=len, reverse=True)

        @lru_cache(maxsize=10_000)
        def covering(name: str) -> str | None:
            if name in self._entries and not name.endswith("*"):
                return name
            return next((f"{prefix}*" for prefix in prefixes if name.startswith(prefix) and name != prefix), None)

        #: The entry that covers a name: its own, or that of the longest pattern; None if there is none.
        self.covering = covering

    def of_tenant(self, tenant: str) -> str | None:
        """The resource of a tenant's jobs that name none themselves; None if no entry limits this tenant."""
        name = f"{TENANT}{tenant}"
        return name if tenant and self.covering(name) in (name, f"{TENANT}*") else None

    def __getitem__(self, name: str) -> ResourceLimits:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"Resources({self._entries!r})"

    def __eq__(self, other: object) -> bool:
        return dict(self) == other if isinstance(other, Mapping) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))


def is_name(value: Any) -> bool:
    """Whether a text can name a resource: it appears in logs, on pages and in notifications."""
    fits = isinstance(value, str) and 0 < len(value) <= MAX_LENGTH and value.isprintable()
    return fits and value == value.strip()


def resources(value: Any) -> Resources:
    """A dict of names to what each resource bears."""
    if not isinstance(value, Mapping):
        raise ValueError("a dict of names of resources to dicts with 'limit', 'rate' or 'breaker'")
    entries = {}
    for name, own in value.items():
        if not is_name(name) or "*" in name[:-1]:
            raise ValueError(
                f"a dict whose keys have 1 to {MAX_LENGTH} printable characters, '*' only at the end, without {name!r}"
            )
        try:
            entries[name] = _limits(own)
        except ValueError as error:
            raise ValueError(f"a dict in which {name!r} is {error}") from None
    return Resources(entries)
