"""Real, unmodified clients: pyzeebe, @camunda8/sdk for Node and zbctl, which is the client for Go."""

import json
import subprocess
import time
from datetime import timedelta
from statistics import median

import pytest

from jobexec import clock, job
from jobexec.gateways import worker_registry
from jobexec.gateways.grpc.gateway import GrpcGateway
from jobexec.gateways.grpc.options import Options
from jobexec.gateways.long_polling import watch
from jobexec.handlers import registry
from jobexec.models import Job, Message
from jobexec.operations.manage.gateway_clients import create_client
from jobexec.runtime import database_threads
from tests.gateways import clients
from tests.gateways.grpc.real import LANGUAGES, SCRIPTS, workers
from tests.support.waiting import until

pytestmark = [pytest.mark.transactional, pytest.mark.nightly]

HOUR = 3_600_000


@pytest.fixture(autouse=True)
def handlers():
    with registry.isolated():

        @job(name="paid")
        def paid(variables):
            """Runs when the worker is done."""

        @job(name="refused")
        def refused(variables, error_code, error_message):
            """Runs when the worker has thrown an error."""

        yield


@pytest.fixture
def team(gateway):
    """Starts workers at the gateway of the test."""
    with workers(gateway.port) as team:
        yield team


def given(alias, name):
    """What the handler of this name will be called with."""
    return [row.handler_configuration["kwargs"] for row in Job.objects.using(alias).filter(handler_type=name)]


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.parametrize("language", ["python", "node"])
def test_a_worker_does_all_that_workers_do(gateway, team, language):
    alias = gateway.alias
    both = {"on_complete": "paid", "on_error": {"no-money": "refused"}}
    worker = team.start(language)
    gateway.make(variables={"act": "complete", "hidden": 1}, **both)
    gateway.make(variables={"act": "error"}, **both)
    failing = gateway.make(variables={"act": "fail"}, headers={"back_off": str(HOUR)}, **both)
    last = gateway.make(variables={"act": "fail_once"}, retries=1, **both)
    until(lambda: given(alias, "paid") and given(alias, "refused") and gateway.incidents().count() == 1)
    # Only what it asked for came to it; what it sent came here.
    assert given(alias, "paid") == [
        {"variables": {"act": "complete", "hidden": 1, "by": language, "seen": ["act"]}},
    ]
    (error,) = given(alias, "refused")
    assert (error["error_code"], error["error_message"]) == ("no-money", "no money")
    until(lambda: gateway.row(failing.job_key).retries == 2)
    row = gateway.row(failing.job_key)
    assert "no luck" in row.exception_message
    assert row.available_at > clock.now(alias) + timedelta(minutes=50)
    # The incident is repaired by somebody else, in Go; the worker then gets the job again.
    incident = gateway.incidents().get()
    zbctl(team, "update", "retries", str(last.job_key), "--retries", "5")
    zbctl(team, "resolve", "incident", str(incident.incident_key))
    until(lambda: len(given(alias, "paid")) == 2)
    assert worker.keys("begun").count(last.job_key) == 2


def zbctl(team, *arguments):
    """What zbctl says, without pipes that wait; asserts that it ended well."""
    ended = subprocess.run([*team.zbctl(), *arguments], capture_output=True, text=True, timeout=180)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.databases("sqlite")
def test_zbctl_knows_every_call(gateway, team):
    assert "Brokers" in zbctl(team, "status") or "clusterSize" in zbctl(team, "status")
    for name in ("first", "second", "third"):
        gateway.make(variables={"name": name}, on_complete="paid", on_error={"odd": "refused"})
    (job,) = jobs_of(zbctl(team, "activate", "jobs", "payment", "--maxJobsToActivate", "1"))
    zbctl(team, "update", "timeout", job["key"], "--timeout", "7200000")
    left = gateway.row(int(job["key"])).lock_expiration_time - clock.now()
    assert left > timedelta(minutes=119)
    zbctl(team, "complete", "job", job["key"], "--variables", '{"by": "go"}')
    assert given(gateway.alias, "paid") == [{"variables": {"name": "first", "by": "go"}}]
    (job,) = jobs_of(zbctl(team, "activate", "jobs", "payment", "--maxJobsToActivate", "1"))
    zbctl(team, "throwError", "job", job["key"], "--errorCode", "odd")
    assert given(gateway.alias, "refused")[0]["error_code"] == "odd"
    (job,) = jobs_of(zbctl(team, "activate", "jobs", "payment", "--maxJobsToActivate", "1"))
    zbctl(team, "fail", "job", job["key"], "--retries", "0", "--errorMessage", "no luck")
    assert gateway.incidents().get().message == "no luck"


