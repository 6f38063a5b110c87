"""fetchAndLock: tasks of several topics in a single request, which may wait until there are some."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponseBase

from jobexec.gateways import asks, auth, long_polling, worker_registry
from jobexec.gateways.rest.common import caller_of, database, json_answer
from jobexec.gateways.rest.waiting_room import TrackedResponse, release_thread
from jobexec.operations.external import activate_jobs, yield_jobs
from jobexec.operations.external.availability import first_ranks
from jobexec.operations.external.types import ActivatedJob

from .bodies import body_of
from .endpoint import guarded
from .shown import locked_task
from .topics import FetchRequest, Topic, fetch_request

PROTOCOL = "camunda7"


@guarded("POST")
async def fetch_and_lock(request: HttpRequest) -> HttpResponseBase:
    """Return the locked tasks; an empty list if there are none within the time that the request may wait."""
    caller = caller_of(request)
    what = fetch_request(body_of(request), caller)
    if not what.topics:
        return json_answer([])
    for topic in what.topics:
        if topic.fetch is not None:
            asks.check(topic.fetch)
    with ExitStack() as stack:
        for topic in what.topics:
            of_one = (PROTOCOL, caller.name, what.worker, topic.name, tuple(topic.tenants))
            worker_registry.polled(*of_one)
            if what.wait > timedelta(0):
                stack.enter_context(worker_registry.waiting(*of_one))
        return await _answer(request, what)


async def _answer(request: HttpRequest, what: FetchRequest) -> HttpResponseBase:
    using = database()
    allowed, client = partial(auth.is_still_let_in, request), auth.client_of(request).key
    search = replace(search_of(using, what), allowed=allowed, client=client)
    if not isinstance(request, ASGIRequest):
        # In the request's thread. A server has few threads, so the hub lets only some of them wait.
        jobs = await sync_to_async(long_polling.search_in_thread)(using, search, what.wait)
        with long_polling.answering(using, jobs):
            return json_answer(_shown(what, jobs))
    await release_thread()
    jobs = await long_polling.search(using, search, what.wait)
    if not jobs:
        return json_answer([])
    with long_polling.answering(using, jobs):
        content = json_answer(_shown(what, jobs)).content
    return TrackedResponse(content, partial(long_polling.give_back, using, jobs), content_type="application/json")


def search_of(using: str, what: FetchRequest) -> long_polling.Search:
    """The search for the tasks. Its kind decides which waiting requests share a queue."""
    kinds = {long_polling.kind_of(topic.fetch) for topic in what.topics if topic.fetch is not None}
    # A request with the same conditions for all its topics shares a queue with requests for one of these topics.
    kind = kinds.pop() if len(kinds) == 1 else tuple((topic.name, _kind(topic)) for topic in what.topics)
    return long_polling.Search(
        types=what.names, look=lambda alive: look(using, what, alive), most=what.max_tasks, kind=kind
    )


def _kind(topic: Topic) -> Any:
    return None if topic.fetch is None else long_polling.kind_of(topic.fetch)


def look(using: str, what: FetchRequest, alive: Callable[[], bool]) -> list[ActivatedJob]:
    """Lock tasks, topic by topic, until there are enough; if a topic fails, tasks locked before are given back."""
    found: list[ActivatedJob] = []
    try:
        for topic in _in_order(using, what.topics):
            left = what.max_tasks - len(found)
            if left > 0 and topic.fetch is not None:
                found += activate_jobs(using, replace(topic.fetch, max_jobs=left, is_alive=alive))
    except BaseException:
        yield_jobs(using, found)
        raise
    return found


def _in_order(using: str, topics: tuple[Topic, ...]) -> list[Topic]:
    """Sort the topics by their first task, so that a backlog of one topic does not delay all others."""
    if len(topics) < 2:
        return list(topics)
    ranks = first_ranks(using, [topic.name for topic in topics])
    heads = sorted((rank, number) for number, topic in enumerate(topics) for rank in ranks[topic.name])
    return [topics[number] for number in dict.fromkeys(number for _, number in heads)]


def _shown(what: FetchRequest, jobs: list[ActivatedJob]) -> list[dict[str, Any]]:
    topics = {topic.name: topic for topic in what.topics}
    if what.newest_first is not None:
        jobs = sorted(jobs, key=lambda job: job.create_time, reverse=what.newest_first)
    for job in jobs:
        worker_registry.activated(job.type, what.worker, 1, protocol=PROTOCOL, client=what.client)
    return [locked_task(job, topics[job.type]) for job in jobs]
