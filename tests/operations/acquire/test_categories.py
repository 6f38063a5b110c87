"""How the categories share a page: by rank, in strict order, by weights."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from jobexec.models import Job
from jobexec.operations.values.category_turns import Turns
from tests.support.factories import acquire, make_job

NAMES = ["a", "b", "c"]
weights = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 9), min_size=1)


@pytest.fixture(autouse=True)
def categories(configure):
    configure(CATEGORIES=["urgent", "default", "bulk"])


def fill(alias, **counts):
    """So many jobs in each category, in turn and with the first the oldest; the ids by category."""
    made = {category: [] for category in counts}
    for number in range(max(counts.values())):
        for category, count in counts.items():
            if number < count:
                made[category].append(make_job(alias, category=category).pk)
    return made


def got(alias, limit, **scope):
    """The categories of the jobs of one page."""
    return [job.category for job in acquire(alias, limit=limit, **scope)]


def test_by_rank_categories_are_as_one(alias, strategy, frozen):
    old = make_job(alias, category="bulk").pk
    frozen.tick(1)
    made = fill(alias, urgent=1, default=1)
    high = make_job(alias, category="bulk", priority=1).pk
    jobs = acquire(alias, strategy=strategy, categories=("urgent", "default", "bulk"))
    assert [job.id for job in jobs] == [high, old, *made["urgent"], *made["default"]]


def test_in_strict_order_a_category_waits_for_those_before_it(alias, strategy, frozen):
    scope = {"categories": ("urgent", "default", "bulk"), "category_order": "strict", "strategy": strategy}
    bulk = [make_job(alias, category="bulk", priority=100).pk for _ in range(2)]
    frozen.tick(1)
    made = fill(alias, default=3, urgent=2)
    late = make_job(alias, category="urgent", priority=1).pk
    first = [job.id for job in acquire(alias, limit=4, **scope)]
    assert first == [late, *made["urgent"], made["default"][0]], "by rank within a category"
    urgent = make_job(alias, category="urgent").pk
    assert [job.id for job in acquire(alias, limit=2, **scope)] == [urgent, made["default"][1]]
    assert [job.id for job in acquire(alias, limit=9, **scope)] == [made["default"][2], *bulk]


def test_strict_order_is_that_of_the_scope_over_all_deployments(alias, strategy):
    served = {"categories": ("bulk", "urgent"), "deployments": ("shop:1",), "strategy": strategy}
    first = make_job(alias, category="urgent", deployment_id="shop:1").pk
    second = make_job(alias, category="bulk", deployment_id="shop:1").pk
    third = make_job(alias, category="bulk").pk
    jobs = acquire(alias, category_order="strict", **served)
    assert [job.id for job in jobs] == [second, third, first]


def test_in_strict_order_nothing_is_locked_beyond_the_page(alias, strategy):
    fill(alias, urgent=3, default=3)
    scope = {"categories": ("urgent", "default"), "category_order": "strict", "strategy": strategy}
    assert got(alias, 3, **scope) == ["urgent"] * 3
    assert Job.objects.using(alias).filter(category="default", lock_owner=None).count() == 3


@pytest.mark.gate
@pytest.mark.parametrize("limit", [1, 7, 40])
def test_by_weights_each_has_its_share_whatever_the_size_of_a_page(alias, strategy, limit):
    """Also of pages of one job: what a category is owed is carried over."""
    fill(alias, bulk=40, default=40, urgent=40)
    turns = Turns({"urgent": 5, "default": 2, "bulk": 1})
    scope = {"categories": ("urgent", "default", "bulk"), "category_order": "weighted", "turns": turns}
    order = []
    while len(order) < 40:
        order += got(alias, min(limit, 40 - len(order)), strategy=strategy, **scope)
    assert Counter(order) == {"urgent": 25, "default": 10, "bulk": 5}
    for start in range(0, 40, 8):
        assert Counter(order[start : start + 8]) == {"urgent": 5, "default": 2, "bulk": 1}, "evenly spread"


def test_by_weights_jobs_of_one_category_go_by_rank(alias, strategy):
    made = fill(alias, urgent=3, default=3)
    high = make_job(alias, category="default", priority=1).pk
    scope = {"categories": ("urgent", "default"), "category_order": "weighted", "strategy": strategy}
    jobs = acquire(alias, **scope)
    assert [job.id for job in jobs if job.category == "default"] == [high, *made["default"]]
    assert [job.category for job in jobs[:4]] == ["urgent", "default"] * 2, "without weights they take equal turns"


def test_by_weights_nobody_waits_for_a_category_that_is_empty(alias, strategy):
    fill(alias, bulk=6)
    turns = Turns({"urgent": 100, "bulk": 1})
    scope = {"categories": ("urgent", "bulk"), "category_order": "weighted", "turns": turns, "strategy": strategy}
    assert got(alias, 4, **scope) == ["bulk"] * 4
    fill(alias, urgent=2)
    assert got(alias, 4, **scope) == ["urgent", "urgent", "bulk", "bulk"]


@pytest.mark.gate
@given(weights=weights, sizes=st.lists(st.integers(0, 30), min_size=3, max_size=3), limits=st.lists(st.integers(1, 9)))
@limits(max_examples=200, deadline=None)
def test_turns_take_everything_once_in_order(weights, sizes, limits):
    found = {name: [(name, number) for number in range(size)] for name, size in zip(NAMES, sizes, strict=True)}
    found = {name: jobs for name, jobs in found.items() if name in weights}
    total, turns, seen = sum(map(len, found.values())), Turns(weights), []
    for limit in [*limits, total]:
        rest = {name: [job for job in jobs if job not in seen] for name, jobs in found.items()}
        page = turns.merge(rest, limit)
        assert len(page) == min(limit, total - len(seen))
        seen += page
    assert len(set(seen)) == len(seen) == total
    for name, jobs in found.items():
        assert [job for job in seen if job[0] == name] == jobs


@pytest.mark.gate
@given(weights=weights, limit=st.integers(1, 9))
@limits(max_examples=200, deadline=None)
def test_while_all_have_jobs_a_round_gives_each_exactly_its_weight(weights, limit):
    turns, order, length = Turns(weights), [], sum(weights.values())
    while len(order) < 5 * length:
        order += turns.merge({name: [name] * limit for name in weights}, limit)
    for start in range(0, 5 * length, length):
        assert Counter(order[start : start + length]) == weights
