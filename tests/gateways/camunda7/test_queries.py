"""Camunda 7's API: what operators look for, and what they change on many tasks."""

import base64
from datetime import timedelta

import pytest

from jobexec.clock import FrozenClock
from jobexec.gateways.rest.camunda7 import retries
from jobexec.models import Batch, BatchState, DeadLetterJob, ExternalWorkerJob, Incident
from jobexec.operations import suspend
from jobexec.operations.manage.gateway_clients import create_client
from jobexec.testing import ManualExecutor
from tests.gateways.engine_rest import URLS, EngineRest, error
from tests.support.factories import make_external

MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def frozen():
    with FrozenClock() as clock:
        yield clock


@pytest.fixture
def rest(alias, settings):
    settings.JOBEXEC = {"ENGINES": {alias: {}}, "GATEWAY_DATABASE": alias, "GATEWAY_AUTH": "none"}
    settings.ROOT_URLCONF = URLS
    return EngineRest()


@pytest.fixture
def rows(alias, rest, frozen):
    """One that waits, one that is locked, one whose lock is over, one that is suspended, one without retries."""
    made = {}
    made["over"] = make_external(alias, "over", tenant_id="north")
    rest.fetch("over", worker="w1", lock=1000)
    frozen.tick(timedelta(seconds=2))
    made["dead"] = make_external(alias, "dead", process_definition_id="order:1", process_definition_key="order")
    rest.fetch("dead")
    rest.post(f"/external-task/{made['dead'].job_key}/failure", workerId="w", retries=0, errorMessage="No")
    made["locked"] = make_external(alias, "locked", priority=50, element_id="charge", execution_id="ex-1")
    rest.fetch("locked", worker="w2")
    made["suspended"] = make_external(alias, "suspended", process_instance_id="pi-s")
    suspend(process_instance_id="pi-s", using=alias)
    made["waits"] = make_external(alias, "waits", process_instance_id="pi-1", priority=10)
    return made


def test_only_what_is_shown_is_read(rest, rows, read_json):
    read_json.clear()
    assert len(rest.get("/external-task")[1]) == 5
    assert rest.get(f"/external-task/{rows['dead'].job_key}")[1]["retries"] == 0
    assert read_json == []


@pytest.mark.databases("sqlite")
def test_lists_end(rest, rows):
    one = {"sortBy": "id", "sortOrder": "asc"}
    for members, message in [
        ({"sorting": [one] * 10_000}, "sorting: expected at most 9, got 10000."),
        ({"externalTaskIdIn": ["1"] * 1001}, "externalTaskIdIn: expected at most 1000, got 1001."),
        ({"activityIdIn": ["1"] * 1001}, "activityIdIn: expected at most 1000, got 1001."),
    ]:
        assert rest.post("/external-task", **members) == (400, error("InvalidRequestException", message))
    message = "externalTaskIds: expected at most 10000, got 10001."
    many = {"retries": 1, "externalTaskIds": ["1"] * 10_001}
    assert rest.put("/external-task/retries", **many) == (400, error("InvalidRequestException", message))


@pytest.mark.databases("sqlite")
def test_retries_of_more_tasks_than_a_query_takes(rest, rows, monkeypatch):
    monkeypatch.setattr(retries, "MOST_VALUES", 2)
    keys = [str(rows[name].job_key) for name in ("waits", "over", "dead")]
    assert rest.put("/external-task/retries", retries=7, externalTaskIds=keys) == (204, None)
    assert [rest.get(f"/external-task/{key}")[1]["retries"] for key in keys] == [None, None, 7]


def names(tasks):
    return [task["topicName"] for task in tasks]


ALL = ["over", "dead", "locked", "suspended", "waits"]


