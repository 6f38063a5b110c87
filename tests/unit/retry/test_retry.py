"""Retry plans: what each form means, when the next attempt is due, and the default."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings
from hypothesis import given, settings
from hypothesis import strategies as st

from jobexec import clock
from jobexec.exceptions import DoNotRetry, InvalidRetryPlan
from jobexec.retry import LONGEST, UNLIMITED, RetryPlan, default_plan

SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=n) for n in (1, 60, 3600, 86400))


@pytest.mark.parametrize(
    ("text", "count", "delays"),
    [
        ("R5/PT5M", 5, [5 * MINUTE] * 6),
        ("R1/PT5M", 1, [5 * MINUTE]),
        ("R/PT5M", UNLIMITED, [5 * MINUTE] * 3),
        ("R2147483647/PT5M", UNLIMITED, [5 * MINUTE]),
        ("PT5M", 2, [5 * MINUTE] * 2),
        (" R5/PT5M ", 5, [5 * MINUTE]),
        ("PT1M,PT10M,PT1H", 4, [MINUTE, 10 * MINUTE, HOUR, HOUR, HOUR]),
        ("PT1M, PT10M", 3, [MINUTE, 10 * MINUTE]),
        ("PT0,5S,PT1.5S", 3, [SECOND / 2, 1.5 * SECOND]),
        ("P2W", 2, [14 * DAY]),
        ("P1DT2H", 2, [26 * HOUR]),
        ("PT0S", 2, [timedelta(0)]),
        ("R5/PT1S*3..PT10S~0", 5, [SECOND, 3 * SECOND, 9 * SECOND, 10 * SECOND, 10 * SECOND]),
    ],
)
def test_the_text_forms(text, count, delays):
    plan = RetryPlan.parse(text)
    assert plan.attempts == count
    assert [plan.delay(failures) for failures in range(1, len(delays) + 1)] == delays


def test_a_list_of_texts_and_timedeltas_is_the_same_as_the_text():
    assert RetryPlan.parse([MINUTE, "PT10M", HOUR]) == RetryPlan.parse("PT1M,PT10M,PT1H")
    assert RetryPlan.parse(("PT5M",)) == RetryPlan.parse("R2/PT5M") == RetryPlan.parse("PT5M")


def test_a_plan_is_a_plan_already():
    plan = RetryPlan.parse("R5/PT5M")
    assert RetryPlan.parse(plan) is plan


def test_a_number_of_failures_below_one_counts_as_the_first():
    assert RetryPlan.parse("PT1M,PT10M").delay(0) == MINUTE


@pytest.mark.parametrize(
    ("text", "now", "due"),
    [
        ("P1M", datetime(2026, 1, 31, 8, tzinfo=UTC), datetime(2026, 2, 28, 8, tzinfo=UTC)),
        ("P1M", datetime(2026, 12, 15, tzinfo=UTC), datetime(2027, 1, 15, tzinfo=UTC)),
        ("P1Y", datetime(2028, 2, 29, tzinfo=UTC), datetime(2029, 2, 28, tzinfo=UTC)),
        ("P1M1DT1H", datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 2, 1, tzinfo=UTC)),
    ],
)
def test_months_and_years_follow_the_calendar(text, now, due):
    assert RetryPlan.parse(text).next_due_date(now, 1) == due
    assert RetryPlan.parse(text).delay(1, now=now) == due - now


def test_without_now_the_calendar_starts_at_the_clocks_time():
    with clock.FrozenClock(datetime(2026, 2, 1, tzinfo=UTC)):
        assert RetryPlan.parse("P1M").delay(1) == 28 * DAY


def test_the_due_date_is_now_plus_the_delay():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert RetryPlan.parse("PT1M,PT10M").next_due_date(now, 2) == now + 10 * MINUTE


# -- exponential -----------------------------------------------------------------------------------------------


@settings(deadline=None)  # a busy machine is no failure
@given(st.integers(min_value=1, max_value=10**6), st.floats(min_value=1, max_value=100))
def test_an_exponential_delay_stays_between_its_bounds(failures, factor):
    plan = RetryPlan.exponential(9, SECOND, factor=factor, maximum=HOUR, jitter=0.25)
    assert 0.75 * SECOND <= plan.delay(failures) <= HOUR


def test_jitter_spreads_and_only_shortens():
    plan = RetryPlan.exponential(5, 10, maximum=10, jitter=0.5)
    delays = {plan.delay(1) for _ in range(50)}
    assert len(delays) > 1
    assert 5 * SECOND <= min(delays) <= max(delays) <= 10 * SECOND


def test_exponential_takes_timedeltas_seconds_and_texts():
    plans = {RetryPlan.exponential(3, first, maximum="PT1H") for first in (MINUTE, 60, 60.0, "PT1M")}
    assert plans == {RetryPlan.parse("R3/PT1M*2..PT1H~0.1")}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first": 0}, "longer than 0"),
        ({"first": -5}, "negative"),
        ({"first": "P1M"}, "months or years"),
        ({"first": "soon"}, "not an ISO 8601 duration"),
        ({"first": True}, "neither a timedelta nor"),
        ({"first": float("nan")}, "neither a timedelta nor"),
        ({"first": 1e300}, "century"),
        ({"maximum": 1}, "at most the maximum"),
        ({"factor": 0.5}, "factor"),
        ({"factor": float("inf")}, "factor"),
        ({"factor": "two"}, "two"),
        ({"jitter": 1.5}, "jitter"),
        ({"jitter": float("nan")}, "jitter"),
        ({"attempts": 0}, "attempts"),
    ],
)
def test_a_bad_exponential_plan_says_why(options, message):
    with pytest.raises(InvalidRetryPlan, match=message):
        RetryPlan.exponential(**{"attempts": 3, "first": 10, **options})


# -- callables -------------------------------------------------------------------------------------------------


def test_a_callable_is_asked_with_failures_and_error():
    error, asked = OSError("down"), []
    plan = RetryPlan.parse(lambda failures, error: asked.append((failures, error)) or 7)
    assert plan.attempts == 3
    assert plan.delay(2, error) == 7 * SECOND
    assert asked == [(2, error)]
    assert str(plan) == ""


def test_the_attempts_of_a_callable():
    def stubborn(failures, error):
        return MINUTE

    stubborn.attempts = 12
    assert RetryPlan.parse(stubborn).attempts == 12
    assert RetryPlan.from_callable(stubborn, attempts=4).attempts == 4
    stubborn.attempts = 0
    with pytest.raises(InvalidRetryPlan, match="attempts"):
        RetryPlan.parse(stubborn)


def test_none_from_a_callable_means_do_not_retry():
    with pytest.raises(DoNotRetry):
        RetryPlan.parse(lambda failures, error: None).delay(1)


def test_do_not_retry_from_a_callable_passes():
    def give_up(failures, error):
        raise DoNotRetry("hopeless")

    with pytest.raises(DoNotRetry, match="hopeless"):
        RetryPlan.parse(give_up).next_due_date(datetime(2026, 1, 1, tzinfo=UTC), 1)


@pytest.mark.parametrize("answer", ["soon", -1, True, float("inf"), [], timedelta(days=-1), LONGEST * 2])
def test_a_senseless_answer_of_a_callable_is_an_invalid_plan(answer):
    with pytest.raises(InvalidRetryPlan, match="failed after failure 1"):
        RetryPlan.parse(lambda failures, error: answer).delay(1)


def test_an_error_in_a_callable_is_an_invalid_plan_with_its_cause():
    with pytest.raises(InvalidRetryPlan) as raised:
        RetryPlan.parse(lambda failures, error: 1 / 0).delay(1)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


# -- the default -----------------------------------------------------------------------------------------------


def test_the_default_plan_comes_from_the_settings():
    assert default_plan() == RetryPlan.parse("R3/PT10S")
    with override_settings(JOBEXEC={"DEFAULT_RETRY_PLAN": ["PT1M", HOUR]}):
        assert default_plan() == RetryPlan.parse("PT1M,PT1H")
    with override_settings(JOBEXEC={"DEFAULT_RETRY_PLAN": "never"}), pytest.raises(InvalidRetryPlan, match="never"):
        default_plan()
