"""The health port of real processes: while they start, while the database is away, while they drain, and of several."""

import json
import os
import signal
import socket

import pytest
from django.db import connections

from jobexec.models import ExecutorNode
from tests.support.machines import health, processes
from tests.support.machines.proxy import in_front_of, moved
from tests.support.threads import held
from tests.support.waiting import until

pytestmark = [pytest.mark.transactional, pytest.mark.databases("postgresql"), pytest.mark.slow]

PORT = ["--health-port", "0"]


def codes(process):
    return {probe: health.ask(process, probe).code for probe in ("startup", "ready", "live")}


def test_from_start_to_drain(alias, run, enqueue, trace):
    with held(alias) as inside:  # the node cannot be registered yet
        inside(lambda: connections[alias].cursor().execute(f"LOCK TABLE {ExecutorNode._meta.db_table}"))
        executor = run(*PORT, "--node", "here")
        assert codes(executor) == {"startup": 503, "ready": 503, "live": 200}
        assert health.ask(executor, "startup").body["reasons"] == ["the executor is starting"]
    until(lambda: codes(executor) == {"startup": 200, "ready": 200, "live": 200})
    enqueue("note", "one")
    enqueue("wait", "a", str(trace.go))
    until(lambda: health.ask(executor, "live").body["done_jobs"] == 1 and trace.lines().count("begun a") == 1)
    answer = health.ask(executor, "ready").body
    assert (answer["ok"], answer["reasons"], answer["status"]) == (True, [], "Ready: default")
    assert (answer["node"], answer["pid"], answer["busy_threads"]) == ("here", executor.pid, 1)
    assert answer["engines"]["default"]["lease_holds"] is True
    executor.send(signal.SIGTERM)
    until(lambda: health.ask(executor, "ready").code == 503)
    assert health.ask(executor, "ready").body["reasons"] == ["draining"]
    assert codes(executor) == {"startup": 200, "ready": 503, "live": 200}
    trace.go.touch()
    assert executor.ended() == 0, executor.text


def test_a_database_that_is_away_is_no_reason_to_be_killed(alias, run):
    addresses = json.loads(processes.environment(alias, JOBEXEC={})["JOBEXEC_TEST_CONNECTIONS"])
    with in_front_of(addresses["default"]) as proxy:
        through = json.dumps({"default": moved(addresses["default"], proxy)})
        executor = run(*PORT, env={"JOBEXEC_TEST_CONNECTIONS": through}, LEASE_TIME=2).started()
        until(lambda: health.ask(executor, "ready").code == 200)
        proxy.cut()
        until(lambda: health.ask(executor, "ready").code == 503)
        assert codes(executor) == {"startup": 200, "ready": 503, "live": 200}
        answer = health.ask(executor, "ready").body
        assert "no engine holds a valid lease" in answer["reasons"][0]
        assert answer["engines"]["default"] == {"lease_holds": False, "lease_seconds_left": 0.0}
        proxy.repair()
        until(lambda: health.ask(executor, "ready").code == 200)
        executor.send(signal.SIGTERM)
        assert executor.ended() == 0, executor.text


def states(process):
    return [each["state"] for each in health.ask(process, "live").body["processes"]]


@pytest.mark.nightly
def test_a_supervisor_answers_for_its_processes(alias, run, enqueue, trace):
    supervisor = run("--processes", "2", "--node", "pair", "--threads", "1", *PORT)
    assert health.ask(supervisor, "startup").code == 503
    until(lambda: codes(supervisor) == {"startup": 200, "ready": 200, "live": 200})
    until(lambda: states(supervisor) == ["serving", "serving"])
    answer = health.ask(supervisor, "ready").body
    nodes = {node.name: node.pid for node in ExecutorNode.objects.using(alias).all()}
    assert answer["pid"] == supervisor.pid
    assert {each["node"]: each["pid"] for each in answer["processes"]} == nodes
    assert [each["engines"]["default"]["lease_holds"] for each in answer["processes"]] == [True, True]
    os.kill(nodes["pair-1"], signal.SIGKILL)
    until(lambda: health.ask(supervisor, "live").body["processes"][0]["restarts"] == 1)
    assert codes(supervisor) == {"startup": 200, "ready": 200, "live": 200}, "the other one serves"
    until(lambda: states(supervisor) == ["serving", "serving"])
    enqueue("wait", "a", str(trace.go))
    until(lambda: trace.lines() == ["begun a"])
    supervisor.send(signal.SIGTERM)
    until(lambda: sorted(states(supervisor)) == ["draining", "ended"])
    assert codes(supervisor) == {"startup": 200, "ready": 503, "live": 200}
    trace.go.touch()
    assert supervisor.ended() == 0, supervisor.text


@pytest.mark.databases("sqlite")
def test_a_port_that_is_taken_is_said(alias, run):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        for arguments in ([], ["--max-jobs", "5"]):
            executor = run("--health-port", port, *arguments)
            assert executor.ended() == 1, executor.text
            expected = f"CommandError: --health-port {port}: cannot listen on '127.0.0.1': Address already in use."
            assert executor.err == [expected]
    assert not ExecutorNode.objects.using(alias).exists(), "it has not even started"
