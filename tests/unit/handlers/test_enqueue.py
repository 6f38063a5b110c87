"""Enqueueing: options and arguments are checked before anything is written, then become columns."""

import datetime as dt
import inspect
import traceback
from decimal import Decimal
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.utils.translation import gettext_lazy

from jobexec import job
from jobexec.clock import FrozenClock
from jobexec.exceptions import InvalidJob
from jobexec.handlers import registry
from jobexec.models import Job, TimerJob
from jobexec.retry import RetryPlan

pytestmark = pytest.mark.databases("sqlite")
NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
BEYOND = dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-1)))


@pytest.fixture(autouse=True)
def frozen():
    with registry.isolated(), FrozenClock(NOW) as clock:
        yield clock


@pytest.fixture
def add():
    return job(name="add")(lambda first, second=2, *rest, third=3, **more: None)


@pytest.fixture
def strict():
    @job(name="strict", priority=1, retries="R5/PT1M")
    def strict(context, number, text=""):
        pass

    return strict


def stored():
    return Job.objects.get()


def test_the_row_as_saved(alias, strict):
    row = strict.enqueue(5, text="ä")
    assert (type(row), row.pk) == (Job, stored().pk)
    assert stored().handler_configuration == {"args": [5], "kwargs": {"text": "ä"}}
    assert (stored().handler_type, stored().job_definition_id) == ("strict", "strict")
    assert (stored().priority, stored().retries, stored().retry_plan) == (1, 5, "R5/PT1M")


def test_options_become_columns(alias, add):
    add.using(
        priority=7,
        category="default",
        retries=["PT1S", dt.timedelta(minutes=1)],
        exclusive=False,
        process_instance_id="order-1",
        root_process_instance_id="cart-1",
        process_definition_key="order",
        tenant_id="acme",
        correlation_id="request-1",
        atomic=True,
        timeout=90,
        headers={"a": [1]},
        database="default",
    ).enqueue(1)
    row = stored()
    assert (row.priority, row.category, row.retries, row.retry_plan) == (7, "default", 3, "PT1S,PT1M")
    assert (row.exclusive, row.process_instance_id, row.root_process_instance_id) == (False, "order-1", "cart-1")
    assert (row.process_definition_key, row.tenant_id, row.correlation_id) == ("order", "acme", "request-1")
    assert (row.atomic, row.timeout, row.custom_headers) == (True, dt.timedelta(seconds=90), {"a": [1]})


def test_using_changes_only_the_calls_through_it(alias, strict):
    other = strict.using(priority=9)
    assert (strict.options["priority"], other.options["priority"], other.name) == (1, 9, "strict")
    assert registry.get_handler("strict") is strict
    other.using(retries="R2/PT5S").enqueue(1)
    assert (stored().priority, stored().retries) == (9, 2)


@pytest.mark.parametrize(
    ("options", "due"),
    [
        ({"delay": 60}, NOW + dt.timedelta(seconds=60)),
        ({"delay": "PT5M"}, NOW + dt.timedelta(minutes=5)),
        ({"delay": 0.5}, NOW + dt.timedelta(seconds=0.5)),
        ({"delay": dt.timedelta(hours=1)}, NOW + dt.timedelta(hours=1)),
        ({"run_after": dt.timedelta(hours=1)}, NOW + dt.timedelta(hours=1)),
        ({"run_after": NOW + dt.timedelta(days=2)}, NOW + dt.timedelta(days=2)),
    ],
)
def test_later(alias, add, options, due):
    assert type(add.using(**options).enqueue(1)) is TimerJob
    assert TimerJob.objects.get().due_date == due


