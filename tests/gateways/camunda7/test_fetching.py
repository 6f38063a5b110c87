"""Camunda 7's API: which tasks a fetchAndLock brings, and how it waits for them."""

import asyncio
import json
import time
from datetime import timedelta

import pytest
from django.db import connections
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext

from jobexec.clock import FrozenClock
from jobexec.gateways import long_polling
from jobexec.gateways.long_polling import watch
from jobexec.gateways.rest.camunda7 import fetching
from jobexec.gateways.rest.camunda7 import topics as topics_module
from jobexec.models import ExternalWorkerJob
from jobexec.operations import external
from tests.gateways.engine_rest import URLS, EngineRest, error
from tests.support.factories import make_external
from tests.support.waiting import TIMEOUT, until

FETCH = "/external-task/fetchAndLock"


@pytest.fixture
def frozen():
    with FrozenClock() as clock:
        yield clock


@pytest.fixture
def rest(alias, settings):
    settings.JOBEXEC = {"ENGINES": {alias: {}}, "GATEWAY_DATABASE": alias, "GATEWAY_AUTH": "none"}
    settings.ROOT_URLCONF = URLS
    return EngineRest()


def ids(*rows):
    return [str(row.job_key) for row in rows]


def found(tasks):
    return [task["id"] for task in tasks]


@pytest.mark.gate
def test_the_conditions_of_a_topic(alias, rest):
    known = {"process_instance_id": "p", "process_definition_id": "order:1", "process_definition_key": "order"}
    mine = make_external(alias, business_key="B-1", tenant_id="north", variables={"city": "Köln", "n": 5}, **known)
    make_external(alias, process_instance_id="q", process_definition_id="bill:1", process_definition_key="bill")
    for condition in (
        {"businessKey": "B-1"},
        {"processDefinitionId": "order:1"},
        {"processDefinitionIdIn": ["order:1", "other:1"]},
        {"processDefinitionKey": "order"},
        {"processDefinitionKeyIn": ["order"]},
        {"processDefinitionKey": "order", "processDefinitionKeyIn": ["order", "bill"]},
        {"tenantIdIn": ["north", "east"]},
        {"processVariables": {"city": "Köln", "n": 5}},
    ):
        assert found(rest.fetch("payment", **condition)) == ids(mine), condition
        assert rest.post(f"/external-task/{mine.job_key}/unlock") == (204, None)
    for condition in (
        {"businessKey": "B-2"},
        {"processDefinitionKey": "order", "processDefinitionKeyIn": ["bill"]},
        {"tenantIdIn": ["south"]},
        {"processVariables": {"city": "Bonn"}},
        {"processVariables": {"city": "Köln", "nothing": 1}},
        {"processVariables": {"contains": "Köln"}},
        {"processVariables": {"city__contains": "K"}},
        {"processDefinitionVersionTag": "v1"},
    ):
        assert rest.fetch("payment", **condition) == [], condition


def test_conditions_for_many_variables_are_refused(alias, rest):
    make_external(alias, variables={f"v{n}": n for n in range(100)})
    topic = {"topicName": "payment", "lockDuration": 1000}
    for count, status in ((101, 400), (100, 200)):
        topic["processVariables"] = {f"v{n}": n for n in range(count)}
        answer = rest.post(FETCH, workerId="w", maxTasks=1, topics=[topic])
        assert answer[0] == status
    assert len(answer[1]) == 1


def test_lists_that_are_empty_are_no_condition(alias, rest):
    row = make_external(alias)
    empty = {"processDefinitionIdIn": [], "processDefinitionKeyIn": [], "tenantIdIn": [], "processVariables": {}}
    assert found(rest.fetch("payment", **empty)) == ids(row)


def test_tasks_without_a_tenant(alias, rest):
    make_external(alias, tenant_id="north")
    own = make_external(alias)
    assert found(rest.fetch("payment", withoutTenantId=True)) == ids(own)


