"""`@job`: names, aliases, the registry, what is called and how."""

import copy
import functools
import json
import pickle
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from jobexec import JobContext, history_handler, job
from jobexec.clock import FrozenClock
from jobexec.exceptions import DoNotRetry, DuplicateHandler, HandlerNotFound, InvalidJob, LockLost
from jobexec.handlers import registry
from jobexec.processes.handlers.registry import function, listener, service_task
from jobexec.retry import RetryPlan
from tests.support.handlers import Host, a_context
from tests.support.suite.databases import ROOT


@pytest.fixture(autouse=True)
def isolated():
    with registry.isolated():
        yield


def add(first, second=2, *, third=3):
    return first, second, third


def with_context(context, number):
    return context.attempt, number


async def waits(number):
    return number * 2


def yields(number):
    yield number


async def yields_later(number):
    yield number


async def waits_with_context(context: JobContext, number):
    return context.id, number


class Holder:
    @staticmethod
    def method():
        return "method"

    def of_object(self):
        pass


def configuration(*args, **kwargs):
    return json.dumps({"args": args, "kwargs": kwargs})


def test_with_and_without_parentheses():
    plain, with_options = job(add), job(name="other", priority=3)(add)
    assert (plain.name, with_options.name) == (f"{__name__}.add", "other")
    assert plain(1) == with_options(1) == (1, 2, 3), "calling it runs the function"
    assert repr(plain) == f"<job {__name__}.add>"
    assert (plain.options, with_options.options) == ({}, {"priority": 3})


def test_the_name_is_that_of_the_function_in_its_module():
    assert job(Holder.method).name == f"{__name__}.Holder.method"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("R5/PT5M", "expected a function, got 'R5/PT5M'; options have names"),
        (Holder().of_object, "Holder.of_object is a method, whose object another process may not have"),
        (Holder.of_object, "Holder.of_object is a method"),
        (functools.partial(add, 1), "has no name; give it one"),
    ],
)
def test_what_is_no_function_of_a_module(given, message):
    with pytest.raises(InvalidJob, match=message):
        job(given)
    assert not callable(given) or job(name="tests.named")(given).name == "tests.named"


def test_a_function_inside_another_needs_a_name():
    def inner():
        pass

    with pytest.raises(InvalidJob, match=r"inner is inside another function.*move it to a module or give it a name"):
        job(inner)
    assert job(name="inner")(inner).name == "inner"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": 5}, "@job: name: expected a string of 1 to 255 characters, got 5"),
        ({"name": "x" * 256}, "@job: name: expected a string of 1 to 255 characters, got 'xxx"),
        ({"name": " "}, "@job: name: expected a string of 1 to 255 characters, got ' '"),
        ({"name": "a\0"}, "@job: name: the character U\\+0000 cannot be stored"),
        ({"name": "a", "aliases": "xy"}, "a: aliases: expected a tuple of names, got 'xy'"),
        ({"name": "a", "aliases": 5}, "a: aliases: expected a tuple of names, got 5"),
        ({"name": "a", "aliases": ["b", 5]}, "a: aliases: expected a string of 1 to 255 characters, got 5"),
        ({"name": "a", "aliases": [""]}, "a: aliases: expected a string of 1 to 255 characters, got ''"),
    ],
)
@pytest.mark.parametrize("decorator", [job, service_task, listener])
def test_names_that_no_handler_can_have(decorator, options, message):
    with pytest.raises(InvalidJob, match=message.replace("@job", f"@{decorator.__name__}")):
        decorator(**options)(add)
    assert not {"x", "y", "a", 5} & registry.known_names()


@pytest.mark.parametrize("decorator", [job, service_task, listener, function, history_handler])
@pytest.mark.parametrize("generator", [yields, yields_later, functools.partial(yields, 1)])
def test_a_generator_does_nothing_when_it_is_called(decorator, generator):
    with pytest.raises(InvalidJob, match="g: expected a function that does its work when it is called"):
        (decorator(name="g") if decorator is job else decorator("g"))(generator)


@pytest.mark.parametrize("generator", [yields, yields_later])
def test_a_generator_that_a_decorator_hides_ends_in_a_dead_letter(generator):
    @functools.wraps(generator)
    def wrapper(number):
        return generator(number)

    handler = job(name="hidden")(wrapper)
    with pytest.raises(DoNotRetry, match="hidden returned a generator, and what is in it would not run"):
        handler.execute(a_context(), ([1], {}))


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        ({"delay": 100, "expires": 5}, False),
        ({"delay": "PT1M", "expires": "PT1M"}, True),
        ({"run_after": timedelta(hours=2), "expires": timedelta(hours=1)}, False),
        ({"run_after": datetime(2026, 1, 2, tzinfo=UTC), "expires": datetime(2026, 1, 1, tzinfo=UTC)}, False),
        ({"delay": 5, "expires": 100}, True),
        ({"delay": 5, "expires": datetime(2026, 1, 1, tzinfo=UTC)}, True),
    ],
)
def test_a_job_that_expires_before_it_is_due(options, fits):
    handler = job(name="tests.late")(add)
    if fits:
        handler.using(**options)
    else:
        with pytest.raises(InvalidJob, match=r"expires: expected no time before (delay|run_after), "):
            handler.using(**options)


def test_arguments_that_contain_themselves():
    circle, deep = [1], []
    circle.append({"again": circle})
    for _ in range(5000):
        deep = [deep]
    handler = job(name="tests.deep", sensitive=("second",))(add)
    for value in (circle, deep):
        with pytest.raises(InvalidJob, match="argument 'first': expected JSON that is nested at most 200 deep, and"):
            handler.arguments.encode((value,), {})