def test_delay_and_run_after_replace_each_other(alias, add):
    later = add.using(delay=60)
    assert later.using(run_after=NOW + dt.timedelta(days=1)).enqueue(1).due_date == NOW + dt.timedelta(days=1)
    assert later.using(run_after=NOW - dt.timedelta(days=1)).using(delay=5).enqueue(1).due_date.second == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prioritty": 1}, "Unknown option 'prioritty'. Did you mean 'priority'?"),
        ({"zzz": 1}, "Unknown option 'zzz'."),
        ({"countdown": 1}, "Unknown option 'countdown'. Did you mean 'delay'?"),
        ({"queue": "mail"}, "Unknown option 'queue'. Did you mean 'category'?"),
        ({"using": "other"}, "Unknown option 'using'. Did you mean 'database'?"),
        ({"backend": "other"}, "Unknown option 'backend'. Did you mean 'database'?"),
        ({"routing_key": "mail"}, "Unknown option 'routing_key'. Did you mean 'category'?"),
        ({"bind": True}, "Unknown option 'bind'. A function whose first parameter is called 'context'"),
        ({"acks_late": True}, "Unknown option 'acks_late'. It is always on"),
        ({"ignore_result": True}, "Unknown option 'ignore_result'. It is the default"),
        ({"base": object}, "Unknown option 'base'. A middleware runs around each job: see the setting MIDDLEWARE."),
        ({"link": None}, "Unknown option 'link'. A flow runs one job after another"),
        ({"task_id": "1"}, r"Unknown option 'task_id'. enqueue\(\) assigns the id of a job; the option 'unique'"),
        ({"headers": {"a": "x" * 2**20}}, "headers: expected at most 1,048,576 bytes .* got 1,048,585; store"),
        ({"priority": "high"}, "priority: expected a whole number, got 'high'"),
        ({"priority": True}, "priority: expected a whole number, got True"),
        ({"exclusive": 1}, "exclusive: expected True or False, got 1"),
        ({"atomic": "yes"}, "atomic: expected True or False"),
        ({"run_after": dt.datetime(2026, 1, 1)}, "run_after: expected a datetime with a time zone, got the naive"),
        ({"run_after": 5}, "run_after: expected an aware datetime or a timedelta, got 5"),
        ({"run_after": dt.date(2026, 1, 1)}, "run_after: expected an aware datetime"),
        ({"delay": -1}, "delay: expected a timedelta, a number of seconds"),
        ({"delay": dt.timedelta(-1)}, "delay: expected a timedelta, a number of seconds"),
        ({"delay": "1"}, "delay: expected"),
        ({"delay": "P1M"}, "delay: expected .* without months and years"),
        ({"delay": float("nan")}, "delay: expected"),
        ({"delay": float("inf")}, "delay: expected"),
        ({"timeout": 1e300}, "timeout: expected"),
        ({"timeout": True}, "timeout: expected"),
        ({"timeout": dt.timedelta.max}, "timeout: expected .* at least 0 and at most 36,525 days"),
        ({"expires": BEYOND}, "expires: expected a moment from the year 1 to 9999 in UTC"),
        ({"run_after": BEYOND}, "run_after: expected a moment from the year 1 to 9999 in UTC"),
        ({"delay": 1, "run_after": NOW}, "Expected either delay or run_after, got both"),
        ({"retries": "R5/5 minutes"}, "retries: Invalid retry plan 'R5/5 minutes'"),
        ({"retries": 5}, "retries: Invalid retry plan 5: .* For 5 attempts, 5 minutes apart: R5/PT5M."),
        ({"tenant_id": "t" * 65}, "tenant_id: expected a string of at most 64 characters"),
        ({"process_instance_id": 17}, "process_instance_id: expected a string of at most 255 characters, got 17"),
        ({"process_instance_id": "a\x00b"}, "process_instance_id: the character U.0000 cannot be stored"),
        ({"headers": {1: 2}}, "headers: expected a mapping with strings as keys"),
        ({"headers": {"a": object()}}, r"headers\['a'\]: expected JSON"),
    ],
)
def test_wrong_options_are_refused_by_decorator_and_using(alias, add, options, message):
    for refused in (lambda: add.using(**options), lambda: job(name="other", **options)(test_later)):
        with pytest.raises(InvalidJob, match=message.replace("?", "[?]")):
            refused()
    with pytest.raises(LookupError):
        registry.get_handler("other")


