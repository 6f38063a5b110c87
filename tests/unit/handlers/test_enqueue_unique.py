"""The options of unique jobs, and the keys of calls."""

import datetime as dt

import pytest

from jobexec import job
from jobexec.clock import FrozenClock
from jobexec.exceptions import DuplicateJob, InvalidJob
from jobexec.handlers import registry
from jobexec.handlers.keys import by_arguments
from jobexec.models import Job, JobKey

pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture(autouse=True)
def isolated():
    with registry.isolated():
        yield


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unique": None}, "unique: expected True, a string or a function of the arguments, got None"),
        ({"unique": 1}, "unique: expected True, a string"),
        ({"unique": ""}, "unique: expected a string of 1 to 255 characters, got ''"),
        ({"unique": "k" * 256}, "unique: expected a string of 1 to 255 characters, got 'kkk"),
        ({"unique": "a\x00"}, "unique: the character U.0000 cannot be stored"),
        ({"unique": "a "}, "unique: expected a string that does not end with a space, got 'a '"),
        (
            {"unique": True, "unique_while": "running"},
            "unique_while: expected one of waiting, active, existing, got 'r",
        ),
        (
            {"unique": True, "on_conflict": ["raise"]},
            "on_conflict: expected one of return, ignore, replace, raise, got",
        ),
        (
            {"unique": True, "unique_for": -1},
            "unique_for: expected a timedelta, a number of seconds",
        ),
        ({"unique_while": "active"}, "unique_while: only valid with the option unique, which is not given"),
        ({"unique_for": 5}, "unique_for: only valid with the option unique"),
        ({"on_conflict": "raise"}, "on_conflict: only valid with the option unique"),
        ({"transaction": 5}, "transaction: expected a string"),
    ],
)
def test_wrong_options_are_refused_by_decorator_and_using(options, message):
    plain = job(name="plain")(lambda: None)
    for refused in (lambda: plain.using(**options), lambda: job(name="other", **options)(lambda: None)):
        with pytest.raises(InvalidJob, match=message):
            refused()


def test_options_of_the_decorator_and_of_the_call_belong_together():
    handler = job(name="h", unique=True)(lambda: None)
    assert handler.using(on_conflict="raise").options["unique"] is True
    off = handler.using(on_conflict="raise").using(unique=False)
    assert off.options == {"unique": False, "on_conflict": "raise"}


def key(function, *args, **kwargs):
    return by_arguments(job(name=repr(function))(function).arguments, args, kwargs)


def test_a_key_by_arguments_is_of_what_the_function_gets():
    @job(name="f", takes_context=True)
    def f(context, first, second=2, *rest, third=(1, 2), **more):
        pass

    def of(*args, **kwargs):
        return by_arguments(f.arguments, args, kwargs)

    assert len(of(1)) == 64
    assert of(1) == of(first=1) == of(1, 2) == of(1, third=[1, 2]) == of(second=2, first=1)
    assert of(1, a=1, b=2) == of(1, b=2, a=1) != of(1, a=1)
    assert of({"a": 1, "b": {"c": 2}}) == of({"b": {"c": 2}, "a": 1})
    assert of({1: 2}) == of({"1": 2}), "as the row has it"
    assert of(dt.date(2026, 3, 1)) == of("2026-03-01"), "the same"
    different = [of(1), of("1"), of(1.0), of(True), of(None), of([1]), of(1, 3), of(1, 2, 3), of(1, first_=1), of({})]
    assert len(set(different)) == len(different)


def test_defaults_that_are_no_json_are_left_out():
    one, other = object(), object()
    assert key(lambda a, b=one: None, 1) == key(lambda a, b=other: None, 1)


@pytest.mark.gate
def test_arguments_too_deep_are_refused(alias):
    handler = job(name="deep", unique=True)(lambda value: None)
    value = []
    for _ in range(150):
        value = [value]
    handler.enqueue(value)
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InvalidJob):
        handler.enqueue(value)
    assert Job.objects.count() == 1


def test_sensitive_arguments_need_the_secret_to_be_found_by_their_key(settings):
    secret = job(name="s", sensitive=("pin",))(lambda pin: None).arguments
    plain = job(name="p")(lambda pin: None).arguments
    nested = by_arguments(plain, (), {"pin": {"password": "abcd"}})
    before = [by_arguments(arguments, (1234,), {}) for arguments in (secret, plain)]
    assert by_arguments(secret, (1235,), {}) != before[0] != before[1]
    settings.SECRET_KEY = "another"
    after = [by_arguments(arguments, (1234,), {}) for arguments in (secret, plain)]
    assert (before[0] != after[0], before[1] == after[1]) == (True, True)
    assert nested != by_arguments(plain, (), {"pin": {"password": "abcd"}})


def test_a_callable_gets_the_arguments_and_not_the_context(alias):
    handler = job(name="c", unique=lambda order, **more: f"order-{order}-{sorted(more)}")(
        lambda context, order, **more: None
    )
    handler.enqueue(5, note="x")
    handler.enqueue(order=6)
    assert set(JobKey.objects.values_list("key", flat=True)) == {"order-5-['note']", "order-6-[]"}


@pytest.mark.parametrize("value", [None, 5, "", "x" * 256, b"x", "x "])
def test_what_is_no_key_is_refused(alias, value):
    handler = job(name="c", unique=lambda: value)(lambda: None)
    with pytest.raises(InvalidJob, match=r"^c: unique: what <function .* returned: expected a string"):
        handler.enqueue()
    with pytest.raises(InvalidJob, match=r"^Call 1 of enqueue_many: c: unique: what"):
        handler.enqueue_many([()])
    assert not Job.objects.exists()


def test_arguments_are_checked_before_the_key_is_made(alias):
    handler = job(name="c", unique=lambda number: 1 / 0)(lambda number: None)
    with pytest.raises(InvalidJob, match="missing a required argument"):
        handler.enqueue()
    with pytest.raises(ZeroDivisionError):
        handler.enqueue(1)


def test_a_time_past_the_end_of_all_times_is_refused(alias):
    handler = job(name="c", unique=True)(lambda: None)
    with FrozenClock(), pytest.raises(InvalidJob, match=r"unique_for: .* is past the year 9999"):
        handler.using(unique_for=dt.timedelta.max).enqueue()
    assert not JobKey.objects.exists()


def test_the_error_can_be_pickled():
    import pickle
    from uuid import uuid4

    error = DuplicateJob("handler", "key", uuid4())
    again = pickle.loads(pickle.dumps(error))
    assert (again.handler_type, again.key, again.job_id, str(again)) == ("handler", "key", error.job_id, str(error))