def test_several_topics_share_one_request(alias, rest, frozen):
    rows = []
    for type in ("a", "b", "a", "b"):
        rows.append(make_external(alias, type))
        frozen.tick(timedelta(seconds=1))
    first = rest.fetch("a", "b", most=1)
    assert found(first) == ids(rows[0])
    second = rest.fetch("a", "b", most=1)
    assert found(second) == ids(rows[1]), "the backlog of a topic is not before all others"
    assert sorted(found(rest.fetch("a", "b", "c", most=10))) == sorted(ids(*rows[2:]))


@pytest.mark.gate
@pytest.mark.every_database
def test_many_topics_are_asked_for_their_order_in_one_statement(alias, rest):
    names = [f"topic {number}" for number in range(100)]
    with CaptureQueriesContext(connections[alias]) as queries:
        assert rest.fetch(*names) == []
    assert len([each for each in queries if "jobexec_externalworkerjob" in each["sql"]]) == 1
    later, first = make_external(alias, names[3]), make_external(alias, names[70], priority=5)
    assert found(rest.fetch(*names)) == ids(first, later)
    topics = [{"topicName": name, "lockDuration": 1000} for name in [*names, "one more"]]
    status, said = rest.post(FETCH, workerId="w", maxTasks=1, topics=topics)
    assert (status, said["message"]) == (400, "topics: expected at most 100, got 101.")


def test_each_topic_has_its_own_wishes(alias, rest, frozen):
    make_external(alias, "a", variables={"x": 1, "y": {"z": 1}})
    make_external(alias, "b", variables={"x": 1, "y": {"z": 1}}, headers={"h": "1"})
    topics = [
        {"topicName": "a", "lockDuration": 1000, "variables": ["x"]},
        {"topicName": "b", "lockDuration": 9000, "deserializeValues": True, "includeExtensionProperties": True},
    ]
    _, tasks = rest.post(FETCH, workerId="w", maxTasks=5, topics=topics)
    a, b = sorted(tasks, key=lambda task: task["topicName"])
    assert a["variables"].keys() == {"x"} and a["extensionProperties"] == {}
    assert b["variables"]["y"]["value"] == {"z": 1} and b["extensionProperties"] == {"h": "1"}
    rows = {row.handler_type: row.lock_expiration_time for row in ExternalWorkerJob.objects.using(alias)}
    assert rows == {"a": frozen.now + timedelta(seconds=1), "b": frozen.now + timedelta(seconds=9)}


def test_what_was_locked_is_given_back_if_a_later_topic_fails(alias, rest, monkeypatch):
    make_external(alias, "a")
    make_external(alias, "b")
    activate = external.activate_jobs

    def failing(using, fetch):
        if fetch.type == "b":
            raise RuntimeError("the database is away")
        return activate(using, fetch)

    monkeypatch.setattr("jobexec.gateways.rest.camunda7.fetching.activate_jobs", failing)
    topics = [{"topicName": name, "lockDuration": 1000} for name in ("a", "b")]
    rest._client.raise_request_exception = False
    status, said = rest.post(FETCH, workerId="w", maxTasks=5, topics=topics)
    assert (status, said["type"]) == (500, "ProcessEngineException")
    monkeypatch.undo()
    assert len(rest.fetch("a")) == 1


def test_the_maximum_is_for_all_topics_together(alias, rest, monkeypatch):
    monkeypatch.setattr(topics_module, "MAX_JOBS", 3)
    for name in ("a", "b"):
        for _ in range(3):
            make_external(alias, name)
    assert len(rest.fetch("a", "b", most=1_000_000)) == 3


def test_of_topics_of_the_same_name_the_last_counts(alias, rest, frozen):
    make_external(alias, "a")
    topics = [{"topicName": "a", "lockDuration": seconds * 1000} for seconds in (1, 9)]
    status, (task,) = rest.post(FETCH, workerId="w", maxTasks=5, topics=topics)
    assert status == 200
    row = ExternalWorkerJob.objects.using(alias).get(job_key=task["id"])
    assert row.lock_expiration_time == frozen.now + timedelta(seconds=9)


def test_priority_goes_before_age(alias, rest):
    rows = [make_external(alias, priority=priority) for priority in (0, 50, 10)]
    tasks = rest.fetch("payment")
    assert found(tasks) == ids(rows[1], rows[2], rows[0])