def jobs_of(text):
    return json.loads(text)["jobs"]


@pytest.mark.parametrize("language", ["python", "node"])
def test_a_waiting_worker_is_woken_when_a_job_comes(gateway, team, language, monkeypatch):
    """On a quiet machine within some ten milliseconds. Without word of the job it would be its next poll: the gateway
    looks by itself once an hour here, except where nobody tells it of jobs."""
    monkeypatch.setattr(watch, "PROBE", 3600.0)
    worker = team.start(language)
    gateway.waiting(1)
    made = []
    for number in range(1, 8):
        gateway.make()
        made.append(time.time())
        until(lambda number=number: len(worker.keys("ended")) == number)
        gateway.waiting(1)
    waits = [begun - before for before, begun in zip(made, worker.times("begun"), strict=True)]
    assert median(waits) < 5, waits


@pytest.mark.databases("sqlite")
def test_idle_workers_are_held_and_do_not_spin(gateway, team):
    before = worker_registry.registry.counts().polls["grpc"]
    team.start("python", "one")
    team.start("node", "two")
    team.start("go", "three")
    gateway.waiting(3)
    time.sleep(3)  # nothing happens, which nobody can wait for
    # One each; on a slow machine a poll may have come to its end. Who spins makes dozens.
    assert 3 <= worker_registry.registry.counts().polls["grpc"] - before <= 9


@pytest.mark.databases("sqlite", "postgresql")
def test_a_job_that_is_not_done_in_time_goes_to_another_language_and_the_late_one_is_refused(gateway, team, tmp_path):
    slow = team.start("python", timeout=1000, most=1)  # while it is busy it asks for no other
    go = tmp_path / "go"
    made = gateway.make(variables={"act": "late"}, headers={"until": str(go)}, on_complete="paid")
    until(lambda: slow.keys("begun") == [made.job_key])
    fast = team.start("node")  # does not wait
    until(lambda: fast.keys("ended") == [made.job_key] and given(gateway.alias, "paid"))
    go.touch()
    until(lambda: f"Job {made.job_key} not found" in slow.text)
    (result,) = given(gateway.alias, "paid")
    assert result["variables"]["by"] == "node"


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.parametrize("language", LANGUAGES)
def test_streams_bring_the_backlog_and_what_comes_later(gateway, team, language):
    gateway.make_many("payment", [{}] * 20, on_complete="paid")
    team.start(language, stream=True)
    until(lambda: len(given(gateway.alias, "paid")) == 20)
    gateway.make_many("payment", [{}] * 20, on_complete="paid")
    until(lambda: len(given(gateway.alias, "paid")) == 40)
    assert not gateway.rows().exists()


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("stream", [False, True])
def test_a_killed_worker_that_waits_swallows_no_job(gateway, team, stream):
    killed = [team.start(language, name="gone", stream=stream) for language in ("python", "node")]
    until(lambda: gateway.gateway.service.open >= 2)
    for worker in killed:
        worker.process.popen.kill()
    until(lambda: gateway.gateway.service.open == 0)
    made = gateway.make_many("payment", [{}] * 5)
    assert len(gateway.client.activate("payment", 9)) == 5
    assert {gateway.row(each.job_key).attempts for each in made} == {1}


@pytest.mark.databases("sqlite")
def test_workers_survive_a_restart_of_the_gateway(gateway, team):
    for language in LANGUAGES:
        team.start(language, language)
    gateway.waiting(3)
    gateway.gateway.stop()
    for language in LANGUAGES:
        gateway.make(language, on_complete="paid")
    gateway.gateway = GrpcGateway(Options(using=gateway.alias, port=gateway.port))
    gateway.gateway.start()
    until(lambda: len(given(gateway.alias, "paid")) == 3)


