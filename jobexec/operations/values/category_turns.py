"""How the categories share a page of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

J = TypeVar("J")


class Turns:
    """Takes turns between categories by their weights, smoothly and without chance.

    Weights of 3 and 1 give a, a, b, a, a, a, b, a, ...: of any 4 places in a row the first has 3, however small the
    pages are, because what a category is owed is carried from page to page. A category without jobs gives its places
    to the others and saves nothing up. (Sidekiq draws by lot with the same shares; ours is the smooth weighted round
    robin that nginx uses.) Not to be shared between threads.
    """

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = dict(weights)
        self._owed = dict.fromkeys(self._weights, 0)

    def merge(self, found: Mapping[str, Sequence[J]], limit: int) -> list[J]:
        """Up to ``limit`` jobs of these categories, each in its own order."""
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
