"""Lengths of time, counted in buckets that double: from a millisecond to a day and a half, and one for what is longer.

A length of ``n`` whole milliseconds falls into the bucket with the number of binary digits of ``n``: so a bucket is
found by one operation, and a quantile is wrong by less than a factor of two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

#: The upper bounds in milliseconds, exclusive, since times are whole milliseconds; the last bucket has none.
BOUNDS = tuple(2**digits for digits in range(28))

#: What the meter log has as the key of each bucket: its upper bound in milliseconds, in the order of the bounds.
KEYS = (*map(str, BOUNDS), "inf")


def counts_by_key(buckets: Iterable[int]) -> Iterator[tuple[str, int]]:
    """The keys and counts of the buckets that are not empty; what has more binary digits belongs to the last one."""
    counts = list(buckets)
    last = len(BOUNDS)
    found = [*counts[:last], sum(counts[last:])]
    return ((key, count) for key, count in zip(KEYS, found, strict=False) if count)


def quantile(counts: Mapping[str, int], share: float) -> float | None:
    """How many seconds are not exceeded by this share (0 to 1) of what was counted; None if nothing was.

    ``counts`` by key of bucket. As if the lengths of a bucket were spread evenly over it; of what is in the bucket
    without an end only the beginning is known.
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
