"""`manage.py jobbench` with several processes; no figure is judged here."""

import json
import os
import signal
import sys
from functools import partial
from xml.etree import ElementTree

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from demo_project.benchmarks.server_cpu import ServerThread
from jobexec.models import JOB_TABLES, ExecutorNode, Job, JobDefinition, JobLog
from tests.support.machines.processes import Process, alive
from tests.support.suite import databases
from tests.support.waiting import TIMEOUT, until


@pytest.fixture(autouse=True)
def engines(settings):
    settings.JOBEXEC = {"ENGINES": {alias: {} for alias in connections}, "THREADS": 2, "WAIT_TIME": 0.01}


@pytest.fixture
def start(alias):
    """A function that starts the command on the test's database: `start("cluster", "--nodes", "2")`."""
    started = []

    def start(*arguments):
        environment = databases.environment(alias, JOBEXEC={"THREADS": 4}) | {"PYTHONUNBUFFERED": "1"}
        started.append(
            Process([sys.executable, str(databases.ROOT / "manage.py"), "jobbench", *arguments], environment)
        )
        return started[-1]

    yield start
    for process in started:
        process.close()


@pytest.fixture
def cluster(start):
    """A function that starts this case: `cluster("--nodes", "2")`."""
    return partial(start, "cluster")


def rows(alias):
    """Everything that is in the tables that a benchmark writes to."""
    tables = (*JOB_TABLES, JobLog, ExecutorNode)
    definitions = JobDefinition.objects.using(alias).filter(pk__startswith="jobexec.bench.")
    return definitions.count() + sum(table._base_manager.using(alias).count() for table in tables)


def children_of(process):
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        return [int(pid) for pid in file.read().split()]


@pytest.mark.slow
@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")
class TestCommand:
    def test_two_nodes_do_each_job_once_and_report(self, alias, cluster, tmp_path):
        chart = tmp_path / "chart.svg"
        arguments = ["--nodes", "2", "--jobs", "60", "--repeat", "1", "--strategy", "optimistic", "--threads", "3"]
        process = cluster(*arguments, "--json", "--svg", str(chart))
        assert process.ended() == 0, process.text
        found = json.loads("\n".join(process.out))

        assert list(found) == ["case", "engine", "ours", "raw", "ratio", "strategies", "details"]
        assert found["ours"] == found["strategies"]["optimistic"]["seconds"]
        assert found["raw"] == found["details"]["ideal"]
        assert (found["case"], found["engine"], list(found["strategies"])) == ("cluster", "default", ["optimistic"])
        details = found["details"]
        assert (details["jobs"], details["nodes"], details["repeat"], details["exactly_once"]) == (60, 2, 1, True)
        assert (details["settings"]["threads"], details["settings"]["pages"]) == (3, {"optimistic": 3})
        run = details["runs"]["optimistic"]
        assert sum(node["jobs"] for node in run["nodes"]) == 60
        assert sum(node["acquired"] for node in run["nodes"]) == 60
        timeline = run["timeline"]["nodes"]
        assert sum(sum(node["acquired"]) for node in timeline) == 60
        figures = found["strategies"]["optimistic"]
        assert sum(sum(node["lock_failures"]) for node in timeline) == figures["lock_failures"]
        assert figures["seconds"] >= details["ideal"] > 0
        assert figures["rounds"] >= figures["pages"] > 0
        if ServerThread.of(alias) is None:  # the server runs elsewhere
            assert figures["server_cpu_seconds"] is None
        else:
            assert figures["server_cpu_seconds"] > 0
        assert figures["acquisition_seconds"] > figures["statement_seconds"] > 0

        document = ElementTree.parse(chart).getroot()
        labels = [text.text for text in document.iter("{http://www.w3.org/2000/svg}text")]
        assert {"optimistic, node 1", "node 2", "jobs acquired", "lock failures"} <= set(labels)
        assert rows(alias) == 0