def test_the_answer_is_ordered_by_creation_if_that_is_asked(alias, rest, frozen):
    rows = []
    for priority in (0, 50, 10):
        rows.append(make_external(alias, priority=priority))
        frozen.tick(timedelta(seconds=1))
    topics = [{"topicName": "payment", "lockDuration": 1000}]
    for order, expected in (("asc", rows), ("desc", rows[::-1])):
        sorting = [{"sortBy": "createTime", "sortOrder": order}]
        _, tasks = rest.post(FETCH, workerId="w", maxTasks=5, usePriority=True, sorting=sorting, topics=topics)
        assert found(tasks) == ids(*expected)
        frozen.tick(timedelta(seconds=2))


WRONG = [
    ({"maxTasks": 1}, "workerId: expected a string, got null."),
    ({"workerId": "w"}, "maxTasks: expected an integer of at least 1, got null."),
    ({"workerId": "w", "maxTasks": 0}, "maxTasks: expected an integer of at least 1, got 0."),
    ({"topics": [{"lockDuration": 1}]}, "topics[0].topicName: expected a string, got null."),
    ({"topics": [{"topicName": "a"}]}, "topics[0].lockDuration: expected a number of milliseconds, got null."),
    ({"topics": [{"topicName": "a", "lockDuration": 0}]}, "topics[0].lockDuration: expected an integer of at least 1"),
    ({"topics": "a"}, 'topics: expected a list of objects, got "a".'),
    ({"topics": [{"topicName": "a", "lockDuration": 1, "variables": "x"}]}, "topics[0].variables: expected a list of"),
    (
        {"topics": [{"topicName": "a", "lockDuration": 1, "processVariables": []}]},
        "topics[0].processVariables: expected",
    ),
    ({"asyncResponseTimeout": 1_800_001}, "The asynchronous response timeout cannot be set to a value greater than"),
    ({"asyncResponseTimeout": -1}, "asyncResponseTimeout: expected an integer of at least 0, got -1."),
    ({"usePriority": "yes"}, 'usePriority: expected true or false, got "yes".'),
    ({"sorting": [{"sortBy": "age"}]}, "Cannot set query sortBy parameter to value age"),
    ({"sorting": [{"sortBy": "createTime", "sortOrder": "up"}]}, "Cannot set query sortOrder parameter to value up"),
]


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("body, message", WRONG, ids=[message[:40] for _, message in WRONG])
def test_what_is_wrong_is_named(alias, rest, body, message):
    if "workerId" not in body and "maxTasks" not in body:
        body = {"workerId": "w", "maxTasks": 1, **body}
    status, said = rest.post(FETCH, **body)
    assert (status, said["type"]) == (400, "InvalidRequestException")
    assert message in said["message"]


@pytest.mark.databases("sqlite")
def test_null_is_like_nothing(alias, rest):
    row = make_external(alias)
    topic = {
        "topicName": "payment",
        "lockDuration": 1,
        "variables": None,
        "businessKey": None,
        "processVariables": None,
    }
    nothing = {"asyncResponseTimeout": None, "sorting": None, "usePriority": None}
    status, tasks = rest.post(FETCH, workerId=5, maxTasks=1, topics=[topic], **nothing)
    assert (status, found(tasks), tasks[0]["workerId"]) == (200, ids(row), "5")


@pytest.mark.databases("sqlite")
def test_without_topics_nothing_is_found_at_once(alias, rest):
    assert rest.post(FETCH, workerId="w", maxTasks=1, asyncResponseTimeout=60_000) == (200, [])
    assert rest.post(FETCH, workerId="w", maxTasks=1, topics=[], asyncResponseTimeout=60_000) == (200, [])


