"""Completions that arrive together share a commit, at each door, and each is told its own outcome after it."""

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import grpc
import pytest
from django.db import OperationalError, connections
from django.test import AsyncRequestFactory

from jobexec.exceptions import JobNotFound
from jobexec.gateways import completions, long_polling
from jobexec.gateways.completions import Completions
from jobexec.gateways.rest.asgi import GatewayHandler
from jobexec.models import ExternalWorkerJob, JobLog
from jobexec.operations import external, suspend
from jobexec.operations.external.types import Completion
from jobexec.runtime.database_threads import DatabaseThreads, Overloaded
from tests.support.factories import in_hands, make_external
from tests.support.threads import finish, held, start
from tests.support.waiting import TIMEOUT, passed, threads, until

pytestmark = [pytest.mark.transactional, pytest.mark.usefixtures("engine")]
grouped = pytest.mark.databases("postgresql")


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setattr("jobexec.runtime.database_threads._IDLE", 0.1)
    hands = DatabaseThreads("jobexec-test-completions")
    yield hands
    hands.close(TIMEOUT)
    until(lambda: not threads("jobexec-test-completions"))


@pytest.fixture
def groups(monkeypatch):
    """The sizes of the groups that were settled together."""
    sizes = []
    original = external.complete_external_jobs

    def complete(using, group):
        sizes.append(len(group))
        return original(using, group)

    monkeypatch.setattr(external, "complete_external_jobs", complete)
    return sizes


@contextmanager
def busy(alias, monkeypatch):
    """A thread settles the first completion, of the job that this returns, until the block ends or ``go`` is set."""
    first = in_hands(alias)
    begun, go = threading.Event(), threading.Event()
    original = external.complete_external_job

    def complete(using, key, *arguments, **named):
        if key == first.key:
            begun.set()
            passed(go)
        original(using, key, *arguments, **named)

    first_of_all: Any = first
    with monkeypatch.context() as patch:
        patch.setattr(external, "complete_external_job", complete)
        try:
            yield first_of_all, begun, go
        finally:
            go.set()


def left(alias):
    return ExternalWorkerJob.objects.using(alias).count()


def gather(*calls):
    async def story():
        return await asyncio.gather(*(call() for call in calls), return_exceptions=True)

    return asyncio.run(asyncio.wait_for(story(), TIMEOUT))


async def while_busy(found, jobs, first, begun):
    """Complete a job that keeps its thread busy, and others meanwhile; the tasks."""
    one = asyncio.ensure_future(found.complete(Completion(first.key)))
    await in_thread(passed, begun)
    return [one, *(asyncio.ensure_future(found.complete(Completion(job.key))) for job in jobs)]


async def in_thread(function, *arguments):
    return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)


@grouped
def test_what_arrives_while_others_are_settled_shares_a_statement(alias, pool, groups, monkeypatch):
    jobs = [in_hands(alias) for _ in range(7)]
    monkeypatch.setattr(completions, "PATIENCE", TIMEOUT)
    with busy(alias, monkeypatch) as (first, begun, go):

        async def story():
            found = Completions(alias, pool)
            tasks = await while_busy(found, jobs, first, begun)
            bad = asyncio.ensure_future(found.complete(Completion(jobs[0].key, worker="other")))
            missing = asyncio.ensure_future(found.complete(Completion(1)))
            await asyncio.sleep(0)
            go.set()
            await asyncio.gather(*tasks)
            return await asyncio.gather(bad, missing, return_exceptions=True)

        errors = asyncio.run(asyncio.wait_for(story(), TIMEOUT))
    assert [type(error) for error in errors] == [JobNotFound, JobNotFound]
    assert groups == [9]
    assert left(alias) == 0
    assert JobLog.objects.using(alias).filter(state="successful").count() == 8


@grouped
def test_other_reports_get_the_only_thread_between_two_groups(alias, monkeypatch):
    jobs = [in_hands(alias) for _ in range(5)]
    monkeypatch.setattr(completions, "PATIENCE", TIMEOUT)
    monkeypatch.setattr(completions, "GROUP", 1)
    monkeypatch.setattr("jobexec.runtime.database_threads._IDLE", 0.1)
    one_thread = DatabaseThreads("jobexec-test-completions", 1)
    with busy(alias, monkeypatch) as (first, begun, go):

        async def story():
            found = Completions(alias, one_thread)
            tasks = await while_busy(found, jobs, first, begun)
            other = asyncio.wrap_future(one_thread.submit(lambda: left(alias)))
            await asyncio.sleep(0)
            go.set()
            await asyncio.gather(*tasks)
            return await other

        assert asyncio.run(asyncio.wait_for(story(), TIMEOUT)) == 5
    assert left(alias) == 0
    assert one_thread.close(TIMEOUT)