@pytest.mark.slow
@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")
class TestDrain:
    @pytest.mark.nightly
    def test_two_executors_and_two_raw_loops_do_each_job_once(self, alias, start):
        process = start("drain", "--processes", "2", "--jobs", "60", "--repeat", "1", "--json")
        assert process.ended() == 0, process.text
        found = json.loads("\n".join(process.out))
        assert (found["case"], found["details"]["processes"], found["details"]["jobs"]) == ("drain", 2, 60)
        assert found["ours"] > 0 and found["raw"] > 0
        assert all(run["cpu_us_per_job"]["median"] > 0 for run in found["details"]["runs"].values())
        assert rows(alias) == 0


@pytest.mark.slow
@pytest.mark.transactional
@pytest.mark.databases("postgresql")
class TestEnd:
    """However it ends, no node outlives the benchmark."""

    @pytest.fixture
    def running(self, alias, cluster):
        """A cluster in the midst of its work, and the ids of its nodes' processes."""
        process = cluster("--nodes", "2", "--jobs", "3000", "--strategy", "skip_locked", "--threads", "1")
        until(lambda: ExecutorNode.objects.using(alias).count() == 2, TIMEOUT)
        nodes = children_of(process)
        assert len(nodes) == 2
        return process, nodes

    @pytest.mark.nightly
    def test_ctrl_c_ends_the_nodes_and_removes_the_rows(self, alias, running):
        process, nodes = running
        process.send(signal.SIGINT)
        assert process.ended() == 130, process.text
        assert not any(map(alive, nodes))
        assert rows(alias) == 0

    @pytest.mark.nightly
    def test_a_node_that_dies_ends_the_benchmark_and_the_other_node(self, alias, running):
        process, nodes = running
        os.kill(nodes[0], signal.SIGKILL)
        assert process.ended() == 1, process.text
        assert "has ended with exit code -9" in process.text
        assert not any(map(alive, nodes))
        assert not Job.objects.using(alias).exists()

    @pytest.mark.nightly
    def test_nodes_end_by_themselves_when_the_benchmark_is_killed(self, alias, running):
        process, nodes = running
        process.send(signal.SIGKILL)
        until(lambda: not any(map(alive, nodes)), TIMEOUT)
        assert not ExecutorNode.objects.using(alias).exists()
        assert not Job.objects.using(alias).exclude(lock_owner=None).exists()


class TestWrongUsage:
    @pytest.mark.databases("sqlite")
    def test_sqlite_has_no_cluster(self, alias):
        with pytest.raises(CommandError, match="is on SQLite, which only one executor at a time may serve"):
            call_command("jobbench", "cluster", engine=alias)

    @pytest.mark.transactional
    @pytest.mark.databases("postgresql")
    def test_its_nodes_need_the_command_line(self, alias, monkeypatch):
        monkeypatch.setattr(sys, "argv", ["pytest"])
        with pytest.raises(CommandError, match=r"run it as manage\.py jobbench"):
            call_command("jobbench", "cluster", engine=alias, jobs=1, repeat=1)
        assert not Job.objects.using(alias).exists()

    @pytest.mark.parametrize("option", [{"nodes": 2}, {"strategy": "all"}, {"seed": 0}])
    def test_its_options_are_for_it_only(self, option):
        name = next(iter(option)).replace("_", "-")
        with pytest.raises(CommandError, match=f"--{name}: only for the case cluster, got drain"):
            call_command("jobbench", "drain", **option)

    @pytest.mark.parametrize("option", ["--nodes=0", "--strategy=best"])
    def test_values_that_cannot_be(self, option):
        with pytest.raises(CommandError, match=option[2:].split("=")[0]):
            call_command("jobbench", "cluster", option)

    @pytest.mark.slow
    @pytest.mark.django_db
    def test_a_chart_that_cannot_be_written_is_refused_before_anything_runs(self, tmp_path):
        with pytest.raises(CommandError, match=r"--svg: .*missing"):
            call_command("jobbench", "cluster", svg=tmp_path / "missing" / "chart.svg")