@pytest.mark.databases("sqlite")
def test_too_many_threads_that_wait(alias, rest, settings):
    settings.JOBEXEC = settings.JOBEXEC | {"GATEWAY_MAX_WAITERS_IN_THREADS": 0}
    topics = [{"topicName": "payment", "lockDuration": 1}]
    message = "At the moment the server has to handle too many requests at the same time. Please try again later."
    answer = rest.post(FETCH, workerId="w", maxTasks=1, asyncResponseTimeout=60_000, topics=topics)
    assert answer == (500, error("InvalidRequestException", message))


# Under ASGI.


async def asked(*topics, wait=60_000, worker="w", most=1):
    body = {
        "workerId": worker,
        "maxTasks": most,
        "asyncResponseTimeout": wait,
        "topics": [{"topicName": name, "lockDuration": 60_000} for name in topics],
    }
    response = await AsyncClient().post(FETCH, json.dumps(body), content_type="application/json")
    assert response["Content-Type"] == "application/json"
    content = b"".join([part async for part in response]) if response.streaming else response.content
    return response.status_code, json.loads(content)


def in_thread(function, *arguments, **options):
    """In a thread of its own, whose connections are closed."""

    def call():
        try:
            return function(*arguments, **options)
        finally:
            connections.close_all()

    return asyncio.get_running_loop().run_in_executor(None, call)


async def waiting(alias, number=1):
    while long_polling.of(alias).queue.count() < number:
        await asyncio.sleep(0.01)


@pytest.mark.transactional
def test_a_held_request_is_answered_when_a_task_of_any_topic_comes(alias, rest, monkeypatch):
    monkeypatch.setattr(watch, "PROBE", 2 * TIMEOUT)

    async def story():
        answer = asyncio.create_task(asked("a", "b"))
        await asyncio.wait_for(waiting(alias), TIMEOUT)
        start = time.monotonic()
        row = await in_thread(make_external, alias, "b")
        status, tasks = await answer
        return row, status, tasks, time.monotonic() - start

    row, status, tasks, took = asyncio.run(story())
    assert (status, found(tasks)) == (200, ids(row))
    assert took < 30, "it was woken, and did not wait for its end"


@pytest.mark.transactional
@pytest.mark.databases("postgresql")
def test_a_held_request_ends_with_nothing_after_its_time(alias, rest):
    start = time.monotonic()
    assert asyncio.run(asked("a", wait=200)) == (200, [])
    assert 0.2 <= time.monotonic() - start < 30
    assert long_polling.of(alias).queue.count() == 0


@pytest.mark.transactional
@pytest.mark.databases("postgresql")
def test_who_has_gone_gets_nothing(alias, rest):
    async def story():
        gone, stays = asyncio.create_task(asked("a", worker="gone")), None
        await asyncio.wait_for(waiting(alias), TIMEOUT)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await in_thread(make_external, alias, "a")
        stays = await asked("a", worker="stays")
        return stays

    _, (task,) = asyncio.run(story())
    assert task["workerId"] == "stays"


@pytest.mark.transactional
@pytest.mark.parametrize("asynchronous", [False, True])
def test_tasks_whose_answer_cannot_be_built_are_given_back(alias, rest, monkeypatch, asynchronous):
    def fails(*args):
        raise RuntimeError("this task cannot be shown")

    make_external(alias, "a")
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):  # as Django's client tells of a 500
        patch.setattr(fetching, "_shown", fails)
        if asynchronous:
            asyncio.run(asked("a"))
        else:
            rest.fetch("a")
    until(lambda: rest.fetch("a"))


@pytest.mark.gate
@pytest.mark.transactional
@pytest.mark.databases("postgresql")
def test_waiting_requests_hold_no_thread(alias, rest):
    async def story():
        held = [asyncio.create_task(asked("a", worker=f"w{number}")) for number in range(60)]
        await asyncio.wait_for(waiting(alias, 60), TIMEOUT)
        names = [thread.name for thread in __import__("threading").enumerate()]
        for _ in range(60):
            await in_thread(make_external, alias, "a")
        answers = await asyncio.gather(*held)
        return names, answers

    names, answers = asyncio.run(story())
    assert len(names) < 30, names
    assert len({task["id"] for _, tasks in answers for task in tasks}) == 60, "each task once"
    until(lambda: long_polling.of(alias).queue.count() == 0)
