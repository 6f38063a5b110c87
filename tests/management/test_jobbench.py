"""`manage.py jobbench`: that it measures what it says and leaves nothing behind. No figure is judged here."""

import asyncio
import json
import re
import signal
import time
from datetime import date, timedelta
from inspect import iscoroutinefunction
from io import StringIO
from xml.etree import ElementTree

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from demo_project.benchmarks import kinds, slow_service
from demo_project.benchmarks.bulk import multiply
from demo_project.benchmarks.cases import CASES
from demo_project.benchmarks.cases.exclusive import Siblings
from demo_project.benchmarks.cases.handlers import Handlers
from demo_project.benchmarks.cases.upkeep.backlog import Backlog
from demo_project.benchmarks.cases.upkeep.batch import Requeue
from demo_project.benchmarks.cases.upkeep.bloat import rates_of
from demo_project.benchmarks.cases.upkeep.idle import Statements
from demo_project.benchmarks.cases.upkeep.retries import RetryQueue
from demo_project.benchmarks.cases.upkeep.timers import Move
from demo_project.benchmarks.kinds import KINDS, is_async
from demo_project.benchmarks.measure import BenchError, Plan, Sample
from demo_project.benchmarks.noop import BACKLOG_HANDLER, CATEGORY, CompactLedger, Ledger, check_once, fill, registered
from demo_project.benchmarks.processes import chain_of_tasks, processes, started
from demo_project.benchmarks.progress import Bar
from demo_project.benchmarks.raw import starting
from demo_project.benchmarks.raw.drain import number_of
from demo_project.benchmarks.raw.log import LoggingQueue
from demo_project.benchmarks.raw.on_event_loop import close_connection
from demo_project.benchmarks.raw.queue import RawQueue
from demo_project.benchmarks.raw.resuming import ResumingQueue
from demo_project.benchmarks.raw.sql import RawConnection
from demo_project.benchmarks.raw.stepping import StepLoop
from demo_project.benchmarks.report import Report
from demo_project.benchmarks.sampler import Sampler, slope
from demo_project.benchmarks.sandbox import build_settings, overridden, remove_rows
from demo_project.benchmarks.server_cpu import ServerThread
from demo_project.bookings.models import Booking
from jobexec import clock, signals
from jobexec.conf import get_settings
from jobexec.handlers.registry import all_handlers
from jobexec.models import JOB_TABLES, BlockedJob, DeadLetterJob, ExecutorNode, Job, JobDefinition, JobLog, TimerJob
from jobexec.processes.models import ActivityInstance, Execution, ProcessDefinition, ProcessInstance, Variable
from tests.support.factories import make_job, make_node, make_row
from tests.support.suite.tiers import some

#: The cases that have the raw SQL of the same work beside them and run in this process; those that start others are in
#: test_cluster.py and test_bench_external.py; that which needs a broker is in test_bench_broker.py.
SIDE_BY_SIDE = [name for name in CASES if name not in ("cluster", "external", "broker")]

#: Those whose jobs are not run, or not by the queue of the raw SQL.
OF_ANOTHER_KIND = ("enqueue", "enqueue_many", "latency", "idle", "timers", "batch", "admin", "permits")


@pytest.fixture(autouse=True)
def engines(settings):
    """Every database is an engine, and polls often enough for a test."""
    settings.JOBEXEC = {"ENGINES": {alias: {} for alias in connections}, "THREADS": 2, "WAIT_TIME": 0.01}


PROCESS_TABLES = (ProcessDefinition, ProcessInstance, Execution, Variable, ActivityInstance)

#: What makes each case small.
TINY = {
    "backlog": {"timers": 7, "dead_letters": 6, "log": 5, "foreign": 4, "blocked": 3},
    "idle": {"seconds": 1, "jobs": None},
    "async": {"wait": 0.01},
    "payload": {"payload": 1},
    "permits": {"blocked": 20},
    "processes": {"instances": 7},
}


UUID_TEXT = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def plan_for(alias, **options):
    """What a case is told that is called without the command."""
    return Plan(alias, 5, 1, build_settings(alias), options=options)


def bench(case, alias, **options):
    out = StringIO()
    options = {"jobs": 5, "repeat": 1} | TINY.get(case, {}) | options
    call_command("jobbench", case, engine=alias, **options, stdout=out)
    return out.getvalue()