@pytest.mark.databases("sqlite")
def test_workers_recover_from_an_overload(gateway, team, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(database_threads, "LONGEST_LINE", 0)
        for language in LANGUAGES:
            gateway.make(language, on_complete="paid")
        started = [team.start(language, language) for language in LANGUAGES]
        until(lambda: all("EXHAUSTED" in each.text or "BackPressure" in each.text for each in started[:1]))
    until(lambda: len(given(gateway.alias, "paid")) == 3)


@pytest.mark.databases("postgresql")
def test_a_thousand_jobs_over_several_workers_are_each_done_once(gateway, team):
    mixed = [("python", True), ("python", False), ("node", True), ("node", False)]
    started = [
        team.start(language, name=f"{language}-{number}", stream=stream)
        for number, (language, stream) in enumerate(mixed)
    ]
    made = gateway.make_many("payment", [{"n": number} for number in range(1000)], on_complete="paid")
    until(lambda: Job.objects.using(gateway.alias).count() == 1000)
    assert not gateway.rows().exists()
    done = [key for each in started for key in each.keys("ended")]
    assert sorted(done) == sorted(each.job_key for each in made)
    assert Job.objects.using(gateway.alias).exclude(attempts=0).count() == 0


@pytest.mark.timeout(600)
@pytest.mark.databases("postgresql")
def test_an_idle_stream_is_alive_after_five_minutes(gateway, team):
    started = [team.start(language, language, stream=True) for language in ("python", "node")]
    streams = {stream for each in worker_registry.registry.sights() for stream in each.streams}
    time.sleep(330)
    assert {stream for each in worker_registry.registry.sights() for stream in each.streams} == streams
    for language in ("python", "node"):
        gateway.make(language, on_complete="paid")
    until(lambda: len(given(gateway.alias, "paid")) == 2, 15)
    assert all(len(each.keys("ended")) == 1 for each in started)


@pytest.mark.databases("sqlite")
class TestCredentials:
    """Workers that say who they are."""

    @pytest.fixture
    def keys(self, alias):
        return {"GATEWAY_AUTH": "required", "GATEWAY_DATABASE": alias}

    @pytest.fixture
    def options(self, authority):
        certificate, key = authority.issue("localhost")
        return {"tls_cert": certificate, "tls_key": key, "client_ca": authority.ca}

    @pytest.mark.parametrize("options", [{}])
    def test_node_with_name_and_secret(self, gateway):
        _, secret = create_client(gateway.alias, name="shop")
        gateway.make(on_complete="paid")
        variables = {
            "CAMUNDA_AUTH_STRATEGY": "BASIC",
            "CAMUNDA_BASIC_AUTH_USERNAME": "shop",
            "CAMUNDA_BASIC_AUTH_PASSWORD": secret,
        }
        with workers(gateway.port, **variables) as team:
            team.start("node")
            until(lambda: given(gateway.alias, "paid"))

    def test_python_with_a_certificate(self, gateway, authority):
        create_client(gateway.alias, name="bank")
        gateway.make(on_complete="paid")
        certificate, key = authority.issue("bank")
        variables = {"CA": str(authority.ca), "CERTIFICATE": str(certificate), "KEY": str(key)}
        with workers(gateway.port, host="localhost", **variables) as team:
            team.start("python")
            until(lambda: given(gateway.alias, "paid"))


@pytest.mark.databases("sqlite")
def test_clients_publish_messages(gateway, team):
    script = SCRIPTS / "publish.py"
    key, error = clients.run(clients.python("pyzeebe"), script, team.address, "approved", "4711", "m1").stdout.split()
    row = Message.objects.using(gateway.alias).get()
    assert (row.pk, row.payload, error) == (int(key), {"by": "ann"}, "MessageAlreadyExistsError")
    more = ["--correlationKey", "1", "--variables", '{"sum": 5}', "--ttl", "10s"]
    said = zbctl(team, "publish", "message", "paid", *more)
    row = Message.objects.using(gateway.alias).get(name="paid")
    assert (row.payload, int(json.loads(said)["key"])) == ({"sum": 5}, row.pk)