@grouped
def test_those_that_wait_are_settled_although_the_thread_fails_after_its_group(alias, pool, monkeypatch, caplog):
    jobs = [in_hands(alias) for _ in range(2)]
    monkeypatch.setattr(completions, "PATIENCE", TIMEOUT)
    failures = [OSError("a connection could not be cleaned")]
    original = completions.clean_connections
    monkeypatch.setattr(completions, "clean_connections", lambda: fail(failures.pop()) if failures else original())

    def fail(error):
        raise error

    with busy(alias, monkeypatch) as (first, begun, go):

        async def story():
            found = Completions(alias, pool)
            tasks = await while_busy(found, jobs, first, begun)
            await asyncio.sleep(0)
            go.set()
            await asyncio.gather(*tasks)

        asyncio.run(asyncio.wait_for(story(), TIMEOUT / 4))
    assert left(alias) == 0
    assert "could not be cleaned" in caplog.text


@grouped
def test_each_is_answered_after_the_commit(alias, pool):
    jobs = [in_hands(alias) for _ in range(20)]

    async def story():
        found = Completions(alias, pool)

        async def one(job):
            await found.complete(Completion(job.key))
            return await in_thread(is_there, job)

        def is_there(job):
            try:
                return ExternalWorkerJob.objects.using(alias).filter(pk=job.id).exists()
            finally:
                connections[alias].close()

        return await asyncio.gather(*map(one, jobs))

    assert asyncio.run(asyncio.wait_for(story(), TIMEOUT)) == [False] * 20


@grouped
def test_a_group_that_takes_long_does_not_hold_up_the_next_one(alias, pool, groups, monkeypatch):
    jobs = [in_hands(alias) for _ in range(3)]
    with busy(alias, monkeypatch) as (first, begun, go):

        async def story():
            found = Completions(alias, pool)
            one = asyncio.ensure_future(found.complete(Completion(first.key)))
            await in_thread(passed, begun)
            await asyncio.gather(*(found.complete(Completion(job.key)) for job in jobs))
            assert not one.done()
            go.set()
            await one

        asyncio.run(asyncio.wait_for(story(), TIMEOUT))
    assert groups == [3]


@grouped
def test_one_whose_row_is_locked_waits_alone(alias, pool, groups, monkeypatch):
    jobs = [in_hands(alias) for _ in range(3)]
    answered = []

    with busy(alias, monkeypatch) as (first, begun, go):

        async def story():
            found = Completions(alias, pool)

            async def one(job):
                await found.complete(Completion(job.key))
                answered.append(job.key)

            calls = [asyncio.ensure_future(one(first))]
            await in_thread(passed, begun)
            calls += [asyncio.ensure_future(one(job)) for job in jobs]
            await asyncio.sleep(0)
            go.set()
            await asyncio.gather(*calls)

        with held(alias) as inside:
            inside(partial(external.set_external_priority, alias, jobs[1].key, 7))
            future = start(alias, lambda: asyncio.run(asyncio.wait_for(story(), TIMEOUT)))
            until(lambda: len(answered) == 3)
            assert set(answered) == {first.key, jobs[0].key, jobs[2].key}
        finish(future)
    assert groups == [3]
    assert left(alias) == 0


@grouped
def test_whoever_goes_has_completed_its_job(alias, pool, monkeypatch):
    job, other = in_hands(alias), in_hands(alias)
    with busy(alias, monkeypatch) as (first, begun, go):

        async def story():
            found = Completions(alias, pool)
            one = asyncio.ensure_future(found.complete(Completion(first.key)))
            await in_thread(passed, begun)
            gone = asyncio.ensure_future(found.complete(Completion(job.key)))
            stays = asyncio.ensure_future(found.complete(Completion(other.key)))
            await asyncio.sleep(0)
            gone.cancel()
            go.set()
            await asyncio.gather(one, stays)
            assert gone.cancelled()

        asyncio.run(asyncio.wait_for(story(), TIMEOUT))
    assert left(alias) == 0


@grouped
def test_a_group_that_fails_is_settled_one_by_one(alias, pool, monkeypatch):
    jobs = [in_hands(alias) for _ in range(4)]

    def fails(using, group):
        raise OperationalError("the server closed the connection unexpectedly")

    monkeypatch.setattr(external, "complete_external_jobs", fails)
    found = Completions(alias, pool)
    assert gather(*[partial(found.complete, Completion(job.key)) for job in jobs]) == [None] * 4
    assert left(alias) == 0


