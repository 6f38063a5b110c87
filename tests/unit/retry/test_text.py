"""The text form of retry plans: it round-trips, and every bad plan says why it is bad."""

import traceback
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobexec.exceptions import InvalidRetryPlan
from jobexec.retry import LONGEST, MAX_TEXT_LENGTH, UNLIMITED, RetryPlan

SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=n) for n in (1, 60, 3600, 86400))

attempts = st.integers(min_value=1, max_value=UNLIMITED)
lengths = st.timedeltas(min_value=timedelta(0), max_value=LONGEST)
calendar = st.builds(
    lambda years, months, days: f"P{years}Y{months}M{days}D",
    *(st.integers(min_value=0, max_value=24) for _ in range(3)),
)


# -- round trips -----------------------------------------------------------------------------------------------


@settings(deadline=None)  # a busy machine is no failure
@given(attempts, st.one_of(lengths, calendar))
def test_one_interval_round_trips(count, interval):
    plan = RetryPlan(count, RetryPlan.parse([interval]).intervals)
    assert RetryPlan.parse(str(plan)) == plan


@settings(deadline=None)  # a busy machine is no failure
@given(st.lists(st.one_of(lengths, calendar), min_size=1, max_size=6))
def test_a_list_round_trips(intervals):
    plan = RetryPlan.parse(intervals)
    again = RetryPlan.parse(str(plan))
    assert again == plan
    assert str(again) == str(plan)
    assert hash(again) == hash(plan)


@pytest.mark.gate
@settings(deadline=None)  # a busy machine is no failure
@given(
    attempts,
    lengths.filter(bool),
    lengths,
    st.floats(min_value=1, max_value=1e300),
    st.floats(min_value=0, max_value=1),
)
def test_an_exponential_plan_round_trips(count, first, more, factor, jitter):
    maximum = min(first + more, LONGEST)
    plan = RetryPlan.exponential(count, first, factor=factor, maximum=maximum, jitter=jitter)
    assert RetryPlan.parse(str(plan)) == plan


@pytest.mark.parametrize(
    ("given_text", "written"),
    [
        ("PT300S", "R2/PT5M"),
        ("R/PT90S", "R/PT1M30S"),
        ("PT60S,P1DT25H", "PT1M,P2DT1H"),
        ("R3/P14M", "R3/P14M"),
        ("R8/PT10S*2", "R8/PT10S*2..P1D~0.1"),
        ("PT0S", "R2/PT0S"),
    ],
)
def test_how_a_plan_is_written(given_text, written):
    assert str(RetryPlan.parse(given_text)) == written


# -- bad plans -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("R0/PT5M", "at least 1"),
        ("R99999999999/PT5M", "2147483647"),
        ("R" + "9" * 200 + "/PT5M", "2147483647"),
        ("R-1/PT5M", "ISO 8601"),
        ("", "ISO 8601"),
        ("soon", "ISO 8601"),
        ("5", "ISO 8601"),
        ("PT", "ISO 8601"),
        ("P", "ISO 8601"),
        ("PT5", "ISO 8601"),
        ("P0.5M", "ISO 8601"),
        ("P0003-06-04T12:30:05", "ISO 8601"),
        ("R5/", "ISO 8601"),
        ("R5/2026-01-01T00:00Z/PT5M", "ISO 8601"),
        ("R\u0663/PT5M", "ISO 8601"),
        ("PT5M;PT6M", "ISO 8601"),
        ("PT5M,", "ISO 8601"),
        ("${retry}", "ISO 8601"),
        ("-PT5M", "negative"),
        ("R3/-PT5M", "negative"),
        ("PT1M,-PT5M", "negative"),
        ("P101Y", "century"),
        ("PT" + "9" * 100 + "H", "century|computed"),
        ("P" + "9" * 100 + "Y", "century|computed"),
        ("R5/PT1M,PT2M", "a list of intervals takes no R"),
        ("PT10S*2", "must begin with R"),
        ("R5/PT10S*0.5", "factor"),
        ("R5/PT10S*2~2", "jitter"),
        ("R5/PT10S*2..PT1S", "at most the maximum"),
        ("R5/PT0S*2", "longer than 0"),
        ("R5/P1M*2", "months or years"),
        ("R5/PT10S*", "ISO 8601"),
        (",".join(["PT1M"] * 60), "longer than 255"),
        ([], "at least one interval"),
        ([5], "neither a timedelta nor a string"),
        ([-MINUTE], "negative"),
        ([MINUTE] * 100, "longer than 255"),
        (["PT1M,PT2M"], "ISO 8601"),
        (None, "a list of durations, or a callable"),
        (5, "a list of durations, or a callable"),
        ({"attempts": 3}, "a list of durations, or a callable"),
    ],
)
def test_a_bad_plan_is_named_and_says_what_was_expected(bad, message):
    with pytest.raises(InvalidRetryPlan, match=message) as raised:
        RetryPlan.parse(bad)
    assert repr(bad) in str(raised.value)
    assert "R5/PT5M" in str(raised.value)


@pytest.mark.parametrize("bad", ["R5/5 minutes", [-MINUTE]])
def test_a_bad_plan_is_a_short_error(bad):
    with pytest.raises(InvalidRetryPlan) as raised:
        RetryPlan.parse(bad)
    assert "".join(traceback.format_exception(raised.value)).count("Traceback") == 1, "without what was caught"


@pytest.mark.gate
@settings(deadline=None)  # a busy machine is no failure
@given(st.text(max_size=40) | st.from_regex(r"R?[0-9]{0,3}/?P?[0-9TMHSDY.,*~/-]{0,20}", fullmatch=True))
def test_any_text_is_a_plan_or_an_invalid_plan(text):
    try:
        plan = RetryPlan.parse(text)
    except InvalidRetryPlan:
        return
    assert RetryPlan.parse(str(plan)) == plan
    assert plan.delay(1, now=datetime(2026, 1, 1, tzinfo=UTC)) >= timedelta(0)


@pytest.mark.parametrize(
    "arguments",
    [
        (True, (MINUTE,)),
        (2.0, (MINUTE,)),
        (UNLIMITED + 1, (MINUTE,)),
        (7, (MINUTE, HOUR)),
        (3, ()),
        (3, (), None, "no function"),
    ],
)
def test_a_plan_made_by_hand_is_checked_too(arguments):
    with pytest.raises(InvalidRetryPlan):
        RetryPlan(*arguments)


def test_every_written_plan_fits_its_column():
    longest = RetryPlan.parse([LONGEST - timedelta(microseconds=1)] * 9)
    assert len(str(longest)) <= MAX_TEXT_LENGTH
