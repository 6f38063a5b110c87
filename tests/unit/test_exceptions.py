"""The tree of exceptions: messages, ancestry, and what handlers raise to steer their retries."""

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.core.exceptions import ImproperlyConfigured

from jobexec import exceptions
from jobexec.exceptions import DuplicateJob, InvalidRetryPlan, JobExecError, RetryAt, RetryIn

ALL = [
    value
    for value in vars(exceptions).values()
    if isinstance(value, type) and issubclass(value, JobExecError) and value not in (DuplicateJob, RetryIn, RetryAt)
]


@pytest.mark.parametrize("cls", ALL)
def test_without_arguments_the_docstring_is_the_message(cls):
    message = str(cls())
    assert message.endswith(".")
    assert "\n" not in message
    assert " ".join(cls.__doc__.split()).startswith(message)


def test_a_subclass_without_docstring_has_the_message_of_its_ancestor():
    class Mine(exceptions.LockLost):
        pass

    assert str(Mine()) == str(exceptions.LockLost())


def test_a_given_message_wins():
    assert str(exceptions.JobLocked("busy")) == "busy"


@pytest.mark.parametrize(
    ("cls", "ancestor"),
    [
        (exceptions.InvalidSettings, ImproperlyConfigured),
        (exceptions.InvalidJob, ValueError),
        (exceptions.InvalidRetryPlan, ValueError),
        (exceptions.HandlerNotFound, LookupError),
        (exceptions.JobNotFound, LookupError),
    ],
)
def test_they_can_be_caught_as_what_they_are_in_python(cls, ancestor):
    assert issubclass(cls, ancestor)


@pytest.mark.parametrize(
    ("given", "delay"),
    [
        (90, timedelta(seconds=90)),
        (0.5, timedelta(seconds=0.5)),
        (timedelta(hours=1), timedelta(hours=1)),
        (0, timedelta(0)),
    ],
)
def test_retry_in_takes_seconds_or_a_timedelta(given, delay):
    assert RetryIn(given).delay == delay


@pytest.mark.parametrize("bad", [-1, timedelta(seconds=-1), True, "PT5M", None, float("nan"), float("inf"), 1e300])
def test_retry_in_refuses_what_is_no_delay(bad):
    with pytest.raises(InvalidRetryPlan, match="RetryIn expects"):
        RetryIn(bad)


def test_retry_at_keeps_an_aware_datetime():
    when = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert RetryAt(when).when == datetime(2026, 1, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize("bad", [datetime(2026, 1, 1), "2026-01-01T00:00Z", None])
def test_retry_at_refuses_what_is_no_aware_datetime(bad):
    with pytest.raises(InvalidRetryPlan, match="aware datetime"):
        RetryAt(bad)


def test_the_reason_is_the_message():
    assert str(RetryIn(5, "the hotel does not answer")) == "the hotel does not answer"
    assert str(RetryIn(5)) == "Try again in 0:00:05."


def test_they_survive_pickling():
    error = pickle.loads(pickle.dumps(RetryIn(5, "later")))
    assert (error.delay, error.reason, str(error)) == (timedelta(seconds=5), "later", "later")
    when = datetime(2026, 1, 1, tzinfo=UTC)
    assert pickle.loads(pickle.dumps(RetryAt(when))).when == when
