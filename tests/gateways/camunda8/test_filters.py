"""Camunda 8 REST: the patterns of searches, which anybody may make up."""

import pytest

from jobexec.gateways.rest.camunda8.contract import Property
from jobexec.gateways.rest.camunda8.filters import filter_of
from jobexec.gateways.rest.camunda8.problems import Refused
from jobexec.gateways.rest.camunda8.values import KEY, TEXT


def finds(pattern, text):
    asked = filter_of({"type": {"$like": pattern}}, {"type": Property(TEXT, str)})
    return asked.matches({"type": text})


@pytest.mark.parametrize(
    ("pattern", "found", "passed_over"),
    [
        ("pay", "pay", "pays"),
        ("p?y", "pay", "py"),
        ("pay*", "pay", "a pay"),
        ("*-*-*", "a-b-c", "a-b"),
        ("a*b*a", "abba", "aba-"),
        ("*ab*ab", "abab", "ab"),
        ("*", "", None),
        ("", "", "a"),
        (r"\*a\?", "*a?", "xab"),
        ("a*c", "a\nc", "a\n"),
    ],
)
def test_stars_and_question_marks(pattern, found, passed_over):
    assert finds(pattern, found)
    assert not finds(pattern, passed_over)


def test_no_pattern_takes_for_ever():
    """With one that tries all places for each of its stars this test does not end."""
    assert not finds("*a" * 30 + "*b", "a" * 4000)


def test_a_pattern_is_not_endless():
    with pytest.raises(Refused, match=r"filter.type.\$like: expected at most 1000 characters"):
        finds("a" * 1001, "a")


def test_keys_are_compared_as_numbers():
    asked = filter_of({"jobKey": {"$gt": "9", "$lte": 100}}, {"jobKey": Property(KEY, str)})
    assert [key for key in ("9", "10", "100", "101") if asked.matches({"jobKey": key})] == ["10", "100"]
