"""MIDDLEWARE, the current job and the signal of its start: in threads, on the loop, execute now and in the test kit."""

import sys
from inspect import iscoroutinefunction
from itertools import count
from types import ModuleType

import pytest
from django.core.exceptions import MiddlewareNotUsed
from django.utils.decorators import async_only_middleware, sync_and_async_middleware

from jobexec import checks, current_job, signals
from jobexec.exceptions import InvalidSettings, RetryIn
from jobexec.executor.execute_now import execute_now
from jobexec.models import DeadLetterJob, Job, TimerJob
from jobexec.testing import ManualExecutor
from tests.support.executor import run_one
from tests.support.factories import make_job, tables_of
from tests.support.waiting import until

pytestmark = pytest.mark.transactional


NUMBERS = count()


@pytest.fixture
def middleware(monkeypatch):
    """A module for middleware; sets MIDDLEWARE to the paths of the functions given, in their order."""
    module = ModuleType("jobexec_test_middleware")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def use(*functions):
        names = [f"m{next(NUMBERS)}" for _ in functions]  # never the same again: what is made of a path is kept
        for name, function in zip(names, functions, strict=True):
            setattr(module, name, function)
        return [f"{module.__name__}.{name}" for name in names]

    return use


def around(word, seen):
    def in_thread(call):
        def run(context):
            seen.append(f"{word} before")
            try:
                return call(context)
            finally:
                seen.append(f"{word} after")

        return run

    def on_loop(call):
        async def run(context):
            seen.append(f"{word} before")
            try:
                return await call(context)
            finally:
                seen.append(f"{word} after")

        return run

    return sync_and_async_middleware(lambda call: (on_loop if iscoroutinefunction(call) else in_thread)(call))


ORDER = ["outer before", "inner before", "job", "inner after", "outer after"]


def test_the_first_is_the_outermost(alias, handle, configure, middleware):
    seen = []
    configure(MIDDLEWARE=middleware(around("outer", seen), around("inner", seen)))
    handle(lambda: seen.append("job"), name="tests.see")
    make_job(alias, handler_type="tests.see")
    run_one(alias)
    assert seen == ORDER and tables_of(alias) == {}


def test_it_is_around_a_job_on_the_event_loop(alias, handle, make_executor, middleware):
    seen = []

    async def look():
        seen.append("job")
        seen.append(current_job().handler_type)

    handle(look, name="tests.look")
    make_job(alias, handler_type="tests.look")
    executor = make_executor(MIDDLEWARE=middleware(around("outer", seen), around("inner", seen)))
    executor.start()
    until(lambda: tables_of(alias) == {})
    assert seen == [*ORDER[:3], "tests.look", *ORDER[3:]]


def test_it_is_around_execute_now_and_what_the_test_kit_runs(alias, handle, configure, middleware):
    seen = []
    configure(MIDDLEWARE=middleware(around("outer", seen), around("inner", seen)))
    job = handle(lambda: seen.append("job") or 7, name="tests.see")
    assert execute_now(make_job(alias, handler_type="tests.see").pk, using=alias) == 7
    assert seen == ORDER
    job.using(database=alias).enqueue()
    ManualExecutor(using=alias).run_until_empty()
    assert seen == [*ORDER, *ORDER]


def test_it_decides_what_is_returned_and_raised(alias, handle, configure, middleware):
    def later(call):
        def run(context):
            if context.attempt == 1:
                raise RetryIn(60, "not now")
            return call(context) + 1

        return run

    configure(MIDDLEWARE=middleware(later))
    handle(lambda: 7, name="tests.see")
    job = make_job(alias, handler_type="tests.see", retries=3)
    with pytest.raises(RetryIn):
        execute_now(job.pk, using=alias)
    assert TimerJob.objects.using(alias).get().exception_message == "RetryIn: not now"
    assert execute_now(job.pk, using=alias) == 8