@pytest.mark.gate
def test_conditions(rest, rows, frozen):
    def at(seconds):
        return f"{frozen.now + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S.000+0000}"

    key = {name: str(row.job_key) for name, row in rows.items()}
    expected = [
        ({}, ALL),
        ({"externalTaskId": key["dead"]}, ["dead"]),
        ({"externalTaskId": "unknown"}, []),
        ({"externalTaskIdIn": f"{key['dead']},{key['waits']}"}, ["dead", "waits"]),
        ({"topicName": "locked"}, ["locked"]),
        ({"workerId": "w2"}, ["locked"]),
        ({"locked": "true"}, ["locked"]),
        ({"notLocked": "true"}, ["over", "dead", "suspended", "waits"]),
        ({"locked": "false"}, ALL),
        ({"withRetriesLeft": "true"}, ["over", "locked", "suspended", "waits"]),
        ({"noRetriesLeft": "true"}, ["dead"]),
        ({"lockExpirationBefore": at(0)}, ["over"]),
        ({"lockExpirationAfter": at(0)}, ["locked"]),
        ({"activityId": "charge"}, ["locked"]),
        ({"activityIdIn": "charge,waits"}, ["locked", "waits"]),
        ({"processInstanceId": "pi-1"}, ["waits"]),
        ({"processInstanceId": key["over"]}, ["over"]),
        ({"processInstanceIdIn": f"pi-s,pi-1,{key['dead']}"}, ["dead", "suspended", "waits"]),
        ({"executionId": "ex-1"}, ["locked"]),
        ({"executionId": "pi-1"}, ["waits"]),
        ({"processDefinitionId": "order:1"}, ["dead"]),
        ({"tenantIdIn": "north,south"}, ["over"]),
        ({"active": "true"}, ["over", "dead", "locked", "waits"]),
        ({"suspended": "true"}, ["suspended"]),
        ({"suspended": "true", "active": "true"}, []),
        ({"priorityHigherThanOrEquals": "10"}, ["locked", "waits"]),
        ({"priorityLowerThanOrEquals": "10"}, ["over", "dead", "suspended", "waits"]),
        ({"priorityHigherThanOrEquals": "10", "notLocked": "true"}, ["waits"]),
        ({"whatever": "1"}, ALL),
    ]
    for given, topics in expected:
        status, tasks = rest.get("/external-task", **given)
        assert (status, names(tasks)) == (200, topics), given
        assert rest.get("/external-task/count", **given) == (200, {"count": len(topics)}), given


def test_the_same_in_a_body(rest, rows):
    keys = [str(rows[name].job_key) for name in ("dead", "waits")]
    assert names(rest.post("/external-task", externalTaskIdIn=keys)[1]) == ["dead", "waits"]
    assert rest.post("/external-task/count", locked=True) == (200, {"count": 1})
    sorting = [{"sortBy": "taskPriority", "sortOrder": "desc"}, {"sortBy": "id", "sortOrder": "desc"}]
    _, tasks = rest.post("/external-task?maxResults=3", sorting=sorting)
    assert names(tasks) == ["locked", "waits", "suspended"]


@pytest.mark.gate
def test_order_and_pages(rest, rows):
    _, tasks = rest.get("/external-task", sortBy="id", sortOrder="desc")
    assert names(tasks) == ALL[::-1]
    _, tasks = rest.get("/external-task", sortBy="taskPriority", sortOrder="desc", firstResult=1, maxResults=2)
    assert names(tasks) == ["waits", "over"]
    _, tasks = rest.get("/external-task", sortBy="createTime", sortOrder="asc", maxResults=1)
    assert names(tasks) == ["over"]
    assert rest.get("/external-task", maxResults=0) == (200, [])
    assert rest.get("/external-task", firstResult=5) == (200, [])
    for by in ("lockExpirationTime", "processInstanceId", "processDefinitionId", "processDefinitionKey", "tenantId"):
        assert len(rest.get("/external-task", sortBy=by, sortOrder="asc")[1]) == 5, by


