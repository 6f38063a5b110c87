"""How categories share a page of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

J = TypeVar("J")


class Turns:
    """Take turns between categories by their weights, smoothly and without randomness.

    Weights of 3 and 1 give a, a, b, a, a, a, b, a, ...: of any 4 consecutive places the first has 3, however small the
    pages are, because the balance of each category is carried over to the next page. A category without jobs gives its
    places to the others and does not save them up. (Sidekiq draws at random with the same shares; this is nginx's
    smooth weighted round robin.) Not thread-safe.
    """

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = dict(weights)
        self._owed = dict.fromkeys(self._weights, 0)

    def merge(self, found: Mapping[str, Sequence[J]], limit: int) -> list[J]:
        """Return up to ``limit`` jobs of these categories, those of each category in their order."""
        left = {category: list(reversed(jobs)) for category, jobs in found.items() if jobs}
        page: list[J] = []
        while left and len(page) < limit:
            category = self._next(list(left))
            page.append(left[category].pop())
            if not left[category]:
                del left[category]
        return page

    def _next(self, waiting: Sequence[str]) -> str:
        for category in waiting:
            self._owed[category] += self._weights[category]
        first = max(waiting, key=lambda category: self._owed[category])
        self._owed[first] -= sum(self._weights[category] for category in waiting)
        return first