def test_an_atomic_jobs_transaction_is_around_it(alias, handle, configure, middleware):
    def writing(call):
        def run(context):
            make_job(alias, handler_type="tests.other")
            return call(context)

        return run

    configure(MIDDLEWARE=middleware(writing))
    handle(lambda: 1 // 0, name="tests.fail")
    job = make_job(alias, handler_type="tests.fail", atomic=True, retries=1)
    run_one(alias)
    assert tables_of(alias) == {job.pk: [DeadLetterJob]}


def test_one_that_is_not_used_is_left_out(alias, handle, configure, middleware):
    seen = []

    def unused(call):
        raise MiddlewareNotUsed

    configure(MIDDLEWARE=middleware(unused, around("inner", seen)))
    handle(lambda: seen.append("job"), name="tests.see")
    make_job(alias, handler_type="tests.see")
    run_one(alias)
    assert seen == ORDER[1:4]


def test_one_that_makes_nothing_to_call_is_named(alias, handle, configure, middleware):
    configure(MIDDLEWARE=middleware(lambda call: None))
    handle(lambda: 7, name="tests.see")
    with pytest.raises(InvalidSettings, match=r"MIDDLEWARE.*must return a callable; got None"):
        execute_now(make_job(alias, handler_type="tests.see").pk, using=alias)


def mixed_up(call):
    """Middleware that is async around sync handlers, and sync around async ones."""

    async def on_loop(context):
        return await call(context)

    return (lambda context: 7) if iscoroutinefunction(call) else on_loop


@pytest.mark.gate
def test_one_that_mixes_up_sync_and_async_is_an_error(alias, handle, make_executor, middleware):
    seen = []

    async def look():
        seen.append("async job")

    handle(lambda: seen.append("job"), name="tests.see")
    handle(look, name="tests.look")
    for name in ("tests.see", "tests.look"):
        make_job(alias, handler_type=name, retries=1)
    make_executor(MIDDLEWARE=middleware(sync_and_async_middleware(mixed_up))).start()
    dead = DeadLetterJob.objects.using(alias)
    until(lambda: not Job.objects.using(alias).exists())
    found = dict(dead.values_list("handler_type", "exception_message"))
    assert "a coroutine was returned for tests.see, which is not async" in found["tests.see"]
    assert "int was returned for the async tests.look instead of an awaitable" in found["tests.look"]
    assert seen == []


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("entry", "word"),
    [
        ("no_such_module.function", "cannot be imported: No module named 'no_such_module'"),
        ("django.VERSION", "is not callable"),
        (async_only_middleware(lambda call: call), "is for async handlers only"),
        (lambda call: call, "is not for async handlers, which this project has"),
        (around("fine", []), None),
    ],
)
def test_the_check_says_what_is_wrong(configure, middleware, handle, entry, word):
    async def look():
        pass

    handle(look, name="tests.look")
    configure(MIDDLEWARE=[entry] if isinstance(entry, str) else middleware(entry))
    found = [message for message in checks.check_middleware() if message.id == "jobexec.E016"]
    assert len(found) == (word is not None)
    assert word is None or word in found[0].msg


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("value", ["shop.timed", ["timed"], ["shop.timed", "shop.timed"], [None]])
def test_the_setting_takes_dotted_paths(configure, value):
    configure(MIDDLEWARE=value)
    (found,) = checks.check_settings()
    assert "JOBEXEC['MIDDLEWARE']" in found.msg and "a list of different dotted paths" in found.msg


def test_the_context_has_the_tenant(alias, handle):
    seen = []
    handle(lambda: seen.append(current_job().tenant_id), name="tests.see")
    for tenant in ("acme", ""):
        make_job(alias, handler_type="tests.see", tenant_id=tenant)
        run_one(alias)
    assert seen == ["acme", ""]


def test_the_current_job_is_that_of_its_own_run_only(alias, handle, configure):
    seen = []
    handle(lambda: seen.append(current_job().id), name="tests.see")
    job = make_job(alias, handler_type="tests.see")
    run_one(alias)
    assert seen == [job.pk]
    assert current_job() is None


@pytest.mark.parametrize("is_async", [False, True])
def test_the_start_is_announced(alias, handle, make_executor, is_async):
    seen = []

    def hear(sender, job, context, using, **kwargs):
        seen.append((sender, job.id, context.id, using, "job" in seen))

    async def look():
        seen.append("job")

    handle(look if is_async else lambda: seen.append("job"), name="tests.look")
    job = make_job(alias, handler_type="tests.look")
    signals.job_started.connect(hear)
    try:
        make_executor().start()
        until(lambda: tables_of(alias) == {})
    finally:
        signals.job_started.disconnect(hear)
    assert seen == [(Job, job.pk, job.pk, alias, False), "job"]


def test_a_receiver_that_fails_changes_nothing(alias, handle):
    seen = []

    def hear(**kwargs):
        raise ValueError("no")

    handle(lambda: seen.append("job"), name="tests.see")
    make_job(alias, handler_type="tests.see")
    signals.job_started.connect(hear)
    try:
        run_one(alias)
    finally:
        signals.job_started.disconnect(hear)
    assert seen == ["job"] and tables_of(alias) == {}