def test_where_no_statement_can_be_shared_each_is_completed(alias, pool):
    jobs = [in_hands(alias) for _ in range(4)]
    found = Completions(alias, pool)
    calls = [partial(found.complete, Completion(job.key)) for job in jobs]
    assert gather(*calls, partial(found.complete, Completion(1)))[:4] == [None] * 4
    assert left(alias) == 0


@grouped
def test_who_comes_when_the_process_ends_is_refused(alias):
    hands = DatabaseThreads("jobexec-test-completions")
    hands.close(TIMEOUT)
    found = Completions(alias, hands)
    (error,) = gather(partial(found.complete, Completion(1)))
    assert isinstance(error, Overloaded)
    (error,) = gather(partial(found.complete, Completion(1)))
    assert isinstance(error, Overloaded)


# The doors.


class Rest:
    """Requests to the application of the REST gateways, in one event loop."""

    def __init__(self, path: Callable[[int], str], body: Callable[[str], Any]) -> None:
        self._path, self._body, self._handler = path, body, GatewayHandler()

    async def complete(self, key: int, worker: str = "one") -> Any:
        path, content = self._path(key), json.dumps(self._body(worker)).encode()
        request = AsyncRequestFactory().generic("POST", path, content, content_type="application/json")
        messages, answer = [{"type": "http.request", "body": content, "more_body": False}], list[Any]()

        async def receive() -> Any:
            return messages.pop() if messages else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            answer.append(message)

        await self._handler(dict(request.scope), receive, send)
        return answer[0]["status"], b"".join(part.get("body", b"") for part in answer)

    def close(self) -> None:
        """Nothing is open."""


class Grpc:
    """Calls of a gateway in this process."""

    def __init__(self, alias: str) -> None:
        from tests.gateways.grpc.bed import Bed

        self._bed, self._pool = Bed(alias, {"port": 0}), ThreadPoolExecutor(20)

    async def complete(self, key: int, worker: str = "one") -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._complete, key)

    def _complete(self, key: int) -> Any:
        try:
            self._bed.client.CompleteJob(jobKey=key, variables=json.dumps({"paid": True}))
        except grpc.RpcError as error:
            return error.code(), error.details()
        return "OK"

    def close(self) -> None:
        self._pool.shutdown()
        self._bed.close()


@pytest.fixture(params=["rest", "camunda7", "grpc"])
def door(request, alias, v2, monkeypatch):
    monkeypatch.setattr("jobexec.runtime.database_threads._IDLE", 0.1)
    made: Any
    if request.param == "grpc":
        made = Grpc(alias)
    elif request.param == "rest":
        made = Rest("/v2/jobs/{}/completion".format, lambda worker: {"variables": {"paid": True}})
    else:
        paths = "/engine-rest/external-task/{}/complete"
        variables = {"paid": {"value": True}}
        made = Rest(paths.format, lambda worker: {"workerId": worker, "variables": variables})
    yield made
    made.close()
    long_polling.close_all()


@grouped
def test_at_each_door_those_of_a_group_are_told_what_they_are_told_alone(alias, door, groups, monkeypatch):
    joined = []
    join = Completions._join
    monkeypatch.setattr(completions, "PATIENCE", TIMEOUT)

    def asked():
        jobs = [in_hands(alias) for _ in range(4)]
        foreign, suspended = in_hands(alias, worker="two"), make_external(alias)
        suspend(suspended.pk, using=alias)
        return [*(job.key for job in jobs), suspended.job_key, foreign.key, 1, jobs[0].key]

    def without_keys(answers, keys):
        return [str(answer).replace(str(key), "KEY") for answer, key in zip(answers, keys, strict=True)]

    async def one_by_one(keys):
        return [await door.complete(key) for key in keys]

    alone = asked()
    answers = without_keys(asyncio.run(asyncio.wait_for(one_by_one(alone), TIMEOUT)), alone)
    assert not groups
    together = asked()

    def joins(self, one):
        join(self, one)
        joined.append(one)

    monkeypatch.setattr(Completions, "_join", joins)
    with busy(alias, monkeypatch) as (first, begun, go):

        async def at_once():
            before = asyncio.ensure_future(door.complete(first.key))
            await in_thread(passed, begun)
            calls = [asyncio.ensure_future(door.complete(key)) for key in together]
            await in_thread(until, lambda: len(joined) == 1 + len(calls))
            go.set()
            await before
            return await asyncio.gather(*calls)

        found = without_keys(asyncio.run(asyncio.wait_for(at_once(), TIMEOUT)), together)
    assert groups == [len(together)]
    assert sorted(found) == sorted(answers)
    assert found[1:-1] == answers[1:-1]  # of two reports on one job, either may be the first
