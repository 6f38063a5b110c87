"""Camunda 7's own and its most used other client, unmodified, against a real server."""

import base64
import time

import pytest

from jobexec import external_job, job
from jobexec.models import DeadLetterJob, ExternalWorkerJob, Incident, IncidentState, Job
from jobexec.operations.manage.gateway_clients import create_client
from tests.gateways import clients, servers
from tests.gateways.talkers import talking
from tests.support.waiting import until

pytestmark = [
    pytest.mark.transactional,
    pytest.mark.databases("postgresql"),
    pytest.mark.nightly,
]
#: What the package imports and does not ask for.
UNDECLARED = ("httpx", "pydantic")
DATE = "2015-10-06T16:34:42.000+0200"


@job
def take_all(variables):
    """What runs when a worker has completed a task."""


@job
def take_error(variables, error_code, error_message):
    """What runs when a worker throws an error."""


@pytest.fixture(autouse=True)
def engine(request, settings):
    settings.JOBEXEC = {"ENGINES": {request.getfixturevalue("alias"): {}}}


@pytest.fixture(scope="module")
def python():
    return clients.python("camunda-external-task-client-python3", *UNDECLARED)


@pytest.fixture(scope="module")
def node():
    return clients.node("camunda-external-task-client-js")


@pytest.fixture
def url(alias):
    with servers.asgi(alias, probes=False) as server:
        yield f"{server.url}/engine-rest"
        assert "Traceback" not in server.text, server.text


@pytest.fixture(params=["python", "async", "node"])
def worker(request, url):
    """Starts a worker of each client: `worker(topics, mode)`."""

    def start(topics="payment", mode="complete", name="w"):
        return language(request, request.param, url, topics, mode, name)

    start.language = request.param
    return start


def language(request, client, url, topics, mode, name):
    if client == "node":
        folder = request.getfixturevalue("node")
        return talking(folder, "camunda7_worker.mjs", str(folder), url, name, topics, mode)
    interpreter = request.getfixturevalue("python")
    if client == "async":
        return talking(interpreter, "camunda7_async_worker.py", url, name, topics)
    return talking(interpreter, "camunda7_worker.py", url, name, topics, {"complete": "echo"}.get(mode, mode))


def make(alias, type="payment", **options):
    return external_job(type, database=alias, **options)


def completed(alias, row, process):
    """The variables that the handler is given."""
    jobs = Job.objects.using(alias).filter(pk=row.pk)
    until(lambda: jobs.exists() or process.all("error"))
    found = jobs.first()
    assert found is not None, process.text
    return found.handler_configuration["kwargs"]["variables"]


def test_tasks_of_several_topics_are_completed_and_a_held_poll_is_woken(alias, worker):
    rows = [make(alias, type, on_complete=take_all) for type in ("a", "b", "a")]
    with worker("a,b") as process:
        process.wait("got", 3)
        for row in rows:
            completed(alias, row, process)
        # All is done, so it waits in a poll of 20 s; a new task must not wait for its end.
        until(lambda: not ExternalWorkerJob.objects.using(alias).exists())
        time.sleep(0.5)  # the client's own pause between two polls
        start = time.monotonic()
        row = make(alias, "b", on_complete=take_all)
        process.wait("got", 4)
        took = time.monotonic() - start
        completed(alias, row, process)
    print(f"woken after {took:.3f} s")
    assert took < 10, process.text
    assert not process.all("error"), process.text


@pytest.mark.parametrize("worker", ["python", "node"], indirect=True)
def test_a_failure_is_tried_again_until_none_are_left(alias, worker):
    row = make(alias, on_complete=take_all)
    with worker(mode="fail") as process:
        until(lambda: DeadLetterJob.objects.using(alias).exists())
    incident = Incident.objects.using(alias).get()
    assert incident.job_id == row.pk and incident.message in ("Broken", "Kaputt")
    assert incident.state == IncidentState.OPEN
    retries = [said["retries"] for said in process.all("got")]
    assert retries == [None, 2, 1], "null before the first failure, and then what is left"


def test_an_async_handler_that_raises_is_a_failure(alias, python, url):
    row = make(alias, variables={"fail": True}, on_complete=take_all)
    with talking(python, "camunda7_async_worker.py", url, "w", "payment") as process:
        assert completed(alias, row, process)["by"] == "w"
    assert [said["retries"] for said in process.all("got")] == [None, 2]


@pytest.mark.parametrize("worker", ["python", "node"], indirect=True)
def test_an_error_reaches_its_handler(alias, worker):
    row = make(alias, variables={"a": 1}, on_error={"NO_MONEY": take_error})
    with worker(mode="bpmn_error" if worker.language == "python" else "error") as process:
        found = until(lambda: Job.objects.using(alias).filter(pk=row.pk).first())
    assert found.handler_configuration["kwargs"] == {
        "variables": {"a": 1, "missing": 7},
        "error_code": "NO_MONEY",
        "error_message": "Empty",
    }, process.text