def test_handlers_are_found_by_name_and_alias():
    handler = job(name="new", aliases=["old", "older"])(add)
    other = job(add)
    assert {registry.get_handler(name) for name in ("new", "old", "older")} == {handler}
    assert [one for one in registry.all_handlers() if one in (handler, other)] == sorted(
        [handler, other], key=lambda one: one.name
    )
    with pytest.raises(HandlerNotFound, match="No handler 'oldest' is registered"):
        registry.get_handler("oldest")


@pytest.mark.parametrize("options", [{"name": "a"}, {"name": "old"}, {"name": "x", "aliases": ["a"]}])
def test_a_name_has_one_handler(options):
    first = job(name="a", aliases=["old"])(add)
    with pytest.raises(DuplicateHandler, match="is the name or an alias of two handlers"):
        job(**options)(with_context)
    assert registry.get_handler("a") is registry.get_handler("old") is first
    with pytest.raises(HandlerNotFound):
        registry.get_handler("x")


def test_what_is_registered_in_isolation_is_forgotten():
    with registry.isolated():
        job(name="short-lived")(add)
        registry.get_handler("short-lived")
    with pytest.raises(HandlerNotFound):
        registry.get_handler("short-lived")


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "result"),
    [
        (add, [1], {"third": 9}, (1, 2, 9)),
        (with_context, [5], {}, (3, 5)),
        (waits, [4], {}, 8),
        (waits_with_context, [], {"number": 7}, ("an id", 7)),
    ],
)
def test_executing(function, args, kwargs, result):
    handler = job(function)
    arguments = handler.read(configuration(*args, **kwargs))
    assert handler.execute(a_context(attempts=2), arguments) == result


def test_the_context_may_have_another_name_and_context_may_be_an_argument():
    def first_is_it(ctx, number):
        return ctx.attempt, number

    def is_not_it(context):
        return context

    named = job(name="a", takes_context=True)(first_is_it)
    assert named.execute(a_context(), named.read(configuration(4))) == (1, 4)
    unnamed = job(name="b", takes_context=False)(is_not_it)
    assert unnamed.execute(a_context(), unnamed.read(configuration("mine"))) == "mine"


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "null", "[]", "{}", '{"args": []}', '{"args": {}, "kwargs": {}}', '{"args": [], "kwargs": []}'),
        *(configuration(), configuration(1, 2, 3), configuration(1, fourth=4), configuration(1, first=1)),
    ],
)
def test_arguments_that_cannot_be_read(text):
    with pytest.raises(InvalidJob, match=r"cannot be read for .*add"):
        job(add).read(text)


def test_the_context():
    host = Host()
    with FrozenClock() as clock:
        context = a_context(host, attempts=1, timeout=timedelta(seconds=9))
        assert (context.attempt, context.deadline) == (2, clock.now + timedelta(seconds=9))
        assert a_context().deadline is None
    context.check_lease()
    host.owned, host.shutting_down = False, True
    assert context.shutting_down
    with pytest.raises(LockLost):
        context.check_lease()
    assert context.logger.extra == {
        "job_id": "an id",
        "handler_type": "h",
        "category": "default",
        "attempt": 2,
        "node": "node",
        "engine": "default",
        "process_instance_id": "",
        "tenant_id": "",
    }


def test_the_definition():
    handler = job(name="d", retries="R5/PT1M", category="default", priority=4, exclusive=False, atomic=True)(add)
    assert handler.definition() == {
        "id": "d",
        "handler_type": "d",
        "process_definition_key": "",
        "category": "default",
        "priority": 4,
        "retry_plan": "R5/PT1M",
        "exclusive": False,
        "atomic": True,
        "sensitive": [],
    }
    assert job(add).retry_plan is None
    assert job(name="e", retries=lambda failures, error: 5)(add).retry_plan.delay(1) == timedelta(seconds=5)
    assert handler.retry_plan == RetryPlan.parse("R5/PT1M")


@pytest.mark.gate
def test_decorating_works_before_django_is_set_up():
    code = (
        "from jobexec import job\n"
        "@job(retries='R5/PT1M', priority=3)\n"
        "def work(number): return number\n"
        "assert work(4) == 4 and work.name == '__main__.work'\n"
        "import sys; assert 'jobexec.models' not in sys.modules\n"
        "from django.conf import settings; assert not settings.configured\n"
    )
    child = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (child.returncode, child.stderr) == (0, "")


@pytest.mark.parametrize("word", ["delay", "apply_async"])
def test_the_words_of_celery_are_answered_with_ours(word):
    charge = job(name="charge")(add)
    message = f"'charge' has no attribute '{word}': call enqueue(…), or using(…).enqueue(…) for options"
    with pytest.raises(AttributeError, match=re.escape(message)) as info:
        getattr(charge, word)
    assert (info.value.name, info.value.obj) == (word, charge)
    assert not hasattr(charge, word)


def test_an_unknown_attribute_and_copies():
    charge = job(name="charge")(add)
    with pytest.raises(AttributeError, match=r"^'charge' has no attribute 'whatever'$"):
        charge.whatever  # noqa: B018
    for again in (copy.copy(charge), copy.deepcopy(charge), pickle.loads(pickle.dumps(charge))):
        assert (again.name, again(1)) == ("charge", (1, 2, 3))
