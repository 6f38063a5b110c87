"""Categories in strict order and by weights, by a whole executor with one thread."""

from collections import Counter

import pytest

from jobexec.executor.process.banner import banner
from tests.support.executor import all_gone
from tests.support.factories import make_job
from tests.support.waiting import until

pytestmark = pytest.mark.transactional

ONE_BY_ONE = {"MAX_JOBS_PER_ACQUISITION": 1}


@pytest.fixture
def run(alias, make_executor, configure, handle):
    """A function that runs six jobs of each category and returns their categories in the order of execution."""

    def start(**keys):
        ran = []
        handle(ran.append, name="tests.note")
        configure(ONE_BY_ONE, **keys)
        for category in ["bulk", "default", "mail"] * 6:
            arguments = {"args": [category], "kwargs": {}}
            make_job(alias, handler_type="tests.note", category=category, handler_configuration=arguments)
        executor = make_executor(ONE_BY_ONE, THREADS=1, QUEUE_SIZE=1, **keys)
        executor.start()
        until(lambda: len(ran) == 18 and all_gone(alias))
        return executor, ran

    return start


@pytest.mark.gate
def test_in_strict_order(run):
    executor, ran = run(CATEGORIES=["mail", "default", "bulk"], CATEGORY_ORDER="strict")
    assert ran == ["mail"] * 6 + ["default"] * 6 + ["bulk"] * 6
    assert "categories: mail before default before bulk;" in list(banner(executor))[2]


@pytest.mark.gate
def test_by_weights(run):
    executor, ran = run(CATEGORIES={"mail": 3, "default": 2, "bulk": 1}, CATEGORY_ORDER="weighted")
    for start in (0, 6):
        assert Counter(ran[start : start + 6]) == {"mail": 3, "default": 2, "bulk": 1}
    assert "categories: mail (weight 3), default (weight 2), bulk (weight 1);" in list(banner(executor))[2]


def test_by_rank(run):
    executor, ran = run(CATEGORIES=["mail", "default", "bulk"])
    assert ran == ["bulk", "default", "mail"] * 6
    assert "categories: mail, default, bulk;" in list(banner(executor))[2]
