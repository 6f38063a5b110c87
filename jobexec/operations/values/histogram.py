"""Durations counted in buckets that double, from one millisecond to a day and a half, and one bucket for longer ones.

A duration of ``n`` whole milliseconds falls into the bucket numbered by the count of binary digits of ``n``, so one
operation finds the bucket, and a quantile is wrong by less than a factor of two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

#: The upper bounds in milliseconds, exclusive, as durations are whole milliseconds; the last bucket has none.
BOUNDS = tuple(2**digits for digits in range(28))

#: The key of each bucket in the meter log: its upper bound in milliseconds, in the order of the bounds.
KEYS = (*map(str, BOUNDS), "inf")


def counts_by_key(buckets: Iterable[int]) -> Iterator[tuple[str, int]]:
    """Yield keys and counts of the non-empty buckets; durations with more binary digits belong to the last one."""
    counts = list(buckets)
    last = len(BOUNDS)
    found = [*counts[:last], sum(counts[last:])]
    return ((key, count) for key, count in zip(KEYS, found, strict=False) if count)


def quantile(counts: Mapping[str, int], share: float) -> float | None:
    """Return the seconds that this share (0 to 1) of the durations does not exceed; None without durations.

    ``counts`` maps bucket keys to counts. Durations are assumed to be spread evenly over their bucket; for the last
    bucket, which has no end, its beginning is returned.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share: expected a number from 0 to 1, got {share!r}.")
    wanted = share * sum(counts.get(key, 0) for key in KEYS)
    below = lower = 0
    for key, upper in zip(KEYS, BOUNDS, strict=False):
        count = counts.get(key, 0)
        if count and below + count >= wanted:
            return float(lower + (upper - lower) * (wanted - below) / count) / 1000
        below, lower = below + count, upper
    return lower / 1000 if counts.get(KEYS[-1]) else None