TYPED = {
    "text": "ä",
    "yes": True,
    "number": 5,
    "long": 2**40,
    "double": 2.5,
    "none": None,
    "object": {"a": [1, {"b": None}]},
    "due": DATE,
    "due$type": {"type": "Date"},
}


def test_python_gets_and_gives_every_type(alias, python, url):
    row = make(alias, variables=TYPED, headers={"method": "card"}, on_complete=take_all)
    with talking(python, "camunda7_worker.py", url, "w", "payment", "echo") as process:
        got = process.wait("got")
        back = completed(alias, row, process)
    assert got["variables"] == {name: value for name, value in TYPED.items() if name != "due$type"}
    assert got["properties"] == {"method": "card"}
    assert back == TYPED | {"answer": 42, "nested": {"a": [1, None]}, "yes": True}


def test_node_gets_and_gives_every_type(alias, node, url):
    content = base64.b64encode("Grüße".encode()).decode()
    info = {"filename": "a.txt", "mimetype": "text/plain"}
    file = {"doc": content, "doc$type": {"type": "File", "valueInfo": info}}
    row = make(alias, variables=TYPED | file, headers={"method": "card"}, on_complete=take_all)
    with talking(node, "camunda7_worker.mjs", str(node), url, "w", "payment", "echo") as process:
        got = process.wait("got")
        assert process.wait("file") == {"file": "Grüße", "name": "a.txt"}
        back = completed(alias, row, process)
    assert got["properties"] == {"method": "card"}
    assert got["types"] == {
        "text": "string",
        "yes": "boolean",
        "number": "integer",
        "long": "long",
        "double": "double",
        "none": "null",
        "object": "json",
        "due": "date",
        "doc": "file",
    }
    assert back["doc"] == content and back["doc$type"]["valueInfo"]["filename"] == "a.txt"
    # The client has made a moment of the date, and says it in its own way.
    assert back["due"] == "2015-10-06T14:34:42.000+0000" and back["due$type"]["type"].lower() == "date"
    plain = {name: back[name] for name in ("text", "yes", "number", "long", "double", "none", "object")}
    assert plain == {name: TYPED[name] for name in plain}
    assert (back["big"], back["half"], back["list"], back["no"]) == (2**40, 0.5, [1, "zwei", None], None)
    assert back["when"] == "1970-01-01T00:00:00.000+0000" and "local" not in back


def test_node_extends_a_lock_and_gives_it_back(alias, node, url):
    row = make(alias)
    with talking(node, "camunda7_worker.mjs", str(node), url, "w", "payment", "extend") as process:
        process.wait("extended")
        held = ExternalWorkerJob.objects.using(alias).get(pk=row.pk)
        assert (held.lock_expiration_time - held.create_time).total_seconds() > 300, "its lock was for 50 s"
        process.tell()
        process.wait("unlocked")
        # It had asked for more meanwhile: the poll that waits is given what was given back.
        assert process.wait("got", 2)["got"] == str(row.job_key)


def test_a_task_goes_from_a_late_python_worker_to_node(alias, python, node, url):
    row = make(alias, on_complete=take_all)
    with talking(python, "camunda7_worker.py", url, "python", "payment", "late") as late:
        assert late.wait("got")["got"] == str(row.job_key)
        # Its lock is for one second. The other waits in a poll and gets the task when that is over.
        with talking(node, "camunda7_worker.mjs", str(node), url, "node", "payment", "extend") as second:
            second.wait("extended")
            late.tell()
            refused = late.wait("error")
            locked = ExternalWorkerJob.objects.using(alias).get(pk=row.pk)
            assert locked.lock_owner == "node"
    message = (
        f"received 400 : RestException : External Task {row.job_key} cannot be completed by worker 'python'. "
        "It is locked by worker 'node'."
    )
    assert refused["error"] == message
    assert not Job.objects.using(alias).exists()


def test_clients_show_their_secret(alias, python):
    _, secret = create_client(alias, name="shop", types=["payment"])
    row = make(alias, on_complete=take_all)
    with servers.asgi(alias, jobexec={"GATEWAY_AUTH": "required"}) as server:
        url = f"{server.url}/engine-rest"
        with talking(python, "camunda7_worker.py", url, "w", "payment", "echo") as stranger:
            assert "401" in stranger.wait("error")["error"]
        with talking(python, "camunda7_worker.py", url, "w", "payment", "echo", secret) as process:
            completed(alias, row, process)
