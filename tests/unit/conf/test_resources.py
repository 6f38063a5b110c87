"""What RESOURCES says of a resource, and which entry covers a name."""

from datetime import timedelta

import pytest

from jobexec import conf
from jobexec.conf.resources import PROFILES, Rate, breaker, rate, resources


def test_its_own_entry_and_otherwise_the_longest_that_fits():
    known = resources({name: {"limit": 1} for name in ("pay", "customer:*", "customer:big", "customer:b*")})
    covering = {name: known.covering(name) for name in ("pay", "pa", "customer:1", "customer:big", "customer:bob")}
    assert covering == {
        "pay": "pay",
        "pa": None,
        "customer:1": "customer:*",
        "customer:big": "customer:big",
        "customer:bob": "customer:b*",
    }
    assert known.covering("customer:") is None  # whose?
    assert resources({"*": {"limit": 1}}).covering("anything") == "*"


def test_a_rate_is_spread():
    assert rate("100/PT1M") == Rate(100, timedelta(minutes=1), 1)
    assert rate("100/PT1M").interval == timedelta(seconds=0.6)
    assert str(rate("100/PT1M")) == "100/PT1M"


@pytest.mark.parametrize(("text", "burst"), [("1/P1D", 1), ("600/PT1M", 1), ("6000/PT1M", 10), ("50/PT0.05S", 50)])
def test_its_burst_is_what_accrues_in_a_tenth_of_a_second(text, burst):
    assert rate(text).burst == burst


def test_the_interval_is_rounded_up():
    assert rate("3/PT1S").interval == timedelta(microseconds=333_334)


def test_profiles_of_breakers():
    assert breaker("external_api") is PROFILES["external_api"]
    changed = breaker({"profile": "critical", "wait": "PT5M", "counts": ["requests.Timeout"]})
    assert (changed.failure_rate, changed.window, changed.wait) == (75, 200, timedelta(minutes=5))
    assert changed.counts == ("requests.Timeout",)
    assert breaker({}) == PROFILES["default"]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"pay": {"limit": 0}}, "a dict in which 'pay' is a dict in which 'limit' is a whole number from 1 to 1000000"),
        ({"pay": {"rate": "5"}}, "a dict in which 'pay' is a dict in which 'rate' is a number of jobs and an ISO 8601"),
        ({"pay": {"breaker": "x"}}, "'breaker' is one of 'default', 'fast', 'critical', 'external_api', 'claim_path'"),
        ({"a*b": {"limit": 1}}, "keys have 1 to 255 printable characters, '*' only at the end, without 'a*b'"),
    ],
)
def test_what_is_wrong_is_named(raw, said):
    (problem,) = conf.problems({"RESOURCES": raw})
    assert problem.setting == "JOBEXEC['RESOURCES']"
    assert said in problem.message