def test_a_task_as_it_is_shown(rest, rows, frozen):
    _, task = rest.get(f"/external-task/{rows['dead'].job_key}")
    own = str(rows["dead"].job_key)
    moment = task.pop("createTime")
    assert moment.endswith("+0000") and moment[:16] == f"{rows['dead'].create_time:%Y-%m-%dT%H:%M}"
    assert task == {
        "id": own,
        "topicName": "dead",
        "workerId": task["workerId"],
        "lockExpirationTime": None,
        "retries": 0,
        "errorMessage": "No",
        "suspended": False,
        "priority": 0,
        "businessKey": None,
        "tenantId": None,
        "activityId": "dead",
        "activityInstanceId": f"dead:{own}",
        "executionId": own,
        "processInstanceId": own,
        "processDefinitionId": "order:1",
        "processDefinitionKey": "order",
        "processDefinitionVersionTag": None,
    }
    assert rest.get(f"/external-task/{rows['suspended'].job_key}")[1]["suspended"] is True
    assert rest.get(f"/external-task/{rows['waits'].job_key}/errorDetails") == (204, None)


def test_topics(rest, rows):
    assert rest.get("/external-task/topic-names") == (200, sorted(ALL))
    assert rest.get("/external-task/topic-names", withLockedTasks="true") == (200, ["locked"])
    unlocked = ["dead", "over", "suspended", "waits"]
    assert rest.get("/external-task/topic-names", withUnlockedTasks="true") == (200, unlocked)
    unlocked.remove("dead")
    assert rest.get("/external-task/topic-names", withUnlockedTasks="true", withRetriesLeft="true") == (200, unlocked)


@pytest.mark.databases("sqlite")
def test_what_is_wrong_is_named(rest):
    wrong = [
        ({"sortBy": "age", "sortOrder": "asc"}, "Cannot set query sortBy parameter to value age"),
        ({"sortBy": "id", "sortOrder": "up"}, "Cannot set query sortOrder parameter to value up"),
        ({"sortBy": "id"}, "Only a single sorting parameter specified. sortBy and sortOrder required"),
        ({"locked": "maybe"}, 'locked: expected true or false, got "maybe".'),
        ({"maxResults": "many"}, 'maxResults: expected an integer of at least 0, got "many".'),
        ({"firstResult": "-1"}, "firstResult: expected an integer of at least 0, got -1."),
        ({"priorityHigherThanOrEquals": "x"}, 'priorityHigherThanOrEquals: expected an integer, got "x".'),
        ({"lockExpirationAfter": "now"}, "lockExpirationAfter: expected a date like 2015-10-06T16:34:42.000+0200"),
    ]
    for given, message in wrong:
        status, said = rest.get("/external-task", **given)
        assert (status, said["type"]) == (400, "InvalidRequestException"), given
        assert message in said["message"]


def test_retries_of_many(alias, rest, rows):
    ids = [str(rows[name].job_key) for name in ("dead", "waits")]
    body = {"retries": 7, "externalTaskIds": ids, "processInstanceIds": ["pi-s"], "externalTaskQuery": {"locked": True}}
    assert rest.put("/external-task/retries", **body) == (204, None)
    left = {task["topicName"]: task["retries"] for task in rest.get("/external-task", maxResults=10)[1]}
    stored = {row.handler_type: row.retries for row in ExternalWorkerJob.objects.using(alias)}
    assert stored == {"over": 3, "dead": 7, "locked": 7, "waits": 7}
    assert left["dead"] in (None, 7), "it can be fetched again"
    assert Incident.objects.using(alias).get().state == "resolved"
    assert len(rest.fetch("dead")) == 1


def test_what_cannot_be_chosen(rest, rows):
    def refused(**body):
        status, said = rest.put("/external-task/retries", **body)
        assert said["type"] == "InvalidRequestException"
        return status, said["message"]

    status, message = refused(retries=1)
    assert (status, message[:26]) == (400, "externalTaskIds is empty: ")
    assert refused(externalTaskIds=["1"]) == (400, "The number of retries cannot be null.")
    assert refused(retries=1, externalTaskIds=["77"]) == (404, "Cannot find external task with id 77")
    assert refused(retries=-1, externalTaskIds=["1"])[0] == 400
    assert "processInstanceQuery: is not supported; expected " in refused(retries=1, processInstanceQuery={})[1]


