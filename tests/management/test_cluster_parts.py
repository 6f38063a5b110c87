"""The parts of `manage.py jobbench cluster`: its strategies, its work, what a node notes and what becomes of it."""

import socket
from collections import Counter
from xml.etree import ElementTree

import pytest
from django.db import connections

from demo_project.benchmarks.cases.cluster import fill, work_of
from demo_project.benchmarks.measure import BenchError
from demo_project.benchmarks.nodes.cluster_report import ClusterReport
from demo_project.benchmarks.nodes.cluster_sample import ClusterSample, NodeRun
from demo_project.benchmarks.nodes.line import Line, LineCut
from demo_project.benchmarks.nodes.node import sleeping_job
from demo_project.benchmarks.nodes.recorder import Recorder, RoundRecord
from demo_project.benchmarks.nodes.strategies import STRATEGIES, chosen, overrides_of
from demo_project.benchmarks.sandbox import build_settings, overridden
from demo_project.benchmarks.server_cpu import ServerCpu, ServerThread
from jobexec.executor.waiting import Ladder, Round
from jobexec.models import Job
from tests.support.waiting import TIMEOUT, until

SERVERS = ("postgresql", "mariadb")


@pytest.fixture(autouse=True)
def engines(settings):
    settings.JOBEXEC = {"ENGINES": {alias: {} for alias in connections}}


def a_node(rounds, ended=(), **values):
    defaults = {"statements": 3, "statement_seconds": 0.5, "cpu": 1.0, "server_cpu": 0.25}
    return NodeRun(tuple(ended), tuple(RoundRecord(*record) for record in rounds), **defaults | values)


class TestStrategies:
    def test_all_is_each(self):
        assert chosen("all") == tuple(STRATEGIES)
        assert chosen("optimistic") == ("optimistic",)

    @pytest.mark.parametrize("name", STRATEGIES)
    def test_are_valid_settings_of_their_name(self, name):
        engine = build_settings("default", **overrides_of(name, {})).engine("default")
        assert name.startswith(engine.acquisition)
        assert engine.max_jobs_per_acquisition == (48 if name == "global_lock" else 3)
        assert bool(engine.backoff_time) is (name != "optimistic-no-backoff")

    def test_what_is_given_counts_for_all(self):
        given = {"max_jobs_per_acquisition": 7, "threads": None}
        assert {overrides_of(name, given)["max_jobs_per_acquisition"] for name in STRATEGIES} == {7}
        assert "threads" not in overrides_of("optimistic", given)


class TestWork:
    def test_is_random_and_the_same_for_the_same_seed(self):
        work = list(work_of(500, 1))
        assert work == list(work_of(500, 1)) != list(work_of(500, 2))
        assert [number for number, _, _ in work] == list(range(500))
        assert 0 <= min(each[1] for each in work) < 20 < 140 < max(each[1] for each in work) <= 160
        assert len({priority for _, _, priority in work}) == 20

    def test_is_enqueued_with_its_priorities(self, alias):
        with sleeping_job(alias, lambda number: None) as handler, overridden(build_settings(alias)):
            fill(handler, work_of(30, 1))
        rows = Job.objects.using(alias).values_list("handler_configuration", "priority")
        assert sorted((*row["args"], priority) for row, priority in rows) == list(work_of(30, 1))


class TestRecorder:
    def test_keeps_the_rounds_that_asked_and_passes_on_what_the_strategy_says(self, alias):
        recorder = Recorder(alias, Ladder(wait_time=5))
        assert recorder.page(3) == 3
        assert recorder.after(Round(requested=3, found=3, batches=1, lock_failures=2, elapsed=0.5)) > 0
        assert recorder.after(Round(requested=3, found=3, batches=3)) == 0
        recorder.after(Round(requested=0))
        assert [record[1:] for record in recorder.rounds] == [(3, 3, 1, 2, 0.5), (3, 3, 3, 0, 0.0)]
        assert recorder.rounds[0].at <= recorder.rounds[1].at

    def test_times_the_statements_of_the_thread_that_asks(self, alias):
        recorder = Recorder(alias, Ladder())
        Job.objects.using(alias).count()
        recorder.page(3)
        assert recorder.statements.count == 0
        recorder.page(3)
        Job.objects.using(alias).count()
        assert recorder.statements.count == 1
        assert recorder.statements.seconds > 0


def server_thread(alias):
    """The thread of the server that serves this connection; a server elsewhere has its times elsewhere."""
    thread = ServerThread.of(alias)
    if thread is None:
        pytest.skip("the server runs elsewhere")
    return thread


class TestServerThread:
    @pytest.mark.databases(*SERVERS)
    def test_its_time_passes_while_the_server_works(self, alias):
        thread = server_thread(alias)
        before = thread.seconds()
        until(lambda: Job.objects.using(alias).count() == 0 and thread.seconds() > before, TIMEOUT)

    @pytest.mark.databases("sqlite")
    def test_sqlite_has_no_server(self, alias):
        assert ServerThread.of(alias) is None

    @pytest.mark.databases(*SERVERS)
    def test_a_server_elsewhere_is_not_asked(self, alias, monkeypatch):
        monkeypatch.setitem(connections[alias].settings_dict, "HOST", "db.example.org")
        assert ServerThread.of(alias) is None

    def test_one_that_has_ended(self, tmp_path):
        assert ServerThread(tmp_path / "schedstat").seconds() is None


