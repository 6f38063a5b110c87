"""``manage.py rungrpcgateway`` as a process: what it says, its signals, its end."""

import os
import signal
import socket
import subprocess
import sys

import grpc
import pytest
from django.db import connections
from django.db.transaction import atomic

from jobexec import external_job, external_jobs
from jobexec.gateways.grpc import gateway_pb2 as pb
from jobexec.models import ExternalWorkerJob
from tests.gateways.grpc.bed import Client, Streamed
from tests.support.machines.processes import Process
from tests.support.suite import databases
from tests.support.suite.tiers import some
from tests.support.waiting import TIMEOUT, until

pytestmark = [pytest.mark.transactional, pytest.mark.slow]
Code = grpc.StatusCode


@pytest.fixture
def run(alias):
    """A function that starts a gateway on the test's database: `run("--threads", "2", GATEWAY_AUTH="none")`."""
    started = []

    def start(*arguments, **keys):
        jobexec = {"GATEWAY_AUTH": "none", **keys}
        environment = databases.environment(alias, JOBEXEC=jobexec) | {"PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "django", "rungrpcgateway", "--port", "0", *arguments]
        started.append(Process(command, environment))
        return started[-1]

    yield start
    for process in started:
        process.close()


def waits_for_a_lock(alias):
    """Whether anybody waits for a row that somebody else has locked."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # a transaction sees the same activity for ever
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone()[0]


def port_of(process):
    (line,) = [line for line in process.started().out if "address:" in line]
    return int(line.split(",")[0].rpartition(":")[2])


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.nightly)])
def test_the_first_signal_answers_who_waits_and_exits_with_0(alias, run, number):
    process = run()
    client = Client(port_of(process))
    stream, poll = Streamed(client.stream("payment")), Streamed(client.poll("payment", wait=60_000, deadline=90))
    until(lambda: client.Topology().clusterSize == 1)
    process.send(number)
    assert process.ended() == 0, process.text
    assert (stream.ended(), poll.ended()) == (Code.OK, Code.OK)
    assert process.out[-1] == "Drained."
    assert "Traceback" not in process.text
    client.close()


@pytest.mark.databases("postgresql")
@pytest.mark.nightly
def test_the_second_signal_leaves_at_once(engine, run):
    process = run("--grace", "60")
    client = Client(port_of(process))
    key = external_job("payment", database=engine).job_key
    with atomic(using=engine):
        ExternalWorkerJob.objects.using(engine).select_for_update().get()
        completing = client.stub.CompleteJob.future(pb.CompleteJobRequest(jobKey=key))
        until(lambda: waits_for_a_lock(engine))
        process.send(signal.SIGTERM)
        process.said("Draining. Open calls: 1.")
        process.send(signal.SIGTERM)
        assert process.ended(30) == 3, process.text
        assert completing.code() == Code.UNAVAILABLE
    client.close()


@pytest.mark.databases("postgresql")
def test_a_call_that_runs_is_answered_before_the_end(engine, run):
    process = run()
    client = Client(port_of(process))
    key = external_job("payment", database=engine).job_key
    with atomic(using=engine):
        ExternalWorkerJob.objects.using(engine).select_for_update().get()
        completing = client.stub.CompleteJob.future(pb.CompleteJobRequest(jobKey=key))
        until(lambda: waits_for_a_lock(engine))
        process.send(signal.SIGTERM)
        process.said("Draining. Open calls: 1.")
    assert completing.result(TIMEOUT) == pb.CompleteJobResponse()
    assert process.ended() == 0
    assert not ExternalWorkerJob.objects.using(engine).exists()
    client.close()


@pytest.mark.databases("sqlite")
def test_it_says_whom_it_serves(alias, run):
    process = run().started()
    text = "\n".join(process.out)
    assert "without TLS" in text and "ANYONE" in text and "SQLite" in text
    process = run("--address", "0.0.0.0", GATEWAY_AUTH="required").started()
    text = "\n".join(process.out)
    assert "ANYONE" not in text and "clients with a secret" in text
    assert "Without TLS anyone on the network path can read" in text


@pytest.mark.databases("sqlite")
@pytest.mark.nightly
def test_a_port_that_is_taken_is_an_error_unless_it_is_shared(alias, run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = run("--port", str(taken.getsockname()[1]))
        assert process.ended() == 1
    assert "is in use" in process.text
    first = run("--share-port")
    port = port_of(first)
    second = run("--share-port", "--port", str(port)).started()
    assert port_of(second) == port
    first.send(signal.SIGTERM)
    assert first.ended() == 0
    client = Client(port)
    assert client.Topology().clusterSize == 1
    client.close()


@pytest.mark.databases("postgresql")
def test_several_processes_share_a_port_and_one_that_dies_is_replaced(engine, run):
    process = run("--processes", "2", "--metrics-port", "0")

    def pids():
        lines = [line for line in process.out if "gateway for workers over gRPC, process" in line]
        return [int(line.rpartition(" ")[2]) for line in lines]

    until(lambda: sum("Press Ctrl-C" in line for line in process.out) == 2)
    assert len({line.split(",")[0] for line in process.out if "address:" in line}) == 1
    first = pids()[0]
    os.kill(first, signal.SIGKILL)
    process.said(f"Gateway process {first} (gateway-")
    until(lambda: sum("Press Ctrl-C" in line for line in process.out) == 3)
    port = int(next(line for line in process.out if "address:" in line).split(",")[0].rpartition(":")[2])
    client, job = Client(port), external_job("payment", database=engine)
    assert [got.key for got in client.activate("payment")] == [job.job_key]
    client.CompleteJob(jobKey=job.job_key)
    client.close()
    process.send(signal.SIGTERM)
    assert process.ended() == 0, process.text
    assert process.out.count("Drained.") == 2
    assert not [pid for pid in pids() if os.path.exists(f"/proc/{pid}")]
    assert "Traceback" not in process.text


@pytest.mark.databases("sqlite")
def test_processes_end_with_their_supervisor(alias, run):
    process = run("--processes", "2")
    until(lambda: sum("Press Ctrl-C" in line for line in process.out) == 2)
    process.send(signal.SIGKILL)
    until(lambda: process.out.count("Drained.") == 2)


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("arguments", "said"),
    some(
        [
            (["--tls-cert", "/nowhere.pem", "--tls-key", "/nowhere.key"], "--tls-key: /nowhere.key cannot"),
            (["--tls-cert", "/nowhere.pem"], "--tls-cert and --tls-key: expected both or neither"),
            (["--client-ca", "/nowhere.pem"], "--client-ca: expected --tls-cert and --tls-key"),
            (["--database", "nowhere"], "nowhere"),
            (["--address", "203.0.113.7"], "is in use, or is not an address of this machine"),
            (["--max-streams", "0"], "expected a whole number of at least 1"),
            (["--port", "99999"], "expected a whole number from 0 to 65535"),
            (["--processes", "0"], "expected a number of processes, at least 1, or auto, got '0'"),
            (["--processes", "many"], "at least 1, or auto, got 'many'"),
            (["--processes", "2", "--address", "203.0.113.7"], "203.0.113.7:0 cannot be used"),
        ],
        3,
        later="nightly",
    ),
)
def test_a_bad_option_is_named(alias, run, arguments, said):
    process = run(*arguments)
    assert process.ended() in (1, 2)
    assert said in process.text
    assert "Traceback" not in process.text


def test_without_the_extra_it_says_what_to_install():
    code = (
        "import sys; sys.modules['grpc'] = None\n"
        "from django.core.management import execute_from_command_line as run\n"
        "run(['manage.py', 'rungrpcgateway', '--skip-checks'])"
    )
    environment = databases.environment(None) | {"JOBEXEC_TEST_CONNECTIONS": ""}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "install jobexec with the extra 'grpc'" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.nightly
def test_two_gateways_give_each_job_once_and_wake_for_each_other(engine, run):
    clients = [Client(port_of(run())) for _ in range(2)]
    streams = [Streamed(client.stream("payment")) for client in clients]
    made = external_jobs("payment", [{}] * 100, database=engine)
    until(lambda: sum(len(stream.jobs) for stream in streams) == 100)
    assert sorted(job.key for stream in streams for job in stream.jobs) == sorted(job.job_key for job in made)
    for number, job in enumerate(job for stream in streams for job in stream.jobs):
        clients[number % 2].CompleteJob(jobKey=job.key)
    assert not ExternalWorkerJob.objects.using(engine).exists()
    for client in clients:
        client.close()