def test_an_argument_of_the_decorator_is_no_option_of_a_call(add):
    with pytest.raises(InvalidJob, match=r"'takes_context'. It applies to all calls .* @job\(takes_context=...\)"):
        add.using(takes_context=True)


def test_a_wrong_retry_plan_is_a_short_error(add):
    with pytest.raises(InvalidJob) as raised:
        add.using(retries="R5/5 minutes")
    assert "".join(traceback.format_exception(raised.value)).count("Traceback") == 1, "without what was caught"


def test_a_callable_plan_belongs_to_the_decorator(alias):
    handler = job(name="c", retries=RetryPlan.from_callable(lambda failures, error: 1, attempts=7))(lambda: None)
    handler.enqueue()
    assert (stored().retries, stored().retry_plan) == (7, "")
    with pytest.raises(InvalidJob, match="a callable plan cannot be stored with a job"):
        handler.using(retries=lambda failures, error: 5)


def test_unknown_categories_and_absurd_times_are_refused(alias, add):
    with pytest.raises(InvalidJob, match="category: expected one of default"):
        add.using(category="letters").enqueue(1)
    with pytest.raises(InvalidJob, match="delay: "):
        add.using(delay=dt.timedelta.max).enqueue(1)
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ([], {}, "strict: missing a required argument: 'number'"),
        ([1, "", 3], {}, "strict: too many positional arguments"),
        ([1], {"colour": 1}, "strict: got an unexpected keyword argument 'colour'"),
        ([1], {"context": 1}, "strict: got an unexpected keyword argument 'context'"),
        ([1], {"delay": 5}, r"'delay'\. Options of a job are not arguments: using\(delay=\.\.\.\)\.enqueue"),
        ([1], {"countdown": 5}, r"'countdown'\. Options of a job are not arguments: using\(delay=\.\.\.\)\.enqueue"),
        ([object()], {}, "strict: argument 'number': expected JSON, got <object"),
        ([{1, 2}], {}, "argument 'number': expected JSON"),
        ([b"bytes"], {}, "argument 'number': expected JSON"),
        ([float("nan")], {}, "argument 'number': expected JSON, got nan"),
        ([1], {"text": [float("inf")]}, r"argument 'text'\[0\]: expected JSON"),
        ([Group(name="g")], {}, "argument 'number': expected JSON, got the model instance .*; pass its primary key"),
        (["a\x00b"], {}, "argument 'number': the character U.0000 cannot be stored"),
        ([{"\x00": 1}], {}, "argument 'number': the character U.0000 cannot be stored"),
        (["half a pair \ud83d"], {}, "argument 'number': expected a string that is valid Unicode"),
        ([1], {"text": gettext_lazy("Monday")}, "argument 'text': expected JSON, got 'Monday' .it is a lazy string"),
        (["x" * 2**20], {}, "at most 1,048,576 bytes of JSON .setting ARGUMENTS_MAX_SIZE., got 1,048,604"),
        ([10**5000], {}, "argument 'number': expected JSON"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_written(alias, strict, args, kwargs, message):
    with pytest.raises(InvalidJob, match=message):
        strict.enqueue(*args, **kwargs)
    if not (args and kwargs):
        with pytest.raises(InvalidJob, match=message):
            strict.enqueue_many([(1,), args or kwargs])
    assert not Job.objects.exists()


def test_an_endless_argument_is_refused(alias, strict):
    endless = []
    endless.append(endless)
    with pytest.raises(InvalidJob, match="expected JSON"):
        strict.enqueue(endless)


@pytest.mark.parametrize(
    ("value", "back"),
    [
        ((1, 2), [1, 2]),
        (Decimal("1.10"), "1.10"),
        (dt.date(2026, 3, 1), "2026-03-01"),
        (NOW, "2026-03-01T12:00:00Z"),
        (dt.timedelta(minutes=1), "P0DT00H01M00S"),
        ({"a": {1: None}}, {"a": {"1": None}}),
        ("😀 \\u0000 \\\\u0000", "😀 \\u0000 \\\\u0000"),
        (2**70, 2**70),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    ],
)
def test_what_arguments_come_back_as(alias, strict, value, back):
    strict.enqueue(value)
    assert stored().handler_configuration["args"] == [back]


def test_enqueue_many(alias, strict):
    rows = strict.using(process_instance_id="p").enqueue_many(
        call for call in [(1,), [2, "b"], {"number": 3}, {"text": "d", "number": 4}]
    )
    assert [row.handler_configuration for row in rows] == [
        {"args": [1], "kwargs": {}},
        {"args": [2, "b"], "kwargs": {}},
        {"args": [], "kwargs": {"number": 3}},
        {"args": [], "kwargs": {"text": "d", "number": 4}},
    ]
    assert {row.process_instance_id for row in Job.objects.all()} == {"p"}
    assert strict.enqueue_many([]) == []


@pytest.mark.parametrize("call", [5, "ab", None, {1}])
def test_enqueue_many_says_what_a_call_is(alias, strict, call):
    with pytest.raises(InvalidJob, match="expected tuples of arguments or mappings of keyword arguments"):
        strict.enqueue_many([(1,), call])
    assert not Job.objects.exists()


@pytest.mark.transactional
def test_aenqueue(alias, strict):
    assert inspect.iscoroutinefunction(strict.aenqueue)
    row = async_to_sync(strict.aenqueue)(7, text="x")
    assert (row.pk, stored().handler_configuration) == (stored().pk, {"args": [7], "kwargs": {"text": "x"}})


def test_the_settings_give_the_defaults(alias, add, settings):
    settings.JOBEXEC = {"ATOMIC_JOBS": True, "DEFAULT_RETRY_PLAN": "R9/PT1M"}
    add.enqueue(1)
    assert (stored().atomic, stored().retries, stored().retry_plan) == (True, 9, "")
    assert add.using(atomic=False).enqueue(1).atomic is False


def test_what_was_prepared_follows_the_settings(alias, add, settings):
    before = add.enqueue(1)
    settings.JOBEXEC = {"ATOMIC_JOBS": True, "DEFAULT_RETRY_PLAN": "R9/PT1M", "DEPLOYMENT": "shop:7"}
    after, others = add.enqueue(1), add.enqueue_many([(1,)])
    for row in (after, others[0], Job.objects.get(pk=after.pk), Job.objects.get(pk=others[0].pk)):
        assert (row.atomic, row.retries, row.deployment_id) == (True, 9, "shop:7")
    assert (before.atomic, before.retries, before.deployment_id) == (False, 3, "")


def test_any_node_may_run_it_whatever_the_process_that_enqueues_is(alias, add, settings):
    settings.JOBEXEC = {"DEPLOYMENT": "shop:7"}
    anybodys, others = add.using(deployment=None), add.using(deployment="billing:2")
    for handler, expected in ((add, "shop:7"), (anybodys, ""), (others, "billing:2")):
        rows = [handler.enqueue(1), *handler.enqueue_many([(1,)])]
        stored = Job.objects.filter(pk__in=[row.pk for row in rows]).values_list("deployment_id", flat=True)
        assert [*(row.deployment_id for row in rows), *stored] == [expected] * 4


@pytest.mark.parametrize("value", ["", "shop", "shop:1:2", 7, "s:" + "x" * 200])
def test_what_is_no_deployment_is_refused(alias, add, value):
    with pytest.raises(InvalidJob, match=r"deployment: expected a string of the form 'name:version'.*None for"):
        add.using(deployment=value)


def test_a_job_does_not_share_its_options_with_the_caller(alias, strict):
    headers, retries = {"order": [1]}, ["PT1S"]
    jobs = [strict.using(headers=headers, retries=retries)]
    jobs += [job(name="tests.owned", database=alias, headers=headers, retries=retries)(lambda number: None)]
    headers["order"][0] = 2
    retries.append("PT1S")
    for each in jobs:
        row = each.enqueue(1)
        assert (row.custom_headers, row.retries) == ({"order": [1]}, 2)


def test_a_job_made_by_using_shares_nothing_that_was_prepared(alias, strict):
    strict.enqueue(1)
    other = strict.using(retries="R9/PT1M", tenant_id="t")
    assert (other.retry_plan.attempts, strict.retry_plan.attempts) == (9, 5)
    assert [(row.retries, row.tenant_id) for row in (other.enqueue(1), strict.enqueue(1))] == [(9, "t"), (5, "")]


def test_an_option_with_the_value_of_its_default_is_kept(alias, add, settings):
    settings.JOBEXEC = {"ATOMIC_JOBS": True}
    row = add.using(atomic=False, priority=0, retries="R3/PT1S", exclusive=True).enqueue(1)
    for one in (row, stored()):
        assert (one.atomic, one.priority, one.retries, one.retry_plan, one.exclusive) == (False, 0, 3, "R3/PT1S", True)


def test_no_two_jobs_share_their_headers(alias, add):
    given = {"a": 1}
    handler = add.using(headers=given)
    first, second, more = handler.enqueue(1), handler.enqueue(1), handler.enqueue_many([(1,), (1,)])
    first.custom_headers["b"] = more[0].custom_headers["b"] = 2
    assert [second.custom_headers, more[1].custom_headers, given] == [{"a": 1}] * 3


def test_what_a_caller_does_with_the_arguments_later_does_not_matter(alias, strict):
    argument = [1]
    row, rows = strict.enqueue(argument), strict.enqueue_many([(argument,)])
    argument.append(2)
    assert rows[0].handler_configuration == {"args": [[1]], "kwargs": {}}
    assert {str(one.handler_configuration) for one in Job.objects.all()} == {str(rows[0].handler_configuration)}
    assert row.handler_configuration["args"] == [argument], "the objects that were given"


def test_fitting_and_unfitting_calls_alternate(alias, add):
    for _ in range(2):
        for args, kwargs in [((1,), {}), ((1, 2, 3), {}), ((), {"first": 1, "third": 2}), ((1,), {"other": 1})]:
            assert add.enqueue(*args, **kwargs).handler_configuration == {"args": list(args), "kwargs": kwargs}
        for args, kwargs in [((), {}), ((1,), {"first": 2}), ((), {"second": 1})]:
            with pytest.raises(InvalidJob, match="add: "):
                add.enqueue(*args, **kwargs)
    assert len(add.enqueue_many([{"first": 1, f"name{number}": 2} for number in range(1_200)])) == 1_200
    assert len(add.arguments.fitting) <= 1_000


def test_many_calls_may_be_any_mapping(alias, strict):
    from types import MappingProxyType

    rows = strict.enqueue_many(iter([MappingProxyType({"number": 1})]))
    assert stored().handler_configuration == rows[0].handler_configuration == {"args": [], "kwargs": {"number": 1}}
    with pytest.raises(InvalidJob, match="keywords must be strings"):
        strict.enqueue_many([{1: 2}])


def test_arguments_deeper_than_json_goes_are_refused_or_stored(alias, strict):
    """At the limit of the interpreter's stack the whole may be too deep although each argument is not."""
    for depth in (50, 100_000):
        value = []
        for _ in range(depth):
            value = [value]
        try:
            strict.enqueue(value)
        except InvalidJob:
            continue
    assert Job.objects.count() == 1