class TestServerCpu:
    @pytest.mark.transactional
    @pytest.mark.databases(*SERVERS)
    def test_counts_what_connections_use_that_are_there_at_the_last_look(self, alias):
        server_thread(alias)
        cpu = ServerCpu(alias)
        cpu.start()
        other = connections[alias].copy()
        with other.cursor() as cursor:
            for _ in range(200):
                cursor.execute("SELECT COUNT(*) FROM jobexec_job")
            cpu.look()
        used = cpu.seconds
        other.close()
        assert used > 0
        cpu.look()
        assert cpu.seconds >= used

    @pytest.mark.databases("sqlite")
    def test_of_sqlite_is_not_known(self, alias):
        cpu = ServerCpu(alias)
        cpu.start()
        cpu.look()
        assert cpu.seconds is None


class TestLine:
    @pytest.fixture
    def ends(self):
        pair = [Line(end) for end in socket.socketpair()]
        yield pair
        for end in pair:
            end.close()

    def test_carries_messages_in_order_however_they_are_cut(self, ends):
        one, other = ends
        one.send(first=1)
        one.send(second="x" * 3000)
        assert [other.receive(1), other.receive(1), other.receive(0)] == [{"first": 1}, {"second": "x" * 3000}, None]

    def test_says_when_the_other_end_is_gone(self, ends):
        one, other = ends
        one.close()
        with pytest.raises(LineCut):
            other.receive(1)
        with pytest.raises(LineCut):
            other.send(text="x" * 1_000_000)

    def test_a_number_that_is_no_socket(self):
        with pytest.raises(BenchError, match="was not started by a benchmark"):
            Line.inherited(987654)


class TestFigures:
    @pytest.fixture
    def sample(self):
        one = a_node([(0.1, 3, 3, 3, 0, 0.02), (0.2, 3, 3, 1, 2, 0.03)], [(0, 0.9), (1, 1.0), (2, 0.5), (3, 0.4)])
        other = a_node([(0.1, 3, 3, 0, 3, 0.04), (0.9, 6, 0, 0, 0, 0.01), (1.2, 6, 1, 1, 0, 0.01)], [(4, 1.5)])
        return ClusterSample.of(5, [one, other])

    def test_are_those_of_all_nodes_together(self, sample):
        assert (sample.jobs, sample.seconds, sample.cpu) == (5, 1.5, 2.0)
        assert (sample.total("acquired"), sample.total("lock_failures"), sample.rounds) == (5, 5, 5)
        assert sample.total("acquisition_seconds") == pytest.approx(0.11)
        assert (sample.failures_per_100, sample.total("pages"), sample.server_cpu) == (100, 3, 0.5)
        assert sample.page == pytest.approx(5 / 3)

    def test_server_cpu_is_unknown_if_that_of_any_node_is(self):
        assert ClusterSample.of(0, [a_node([]), a_node([], server_cpu=None)]).server_cpu is None

    def test_timeline_counts_by_span_and_what_came_late_in_the_last(self, sample):
        assert sample.nodes[0].timeline(0.15, 3) == ([3, 1, 0], [0, 2, 0])
        assert sample.nodes[1].timeline(0.15, 3) == ([0, 0, 1], [3, 0, 0])

    def test_moments_are_counted_from_the_beginning(self):
        report = {"ended": [[7, 101.5]], "rounds": [[100.5, 3, 3, 3, 0, 0.1]], "statements": 4}
        node = NodeRun.of(report | {"statement_seconds": 0.1, "cpu": 1, "server_cpu": None}, 100.0)
        assert (node.ended, node.rounds[0].at) == (((7, 1.5),), 0.5)

    def test_report_for_people_and_as_a_chart(self, sample):
        longer = ClusterSample(5, 3.0, 2.0, nodes=sample.nodes)
        samples = {"skip_locked": [sample, longer, longer], "optimistic": [sample] * 3}
        values = {name: [run.seconds for run in runs] for name, runs in samples.items()}
        report = ClusterReport(
            "cluster", "default", "s", samples, values, {"threads": 4}, {"Python": "3"}, nodes=2, ideal=1.25
        )
        text = "\n".join(report.as_text())
        assert text.startswith("cluster on 'default': 2 nodes of 4 threads, 5 jobs a run, 3 runs of each in turn")
        assert "Sleeping alone takes 1.2 s." in text
        row = next(line for line in text.splitlines() if line.startswith("skip_locked"))
        assert "3.0 (1.5 - 3.0)" in row and "5 (5 - 5)" in row and " 100.0 " in row
        assert "4 / 2 / 2" in text and "1 / 3 / 3" in text
        assert "Each job was done exactly once." in text
        document = ElementTree.fromstring(report.as_svg())
        labels = Counter(item.text for item in document.iter("{http://www.w3.org/2000/svg}text"))
        assert (labels["skip_locked, node 1"], labels["optimistic, node 1"], labels["node 2"]) == (1, 1, 2)
        assert report.as_json()["strategies"]["skip_locked"]["seconds"] == 3.0