def texts(path):
    """Everything that is written in a chart."""
    return [text.text for text in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def rows(alias):
    """Everything that is in the tables that a benchmark writes to, except what each executor writes."""
    tables = (*JOB_TABLES, JobLog, ExecutorNode, *PROCESS_TABLES)
    definitions = JobDefinition.objects.using(alias).filter(pk__startswith="jobexec.bench.")
    return definitions.count() + sum(table._base_manager.using(alias).count() for table in tables)


@pytest.mark.transactional
class TestEachCase:
    @pytest.mark.gate
    @pytest.mark.parametrize("case", some(SIDE_BY_SIDE, 6, later="nightly"))
    def test_prints_one_json_object_and_removes_its_rows(self, alias, case):
        before, handlers = get_settings(), all_handlers()
        found = json.loads(bench(case, alias, json=True))

        assert list(found) == ["case", "engine", "ours", "raw", "ratio", "details"]
        assert (found["case"], found["engine"]) == (case, alias)
        assert found["ours"] > 0 and found["raw"] > 0
        assert found["ratio"] == pytest.approx(found["ours"] / found["raw"], rel=0.01, abs=0.0001)
        details = found["details"]
        assert (details["repeat"], details["exactly_once"]) == (1, True)
        done = {"idle": ("seconds", 1), "admin": ("pages", details.get("pages"))}.get(case, ("jobs", 5))
        assert details[done[0]] == done[1] > 0
        assert {"ours", "raw"} <= details["runs"].keys()
        run = details["runs"]["ours"]
        assert {"median", "min", "max", "values", "cpu_us_per_job", "server_cpu_us_per_job"} <= run.keys()
        assert run["min"] <= run["median"] <= run["max"] and len(run["values"]) == 1
        if ServerThread.of(alias) is None:  # SQLite, or the server runs elsewhere
            assert run["server_cpu_us_per_job"] is None
        else:
            assert run["server_cpu_us_per_job"]["median"] > 0
        if case == "latency":
            assert list(details["runs"]["ours"]["percentiles_ms"]) == ["p50", "p90", "p99", "max"]
        assert {"threads", "page", "raw page", "history"} <= details["settings"].keys()
        assert {"Python", "Django"} <= details["versions"].keys()

        assert rows(alias) == 0
        assert get_settings() == before
        assert all_handlers() == handlers

    def test_prints_a_table_for_people(self, alias):
        text = bench("drain", alias, repeat=2, threads=1, page=2)
        assert text.startswith(f"drain on {alias!r}: 5 jobs a run, 2 runs of each in turn")
        assert "threads 1, " in text and "page 2, raw page 2, history failures" in text
        assert "Each job was done exactly once." in text
        assert "Django" in text

    @pytest.mark.gate
    def test_history_is_written_and_removed(self, alias):
        bench("drain", alias, history="full")
        assert not JobLog.objects.using(alias).exists()

    @pytest.mark.gate
    @pytest.mark.databases("sqlite")
    def test_draws_a_bar_for_each_contender(self, alias, tmp_path):
        chart = tmp_path / "chart.svg"
        bench("history", alias, svg=chart)
        assert {"ours", "raw", "ours, without history", "history, jobs/s"} <= set(texts(chart))


@pytest.mark.transactional
class TestExactlyOnce:
    """A contender that loses or repeats a job is refused, whoever it is."""

    #: Cases in which jobs are run, and so could be lost or repeated.
    RUNNING = [case for case in SIDE_BY_SIDE if case not in OF_ANOTHER_KIND]

    @pytest.mark.gate
    @pytest.mark.parametrize("case", some(RUNNING, 6, later="nightly"))
    def test_ours_that_repeats_a_job_is_refused(self, alias, case, monkeypatch):
        ledger = CompactLedger if case in ("soak", "children") else Ledger
        note = ledger.note

        def twice(self, number):
            note(self, number)
            if number == 3:
                note(self, number)

        monkeypatch.setattr(ledger, "note", twice)
        with pytest.raises(CommandError, match=r"exactly once|different ones|No job ran"):
            bench(case, alias)
        assert rows(alias) == 0

    @pytest.mark.gate
    @pytest.mark.databases("sqlite")
    @pytest.mark.parametrize("case", some(RUNNING, 6, later="nightly"))
    def test_raw_sql_that_repeats_a_job_is_refused(self, alias, case, monkeypatch):
        turn, step = RawQueue.turn, StepLoop._step
        monkeypatch.setattr(RawQueue, "turn", lambda self, done: (found := turn(self, done)) + found[:1])
        monkeypatch.setattr(StepLoop, "_step", lambda *args: [step(*args) for _ in range(2)])
        with pytest.raises(CommandError, match=r"exactly once|different ones|No job ran"):
            bench(case, alias)
        assert rows(alias) == 0

    @pytest.mark.gate
    @pytest.mark.databases("sqlite")
    @pytest.mark.parametrize("case", some(RUNNING, 6, later="nightly"))
    def test_raw_sql_that_loses_a_job_is_refused(self, alias, case, monkeypatch):
        turn, step = RawQueue.turn, StepLoop._step

        def lossy(self, done):
            found = turn(self, done)
            return found[1:]

        monkeypatch.setattr(RawQueue, "turn", lossy)
        monkeypatch.setattr(StepLoop, "_step", lambda self, *which: which[1] == 1 or step(self, *which))
        monkeypatch.setattr(CompactLedger.wait, "__defaults__", (0.5,))  # the soak waits for what is lost
        with pytest.raises(CommandError, match=r"exactly once|different ones|No job ran"):
            bench(case, alias)
        assert rows(alias) == 0

    @pytest.mark.gate
    @pytest.mark.parametrize("case", ["flows", "processes"])
    def test_the_last_instance_has_the_steps_that_remain(self, alias, case):
        details = json.loads(bench(case, alias, json=True, jobs=13))["details"]
        assert details["jobs"] == 13
        assert rows(alias) == 0

    @pytest.mark.gate
    def test_the_soak_retries_some_jobs(self, alias):
        failed = []

        def note(sender, job, **values):
            failed.append(job.pk)

        signals.job_failed.connect(note)
        try:
            bench("soak", alias, jobs=60)
        finally:
            signals.job_failed.disconnect(note)
        assert len(failed) == len(set(failed)) == 3

    @pytest.mark.gate
    def test_a_timer_that_is_lost_is_told(self, alias, monkeypatch):
        move = Move.page

        def lossy(self):
            count = move(self)
            Job.objects.using(alias).order_by("pk").first().delete()
            return count if count == 5 else 0

        monkeypatch.setattr(Move, "page", lossy)
        with pytest.raises(CommandError, match="Not each job became executable exactly once: 5 jobs, 3 counted"):
            bench("timers", alias)
        assert rows(alias) == 0

    @pytest.mark.gate
    def test_a_dead_letter_that_is_lost_is_told(self, alias, monkeypatch):
        page = Requeue.page

        def lossy(self):
            count = page(self)
            Job.objects.using(alias).filter(retries=3).order_by("pk").first().delete()
            return 0 if count < 5 else count

        monkeypatch.setattr(Requeue, "page", lossy)
        with pytest.raises(CommandError, match="Not each job was requeued exactly once: 5 jobs, 3 counted"):
            bench("batch", alias)
        assert rows(alias) == 0

    @pytest.mark.gate
    def test_a_loop_that_resumes_takes_each_job_once(self, alias):
        found = json.loads(bench("bloat", alias, json=True, jobs=23, page=4))
        assert found["details"]["runs"]["raw, resumed"]["median"] > 0

    def test_a_loop_that_resumes_begins_where_it_was(self, alias):
        with overridden(build_settings(alias)), registered(alias, lambda number: None) as handler:
            fill(handler, 6)
        with RawConnection(alias) as connection:
            queue = ResumingQueue(alias, connection, 4)
            first = queue.lock()
            Job.objects.using(alias).filter(pk=first[0][0]).update(lock_owner=None)
            numbers = sorted(number_of(row) for row in first), sorted(number_of(row) for row in queue.lock())
        assert numbers == ([0, 1, 2, 3], [4, 5])

    @pytest.mark.gate
    def test_a_retry_that_does_not_wait_is_told(self, alias, monkeypatch):
        monkeypatch.setattr(RetryQueue, "settling", RawQueue.settling)
        with pytest.raises(CommandError, match="Not each job waits for its retry exactly once: 5 jobs, 0 counted"):
            bench("retries", alias)

    @pytest.mark.databases("sqlite")
    def test_siblings_that_meet_are_refused(self, alias, monkeypatch):
        ledger = Ledger(2)
        siblings = Siblings(ledger)
        monkeypatch.setattr(ledger, "note", lambda number: siblings.note(1) if number == 0 else None)
        siblings.note(0)
        with pytest.raises(BenchError, match="side by side: 0 and 1"):
            siblings.check()

    @pytest.mark.gate
    def test_log_rows_that_are_missing_are_told(self, alias, monkeypatch):
        monkeypatch.setattr(LoggingQueue, "settling", RawQueue.settling)
        with pytest.raises(CommandError, match="5 jobs have ended, 0 log rows say so"):
            bench("history", alias)


@pytest.mark.transactional
class TestKindsOfHandlers:
    """Real work: queries of the benchmark's own rows, calls of a server in another process."""

    @pytest.mark.gate
    @pytest.mark.parametrize("kind", some(list(KINDS), 4, later="nightly"))
    def test_each_is_done_by_ours_and_by_raw_sql(self, alias, kind):
        details = json.loads(bench("handlers", alias, handler=kind, json=True))["details"]
        assert (details["handler"], details["processes"], details["exactly_once"]) == (kind, 1, True)
        fewer = set() if is_async(kind) else {"ours, threads 1"}
        assert details["runs"].keys() == {"ours", "raw"} | fewer
        assert rows(alias) == 0
        assert not Booking.objects.using(alias).exists()

    def test_orm_reads_a_row_and_writes_it(self, alias, django_assert_num_queries):
        with KINDS["orm"](alias) as work:
            with django_assert_num_queries(2, using=alias):
                work(7)
            written = Booking.objects.using(alias).filter(reminded_at__isnull=False)
            assert [written.count(), Booking.objects.using(alias).count() > 1] == [1, True]
        remove_rows(alias)
        assert not Booking.objects.using(alias).exists()

    def test_async_orm_reads_a_row(self, alias):
        statements = Statements()
        close_connection(alias)  # of another test of coroutines
        with KINDS["async-orm"](alias) as work, statements.of_new_connections():
            try:
                asyncio.run(work(7))
            finally:
                close_connection(alias)
        assert statements.count >= 1
        assert iscoroutinefunction(work)

    def test_http_waits_for_another_process(self):
        with KINDS["http"]("default") as work:
            began = time.perf_counter()
            for number in range(3):
                work(number)
            assert time.perf_counter() - began >= 3 * slow_service.SECONDS
        with pytest.raises(OSError):
            work(0)

    def test_a_server_that_does_not_start_is_told(self, monkeypatch):
        monkeypatch.setattr(slow_service.sys, "executable", "/bin/true")
        with pytest.raises(slow_service.ServiceError, match="did not start"), slow_service.running():
            pass

    def test_bookings_of_a_killed_benchmark_are_removed_and_those_of_the_project_stay(self, alias):
        trip = {"city": "Rome", "arrival": date(2026, 1, 1), "departure": date(2026, 1, 4)}
        for email in (kinds._EMAIL, "somebody@example.com"):
            Booking.objects.using(alias).create(visitor="x", email=email, **trip)
        bench("enqueue", alias)
        assert [each.email for each in Booking.objects.using(alias).all()] == ["somebody@example.com"]

    @pytest.mark.parametrize("kind", ["orm", "http", "async-orm"])
    def test_a_job_that_fails_ends_the_raw_loop(self, alias, kind, monkeypatch):
        monkeypatch.setattr(Ledger, "note", lambda self, number: 1 / 0)
        case = Handlers(plan_for(alias, handler=kind))
        with overridden(case.plan.settings), pytest.raises(BenchError, match="The raw loop has failed: division"):
            case.raw()


@pytest.mark.transactional
class TestRawStarts:
    """The raw SQL of the starts of instances."""

    @pytest.mark.gate
    @pytest.mark.parametrize("before", [False, True])
    def test_writes_the_rows_of_a_start(self, alias, before):
        with overridden(build_settings(alias)), processes(alias), registered(alias, lambda number: None):
            ours = started(alias, chain_of_tasks(3, before=before))
            raw = starting.Start(alias, ours)
            starting.start_all(alias, [raw.again(-1), raw.again(-2)])
            starting.check(alias, "jobbench", {table: 3 * count for table, count in raw.counts().items()})
            found = ProcessInstance.objects.using(alias).order_by("-key").values_list("pk", flat=True)
            first, *others = (written(alias, instance) for instance in found)
        assert raw.counts()[Job] == (1 if before else 0)
        assert raw.counts()[ActivityInstance] == (1 if before else 5)
        assert others == [first, first]
        assert rows(alias) == 0

    @pytest.mark.gate
    def test_one_that_is_lost_is_told(self, alias, monkeypatch):
        run = starting.run

        def lossy(connection, cursor, statements):
            if not any(-2 in values for _, values in statements):  # the key of the second instance
                run(connection, cursor, statements)

        monkeypatch.setattr(starting, "run", lossy)
        with pytest.raises(CommandError, match=r"Raw SQL: \d+ rows of \w+, \d+ were to be written"):
            bench("processes", alias, jobs=13)
        assert rows(alias) == 0

    @pytest.mark.gate
    def test_the_report_compares_with_them(self, alias):
        details = json.loads(bench("processes", alias, json=True, jobs=13))["details"]
        assert {"start to raw, start", "start, waits to raw, start, waits"} <= details["ratios"].keys()


def written(alias, instance):
    """What a start has written: each row of each table, its ids by the order in which they appear."""
    found, seen = [], {}
    for table, _ in starting._rows_of(alias, instance):
        for row in table._base_manager.using(alias).filter(**{starting._TABLES[table]: instance}).order_by("pk"):
            values = {field.attname: getattr(row, field.attname) for field in table._meta.concrete_fields}
            if table is ProcessInstance:
                del values["key"]
            text = json.dumps(values, default=str, sort_keys=True)
            found.append((table, re.sub(UUID_TEXT, lambda match: str(seen.setdefault(match[0], len(seen))), text)))
    return found


@pytest.mark.transactional
class TestBacklog:
    @pytest.mark.gate
    def test_lies_in_the_tables_while_the_last_runs_are_made_and_is_gone_afterwards(self, alias, monkeypatch):
        seen, run = [], Backlog.raw

        def look(self):
            tables = (TimerJob, DeadLetterJob, JobLog, BlockedJob, Job)
            seen.append([table._base_manager.using(alias).count() for table in tables])
            return run(self)

        monkeypatch.setattr(Backlog, "raw", look)
        found = json.loads(bench("backlog", alias, json=True))
        with_permits = 4 + 5
        assert seen == [[0] * 5, [7, 6, 5, 3, with_permits], [0] * 5]
        assert set(found["details"]["ratios"]) == {"ours to ours, empty", "raw to raw, empty"}
        assert found["details"]["backlog"] == TINY["backlog"]
        assert rows(alias) == 0

    @pytest.mark.gate
    def test_rows_of_the_project_stay(self, alias):
        timer = make_job(alias, due_date=clock.now(alias) + timedelta(hours=1))
        bench("backlog", alias)
        assert list(TimerJob.objects.using(alias).values_list("pk", flat=True)) == [timer.pk]

    def test_what_is_multiplied_is_readable(self, alias):
        now = clock.now(alias)
        row = TimerJob(category=CATEGORY, handler_type=BACKLOG_HANDLER, due_date=now)
        row.save(using=alias)
        multiply(row, 4, later="due_date")
        found = list(TimerJob.objects.using(alias).order_by("due_date"))
        assert [round((each.due_date - now).total_seconds()) for each in found] == [0, 1, 2, 3]
        assert len({each.pk for each in found}) == 4

    @pytest.mark.gate
    def test_one_that_was_killed_is_removed(self, alias):
        make_row(DeadLetterJob, alias, category=CATEGORY, handler_type=BACKLOG_HANDLER)
        bench("enqueue", alias)
        assert rows(alias) == 0


@pytest.mark.transactional
class TestOwnJobs:
    """What the project has in its tables is neither run nor removed."""

    def test_refuses_while_an_executor_is_alive(self, alias):
        make_node(alias, "somebody")
        with pytest.raises(CommandError, match=r"Executors are alive on .*: somebody\. .*--force"):
            bench("enqueue", alias)

    def test_refuses_while_jobs_are_executable(self, alias):
        make_job(alias)
        with pytest.raises(CommandError, match=r"1 executable jobs and 0 due timers .*--force"):
            bench("enqueue", alias)
        assert Job.objects.using(alias).count() == 1

    def test_refuses_while_timers_are_due(self, alias):
        timer = make_job(alias, due_date=clock.now(alias) + timedelta(hours=1))
        type(timer).objects.using(alias).update(due_date=clock.now(alias) - timedelta(hours=1))
        with pytest.raises(CommandError, match="0 executable jobs and 1 due timers"):
            bench("drain", alias)

    @pytest.mark.gate
    @pytest.mark.parametrize("case", ["enqueue", "drain"])
    def test_runs_by_force_and_leaves_them_alone(self, alias, case):
        job = make_job(alias)
        bench(case, alias, force=True)
        assert list(Job.objects.using(alias).values_list("pk", "lock_owner")) == [(job.pk, None)]

    @pytest.mark.gate
    def test_a_category_of_the_same_name_is_not_emptied(self, alias):
        job = make_row(Job, alias, category=CATEGORY)
        bench("enqueue", alias, force=True)
        assert Job.objects.using(alias).filter(pk=job.pk).exists()

    @pytest.mark.gate
    def test_what_a_killed_benchmark_left_is_removed(self, alias):
        make_row(Job, alias, category=CATEGORY, handler_type="jobexec.bench.noop")
        bench("drain", alias)
        assert not Job.objects.using(alias).exists()

    @pytest.mark.gate
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_ctrl_c_removes_its_rows(self, alias, monkeypatch, number):
        def interrupt(*args):
            signal.raise_signal(number)

        monkeypatch.setattr(Ledger, "wait", interrupt)
        with pytest.raises(CommandError, match="Interrupted") as caught:
            bench("drain", alias)
        assert caught.value.returncode == 130
        assert not Job.objects.using(alias).exists()
        assert not ExecutorNode.objects.using(alias).exists()


class TestProgress:
    def draw(self, width=200):
        written = []
        with Bar(written.append, "utf-8") as bar:
            bar.run("drain, ours", 2, 4)
            bar.follow(lambda: 500, 1000)
            line = bar.line()
        return line, written

    def test_a_bar_shows_how_far_all_runs_are(self):
        line, written = self.draw()
        assert " 38%  run 2 of 4  drain, ours" in line
        assert line.endswith("500 of 1,000")
        assert line.count("━") == round(0.375 * 28)
        assert written[-1] == "\r\x1b[K"

    def test_a_terminal_that_knows_no_unicode(self):
        assert Bar(lambda text: None, "ascii").line().startswith("............................   0%")

    @pytest.mark.gate
    @pytest.mark.transactional
    @pytest.mark.databases("sqlite")
    @pytest.mark.parametrize("verbosity, lines", [(1, 0), (2, 3)])
    def test_without_a_terminal_lines_come_only_if_asked_for(self, alias, verbosity, lines):
        err = StringIO()
        bench("drain", alias, stderr=err, verbosity=verbosity)
        assert err.getvalue().count("run ") == lines

    @pytest.mark.gate
    @pytest.mark.transactional
    @pytest.mark.databases("sqlite")
    def test_a_terminal_gets_a_bar_that_is_gone_at_the_end(self, alias, monkeypatch):
        err = StringIO()
        monkeypatch.setattr(err, "isatty", lambda: True)
        bench("idle", alias, stderr=err)
        assert "idle, raw" in err.getvalue()
        assert err.getvalue().endswith("\r\x1b[K")


class TestWrongUsage:
    @pytest.mark.django_db
    def test_an_alias_that_is_no_engine(self):
        with pytest.raises(CommandError, match="'nowhere' is not a job engine"):
            bench("drain", "nowhere")

    @pytest.mark.parametrize("option", ["--jobs=0", "--repeat=x", "--history=much"])
    def test_values_that_cannot_be(self, option):
        with pytest.raises(CommandError, match=option[2:].split("=")[0]):
            call_command("jobbench", "drain", option)

    @pytest.mark.django_db
    def test_a_setting_that_cannot_be(self):
        with pytest.raises(CommandError, match="THREADS"):
            bench("drain", "default", threads=0)

    @pytest.mark.databases("sqlite")
    def test_a_database_in_memory(self, alias, monkeypatch):
        monkeypatch.setattr(connections[alias], "is_in_memory_db", lambda: True)
        with pytest.raises(CommandError, match="in memory"):
            bench("drain", alias)

    @pytest.mark.parametrize("option", [{"timers": 1}, {"seconds": 1}, {"processes": 1}, {"payload": 1}])
    def test_options_of_another_case(self, option):
        name = next(iter(option)).replace("_", "-")
        with pytest.raises(CommandError, match=rf"--{name}: only for the cases? [\w ]+, got enqueue"):
            call_command("jobbench", "enqueue", **option)

    @pytest.mark.django_db
    def test_history_where_the_case_has_its_own(self):
        with pytest.raises(CommandError, match="--history: the case history has levels of its own"):
            bench("history", "default", history="none")

    @pytest.mark.transactional
    @pytest.mark.databases("sqlite")
    def test_several_processes_on_sqlite(self, alias):
        with pytest.raises(CommandError, match="--processes: 'default' is on SQLite"):
            bench("drain", alias, processes=2)


class TestParts:
    def test_settings_of_a_run_are_limited_to_the_benchmark(self, settings):
        settings.JOBEXEC = {"DEPLOYMENT": "shop:1", "CATEGORIES": ["mail"], "PRIORITY_RANGE": (5, None)}
        found = build_settings("default", threads=3)
        assert (found.categories, found.deployment, found.threads) == ((CATEGORY,), None, 3)
        assert found.engine("default").priority_range == (None, None)
        with overridden(found):
            assert get_settings() == found
        assert get_settings().deployment == "shop:1"

    @pytest.mark.parametrize("numbers", [[0, 1], [0, 1, 1], [0, 1, 2, 2], [1, 2, 3]])
    def test_what_is_not_exactly_once_is_refused(self, numbers):
        check_once([2, 0, 1], 3, "ran")
        with pytest.raises(Exception, match="Not each job ran exactly once: 3 jobs"):
            check_once(numbers, 3, "ran")

    def test_a_run_in_which_nothing_moves_is_given_up(self):
        ledger = Ledger(2)
        ledger.note(0)
        with pytest.raises(Exception, match="1 of 2"):
            ledger.wait(patience=0.001)

    def test_report_gives_medians_and_their_ratio(self):
        samples = {"ours": [Sample(100, seconds, 0.1) for seconds in (1, 2, 5)], "raw": [Sample(100, 1, 0.01)] * 3}
        values = {name: [sample.rate for sample in runs] for name, runs in samples.items()}
        found = Report("drain", "default", "jobs/s", samples, values, {"threads": 1}, {"Python": "3"}).as_json()
        assert (found["ours"], found["raw"], found["ratio"]) == (50, 100, 0.5)
        assert found["details"]["runs"]["ours"]["min"] == 20
        assert found["details"]["runs"]["ours"]["cpu_us_per_job"]["median"] == pytest.approx(1000)

    def test_percentiles_are_by_nearest_rank(self):
        sample = Sample(4, 1, 0, (0.004, 0.001, 0.003, 0.002))
        assert [sample.percentile(share) for share in (0.5, 0.9, 1.0)] == [2, 4, 4]

    def test_a_ledger_of_fixed_size_refuses_what_the_other_one_does(self):
        for numbers, right in (([2, 0, 1], True), ([0, 1], False), ([0, 1, 1], False), ([0, 1, 2, 2], False)):
            ledger = CompactLedger(3)
            for number in numbers:
                ledger.note(number)
            if right:
                ledger.check()
                continue
            with pytest.raises(BenchError, match="exactly once"):
                ledger.check()

    def test_statements_of_a_connection_that_is_made_again_count_once(self, alias):
        statements = Statements()
        connection = connections[alias].copy()
        with statements.of_new_connections():
            for _ in range(2):
                with connection.cursor() as cursor:
                    cursor.execute("SELECT 1")
                connection.close()
        assert statements.count >= 2  # and what the driver says when it connects again
        assert connection.execute_wrappers == [statements]

    def test_slope_is_that_of_the_line_that_fits(self):
        assert slope([0, 1, 2, 3], [5, 7, 9, 11]) == pytest.approx(2)
        assert slope([0, 1, 2, 3], [4, 4, 4, 4]) == 0
        assert slope([1], [4]) == 0

    def test_rates_of_a_drain_that_slows_down(self):
        pace = Sampler(lambda: 0, 1)
        pace.times, pace.values = [0, 1, 2, 3, 5], [0, 0, 50, 60, 100]
        found = rates_of(pace, 100)
        assert found[:10] == pytest.approx([50] * 10)
        assert found[10:12] == pytest.approx([10] * 2)
        assert found[12:] == pytest.approx([20] * 8)
