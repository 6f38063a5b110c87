"""Camunda 8 REST: real, unmodified clients do all that workers and operators do."""

import threading
from pathlib import Path

import pytest

from jobexec import current_job, external_job
from jobexec.models import BlockedJob, DeadLetterJob, ExternalWorkerJob, Incident, Job, Message
from jobexec.testing import ManualExecutor
from tests.gateways import clients, servers
from tests.support.factories import make_job, table_of
from tests.support.waiting import until

pytestmark = [
    pytest.mark.transactional,
    pytest.mark.nightly,
    pytest.mark.databases("postgresql"),
    pytest.mark.usefixtures("v2"),
    pytest.mark.timeout(240),  # the first run on a machine installs the client
]

PROGRAMS = Path(__file__).parent.parent / "programs"
WORKERS = {
    "camunda-orchestration-sdk": (clients.python, "camunda8_rest_worker.py"),
    "@camunda8/orchestration-cluster-api": (clients.node, "camunda8_rest_worker.cjs"),
    "@camunda8/sdk": (clients.node, "camunda8_sdk_rest_worker.cjs"),
}


class Output:
    """What a client says, read all the time."""

    def __init__(self, process):
        self.lines = []
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()

    def _read(self, stream):
        for line in stream:
            self.lines.append(line.rstrip())

    def __contains__(self, text):
        return any(text in line for line in self.lines)


def callback(**kwargs):
    """Runs when a job is over; nothing does it here, its row is looked at."""


def address(server):
    # Each client has a name of its own for it.
    return {"CAMUNDA_REST_ADDRESS": server.url, "ZEEBE_REST_ADDRESS": server.url, "CAMUNDA_AUTH_STRATEGY": "NONE"}


@pytest.mark.parametrize("package", WORKERS)
def test_a_worker_completes_fails_throws_and_gives_up(alias, handle, package):
    environment, script = WORKERS[package]
    program = environment(package)
    done, failed = handle(callback, name="tests.done"), handle(callback, name="tests.failed")

    def create(what):
        variables = {"do": what, "n": 21, "secret": "not asked for"}
        return external_job("pay", variables=variables, on_complete=done, on_error={"NO_MONEY": failed}, database=alias)

    jobs = {what: create(what) for what in ("complete", "fail", "error", "give up")}

    def kwargs_of(what):
        row = Job.objects.using(alias).filter(pk=jobs[what].pk).first()
        return row and row.handler_configuration["kwargs"]

    with servers.asgi(alias) as server:
        with clients.started(program, PROGRAMS / script, **address(server)) as process:
            said = Output(process)
            try:
                until(lambda: DeadLetterJob.objects.using(alias).filter(pk=jobs["give up"].pk).exists())
                until(lambda: all(kwargs_of(what) for what in ("complete", "fail", "error")))
                late = create("complete")  # while it waits
                until(lambda: Job.objects.using(alias).filter(pk=late.pk).exists())
            except AssertionError as error:
                raise AssertionError(f"{said.lines}\n{server.text}") from error
        assert kwargs_of("complete")["variables"]["answer"] == 42
        assert kwargs_of("fail")["variables"]["answer"] == 42
        assert kwargs_of("error")["error_code"] == "NO_MONEY"
        assert kwargs_of("error")["variables"]["missing"] == 7
        assert "secret" not in said
        assert sum(f"job {jobs['fail'].job_key}" in line for line in said.lines) == 2
        assert Incident.objects.using(alias).get().message == "never"


def test_an_operator_resolves_an_incident_and_publishes_a_message(alias, v2, handle):
    seen = []
    handle(lambda: seen.append(current_job().message.payload), name="tests.approved")
    waiting = make_job(alias, handler_type="tests.approved", waits_for="approved", waits_for_key="4711")
    other = make_job(alias, handler_type="tests.approved", waits_for="approved", waits_for_key="4712")
    program = clients.python("camunda-orchestration-sdk")
    row = external_job("pay", database=alias)
    v2.activate()
    v2.post(f"/jobs/{row.job_key}/failure", {"errorMessage": "never"})
    with servers.asgi(alias, jobexec={"HISTORY_LEVEL": "full"}) as server:
        said = clients.run(program, PROGRAMS / "camunda8_rest_operator.py", **address(server))
    message = Message.objects.using(alias).get()
    assert said.stdout.split() == ["never", "FAILED", str(message.pk), "<default>", "409"]
    assert ExternalWorkerJob.objects.using(alias).get(pk=row.pk).retries == 5
    assert (message.message_id, message.payload) == ("m1", {"by": "ann"})
    assert [result.id for result in ManualExecutor(alias).run_until_empty()] == [waiting.pk]
    assert (seen, table_of(alias, other)) == ([{"by": "ann"}], BlockedJob)