@pytest.mark.gate
def test_retries_of_many_as_a_batch(alias, rest, rows):
    ids = [str(rows[name].job_key) for name in ("dead", "waits")]
    status, shown = rest.post("/external-task/retries-async", retries=9, externalTaskIds=ids)
    batch = Batch.objects.using(alias).get()
    assert (status, shown["id"], shown["type"]) == (200, str(batch.pk), "set-external-task-retries")
    assert (shown["totalJobs"], shown["jobsCreated"], shown["suspended"]) == (1, 0, False)
    ManualExecutor(alias).run_until_empty()
    batch.refresh_from_db()
    assert batch.state == BatchState.COMPLETED
    assert {row.retries for row in ExternalWorkerJob.objects.using(alias).filter(job_key__in=ids)} == {9}


@pytest.mark.databases("sqlite")
def test_a_batch_of_a_client_is_not_that_of_the_user_of_its_name(alias, rest, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "GATEWAY_AUTH": "required"}
    _row, secret = create_client(alias, name="ann", permissions=["update"])
    task = make_external(alias)
    client = EngineRest(authorization=f"Bearer {secret}")
    said = client.post("/external-task/retries-async", retries=9, externalTaskIds=[str(task.job_key)])
    assert (said[0], said[1]["createUserId"]) == (200, "client:ann")
    assert Batch.objects.using(alias).get().create_user == "client:ann"


@pytest.mark.databases("postgresql")
def test_a_batch_without_retries_parks(alias, rest):
    row = make_external(alias)
    assert rest.post("/external-task/retries-async", retries=0, externalTaskIds=[str(row.job_key)])[0] == 200
    ManualExecutor(alias).run_until_empty()
    assert DeadLetterJob.objects.using(alias).get().pk == row.pk


def test_the_content_of_a_file(alias, rest):
    info = {"filename": "Rechnung ä.txt", "mimeType": "text/plain"}
    content = base64.b64encode(b"hello").decode()
    variables = {"doc": content, "doc$type": {"type": "File", "valueInfo": info}, "text": "x"}
    make_external(alias, variables=variables)
    (task,) = rest.fetch("payment", variables=["doc"])
    assert task["variables"] == {"doc": {"type": "File", "value": None, "valueInfo": info}}
    path = f"/execution/{task['processInstanceId']}/localVariables"
    response = rest._client.get(f"{path}/doc/data")
    assert (response.status_code, response.content) == (200, b"hello")
    assert response["Content-Type"] == "text/plain"
    assert response["Content-Disposition"].startswith("attachment; filename")
    assert rest.get(f"{path}/text/data")[0] == 404
    assert rest.get("/execution/unknown/localVariables/doc/data")[0] == 404
    make_external(alias, process_instance_id="pi-9", execution_id="ex-9", variables=variables)
    for id in ("pi-9", "ex-9"):
        assert rest._client.get(f"/execution/{id}/localVariables/doc/data").content == b"hello"


@pytest.mark.parametrize("info", [{"mimeType": "text/plain\r\nX: y"}, {"filename": "a\r\nX: y"}])
def test_a_file_whose_type_or_name_no_header_can_have(alias, rest, info):
    variables = {"doc": "aGVsbG8=", "doc$type": {"type": "File", "valueInfo": {"filename": "a.txt", **info}}}
    make_external(alias, variables=variables, process_instance_id="pi-9")
    response = rest._client.get("/execution/pi-9/localVariables/doc/data")
    assert (response.status_code, response.content) == (200, b"hello")
    assert "X" not in response
    assert response["Content-Disposition"].startswith("attachment")
