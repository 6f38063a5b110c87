"""What an executor counts: each run once, whichever way it ended; and what becomes of it when it cannot be written."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.db import OperationalError

from jobexec import clock
from jobexec.clock import FrozenClock
from jobexec.conf import get_settings
from jobexec.exceptions import RetryIn
from jobexec.executor.execute_now import execute_now
from jobexec.executor.loops import meter_writing
from jobexec.executor.loops.meter_writing import MeterWriting
from jobexec.executor.loops.recovery import Recovery
from jobexec.executor.nodes.meters import MOST_GROUPS, Meters
from jobexec.executor.nodes.node import Node
from jobexec.executor.run import outcomes
from jobexec.executor.run.outcomes import Outcome
from jobexec.models import DeadLetterJob, FailureGroup, Job, MeterLog, TimerJob
from jobexec.operations import cancel
from jobexec.operations.nodes.leases import declare_dead
from jobexec.operations.reports import meters
from jobexec.operations.reports.subjects import meter_of, runs_of
from jobexec.operations.values.acquired_job import Acquisition
from jobexec.operations.values.failure import Failure
from jobexec.operations.values.histogram import KEYS
from jobexec.operations.values.run import Run
from tests.support.executor import all_gone
from tests.support.factories import make_job, make_node, make_row
from tests.support.waiting import until

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
SUMS = {meters.JOB_WAIT_TIME_SUM, meters.JOB_RUN_TIME_SUM}
TIMES = {*meters.HISTOGRAMS, *SUMS}
quick = {"WAIT_TIME": 0.01, "MAX_WAIT": 0.05, "MAX_WAIT_WHEN_LISTENING": 0.05}


def ended(became=None, failure=None, waited=0, took=0.0, priority=0, name="a", ageing=None, counted=True, tenant=""):
    rank = NOW_MS - waited - priority * (ageing or 36525 * 86_400_000)
    work = SimpleNamespace(
        id=None, handler_type=name, category="default", tenant_id=tenant, rank=rank, priority=priority
    )
    outcome = Outcome(work, Run(NOW, took, "here"), failure)
    outcome.counted, outcome.became = counted, became
    return outcome


def counted(*outcomes):
    counting = Meters("default")
    counting.ended(outcomes)
    return {key: count for key, count in counting.take().counts.items() if not key[0].startswith(meters.RUNS_OF)}


def plain(counts):
    """Without times, and without the meters of subjects."""
    return {key: n for key, n in counts.items() if key[0] not in TIMES and not key[0].startswith(meters.RUNS_OF)}


class TestInMemory:
    def test_runs_are_counted_by_handler_and_bucket(self):
        runs = [ended(waited=5, took=0.0), ended(waited=7, took=0.003), ended(waited=0, took=1.5, name="b")]
        assert counted(*runs) == {
            ("job-successful", "a"): 2,
            ("job-successful", "b"): 1,
            ("job-wait-time-sum", ""): 12,
            ("job-run-time-sum", ""): 1503,
            ("job-wait-time", "8"): 2,
            ("job-wait-time", "1"): 1,
            ("job-run-time", "1"): 1,
            ("job-run-time", "4"): 1,
            ("job-run-time", "2048"): 1,
        }

    def test_runs_are_counted_by_handler_category_and_tenant(self):
        counting, error = Meters("default"), Failure("ValueError: no")
        counting.ended([ended(took=0.003), ended(tenant="acme"), ended(TimerJob, error), ended(name="b", took=1e9)])
        counts = counting.take().counts
        found = {key: count for key, count in counts.items() if key[0].startswith(meters.RUNS_OF)}
        assert found == {
            (meter_of("handler", "a"), "1"): 1,
            (meter_of("handler", "a"), "4"): 1,
            (meter_of("handler", "a"), "failed"): 1,
            (meter_of("handler", "b"), "inf"): 1,
            (meter_of("category", "default"), "1"): 1,
            (meter_of("category", "default"), "4"): 1,
            (meter_of("category", "default"), "inf"): 1,
            (meter_of("category", "default"), "failed"): 1,
            (meter_of("tenant", "acme"), "1"): 1,
        }

    def test_of_many_tenants_the_busiest_are_written(self):
        counting = Meters("default")
        counting.ended([ended(tenant=f"t{number % 30}") for number in range(30)] + [ended(tenant="t29")])
        names = {name for name, _ in counting.take().counts if name.startswith(f"{meters.RUNS_OF}tenant:")}
        assert len(names) == 20
        assert meter_of("tenant", "t29") in names

    def test_what_was_taken_is_not_counted_again(self):
        counting = Meters("default")
        counting.acquired(Acquisition(jobs=[1, 2], lock_failures=3, blocked=4))
        counting.recovered(5)
        assert counting.take() == (
            {
                ("job-acquisition-attempt", ""): 1,
                ("job-acquired-success", ""): 2,
                ("job-acquired-failure", ""): 3,
                ("job-locked-exclusive", ""): 4,
                ("job-recovered", ""): 5,
            },
            [],
        )
        assert counting.take() == ({}, [])

    @pytest.mark.parametrize("ageing", [None, 60])
    def test_priority_is_no_waiting(self, settings, ageing):
        settings.JOBEXEC = {"PRIORITY_AGEING": ageing}
        runs = [ended(waited=3_600_000, priority=p, ageing=ageing and ageing * 1000) for p in (-7, 0, 50)]
        assert counted(*runs)["job-wait-time", "4194304"] == 3

    def test_waits_have_no_least_and_no_most(self):
        found = counted(ended(waited=-5), ended(waited=NOW_MS + 2**63), ended(took=1e9))
        assert found["job-wait-time", "1"] == 2
        assert found["job-wait-time", KEYS[-1]] == 1
        assert found["job-run-time", KEYS[-1]] == 1

    def test_a_row_that_no_database_but_sqlite_takes_is_counted_without_its_wait(self):
        odd = ended()
        odd.work.rank = "soon"
        other = ended(waited=1)
        other.work.priority = "high"
        assert counted(odd, other) == {("job-successful", "a"): 2}

    def test_only_attempts_are_failures(self):
        error, unknown = Failure("ValueError: no"), Failure("HandlerNotFound: a", kind="unknown")
        runs = [
            ended(TimerJob, error),
            ended(DeadLetterJob, error, name="b"),
            ended(TimerJob, unknown),
            ended(DeadLetterJob, unknown),
            ended(Job, Failure("JobCancelled: x", kind="cancelled")),
            ended(Job, Failure("ValueError: no", kind="handled"), name="c"),
            ended(None, error, counted=False),
        ]
        found = {key: count for key, count in counted(*runs).items() if key[0] not in TIMES}
        assert found == {
            ("job-failed", "a"): 2,
            ("job-failed", "b"): 1,
            ("job-failed", "c"): 1,
            ("job-dead-lettered", "a"): 1,
            ("job-dead-lettered", "b"): 1,
        }

    def test_failures_that_look_alike_are_one_group(self):
        counting = Meters("default")
        with FrozenClock(NOW) as clock:
            counting.ended([ended(TimerJob, Failure("ValueError: 1 is odd"))])
            clock.tick(5)
            counting.ended([ended(TimerJob, Failure("ValueError: 3 is odd")), ended(TimerJob, Failure("KeyError: 3"))])
        odd, key = counting.take().failures
        assert (odd.count, odd.exception, odd.message) == (2, "ValueError", "ValueError: 3 is odd")
        assert (odd.first_time, odd.last_time) == (NOW, NOW + timedelta(seconds=5))
        assert (key.count, key.exception) == (1, "KeyError")

    def test_more_groups_than_there_is_room_for_are_others(self):
        counting = Meters("default")
        counting.ended([ended(TimerJob, Failure(f"E{number}: x")) for number in range(MOST_GROUPS + 7)])
        counting.ended([ended(TimerJob, Failure("E3: x"))])
        groups = {each.exception or each.fingerprint: each.count for each in counting.take().failures}
        assert len(groups) == MOST_GROUPS + 1
        assert (groups["other"], groups["E3"], groups["E4"]) == (7, 2, 1)


def sums(alias):
    found = Counter()
    for (name, key), value in meters.totals(alias, set(meters.METERS) - SUMS).items():
        found[name if name in meters.HISTOGRAMS or not key else f"{name} {key}"] += value
    return dict(found)


@pytest.mark.transactional
class TestExecutor:
    def run(self, alias, make_executor, done, **keys):
        executor = make_executor(engine=quick, **keys)
        executor.start()
        until(lambda: done() and executor.idle)
        assert executor.stop()
        found = sums(alias)
        assert found.pop(meters.JOB_ACQUISITION_ATTEMPT) >= 1
        return found

    @pytest.mark.gate
    def test_each_run_is_counted_once(self, alias, make_executor, handle):
        handle(lambda: None, name="tests.good")
        handle(lambda: 1 / 0, name="tests.bad", retries="R1/PT1H")
        for number in range(20):
            make_job(alias, handler_type="tests.good", atomic=number % 2 == 0, process_instance_id=f"i{number % 3}")
        for _ in range(5):
            make_job(alias, handler_type="tests.bad", retries=1)
        assert self.run(alias, make_executor, lambda: not Job.objects.using(alias).exists()) == {
            "job-acquired-success": 25,
            "job-successful tests.good": 20,
            "job-failed tests.bad": 5,
            "job-dead-lettered tests.bad": 5,
            "job-wait-time": 25,
            "job-run-time": 25,
            **({"job-locked-exclusive": found} if (found := sums(alias).get("job-locked-exclusive")) else {}),
        }
        (group,) = FailureGroup.objects.using(alias).all()
        assert (group.count, group.exception, group.handler_type) == (5, "ZeroDivisionError", "tests.bad")
        assert set(DeadLetterJob.objects.using(alias).values_list("fingerprint", flat=True)) == {group.fingerprint}
        now = clock.now(alias) + timedelta(seconds=1)
        found = {
            name: runs_of(alias, kind, name, now, timedelta(hours=1))
            for kind, name in (("handler", "tests.good"), ("handler", "tests.bad"), ("category", "default"))
        }
        counts = {name: (runs.all_succeeded, runs.all_failed) for name, runs in found.items()}
        assert counts == {"tests.good": (20, 0), "tests.bad": (0, 5), "default": (20, 5)}

    def test_so_are_those_of_the_lane(self, alias, make_executor, handle):
        async def good():
            pass

        async def again():
            raise RetryIn(timedelta(hours=1))

        handle(good, name="tests.good")
        handle(again, name="tests.again")
        for name in ("tests.good", "tests.again"):
            for _ in range(3):
                make_job(alias, handler_type=name)
        found = self.run(alias, make_executor, lambda: TimerJob.objects.using(alias).count() == 3)
        assert (found["job-successful tests.good"], found["job-failed tests.again"]) == (3, 3)
        assert found["job-run-time"] == 6

    @pytest.mark.gate
    def test_a_run_that_is_past_its_timeout_is_a_failure_once(self, alias, make_executor, handle):
        def slow(context):
            until(lambda: context.timed_out)

        handle(slow, name="tests.slow", timeout=timedelta(seconds=0.2), retries="R2/PT1H")
        make_job(alias, handler_type="tests.slow", timeout=timedelta(seconds=0.2))
        found = self.run(alias, make_executor, lambda: TimerJob.objects.using(alias).exists())
        assert found == {"job-acquired-success": 1, "job-failed tests.slow": 1, "job-wait-time": 1, "job-run-time": 1}

    def test_a_cancelled_one_is_a_run_and_no_failure(self, alias, make_executor, handle):
        def work(context):
            cancel([context.id], using=alias)
            until(lambda: context.cancelled)

        handle(work, name="tests.work")
        make_job(alias, handler_type="tests.work")
        found = self.run(alias, make_executor, lambda: all_gone(alias))
        assert found == {"job-acquired-success": 1, "job-wait-time": 1, "job-run-time": 1}

    def test_an_outcome_that_cannot_be_written_is_a_failure(self, alias, make_executor, handle, monkeypatch):
        real = outcomes.complete_or_lose

        def refuse(using, runs, *more):
            if any(work.handler_type == "tests.odd" for work, _ in runs):
                raise ValueError("no such thing")
            return real(using, runs, *more)

        monkeypatch.setattr(outcomes, "complete_or_lose", refuse)
        handle(lambda: None, name="tests.odd")
        make_job(alias, handler_type="tests.odd")
        found = self.run(alias, make_executor, lambda: DeadLetterJob.objects.using(alias).exists())
        assert (found["job-failed tests.odd"], found["job-dead-lettered tests.odd"]) == (1, 1)
        assert "job-successful tests.odd" not in found

    def test_a_job_that_has_killed_its_process_has_failed(self, alias):
        settings = get_settings()
        node = Node(settings, settings.engine(alias), dict)
        dead = make_node(alias, "dead", lease_time=timedelta(seconds=-60))
        lost = {"lock_owner": dead.lock_owner, "start_time": NOW, "lost_runs": 2, "retries": 1}
        make_row(Job, alias, handler_type="tests.killer", **lost)
        make_row(Job, alias, lock_owner=dead.lock_owner)
        declare_dead(alias)
        Recovery(node, lambda: None).run_once()
        found = plain(node.meters.take().counts)
        assert found == {
            ("job-recovered", ""): 2,
            ("job-failed", "tests.killer"): 1,
            ("job-dead-lettered", "tests.killer"): 1,
        }


class TestExecuteNow:
    def test_counts_at_once(self, alias, handle):
        handle(lambda: None, name="tests.good")
        handle(lambda: 1 / 0, name="tests.bad")
        execute_now(make_job(alias, handler_type="tests.good").pk, using=alias)
        execute_now(make_job(alias, handler_type="tests.good", atomic=True).pk, using=alias)
        with pytest.raises(ZeroDivisionError):
            execute_now(make_job(alias, handler_type="tests.bad").pk, using=alias)
        assert sums(alias) == {
            "job-successful tests.good": 2,
            "job-failed tests.bad": 1,
            "job-wait-time": 3,
            "job-run-time": 3,
        }
        assert FailureGroup.objects.using(alias).get().count == 1
        assert set(MeterLog.objects.using(alias).values_list("reporter", flat=True)) == {"execute now"}


@pytest.mark.transactional
class TestWriting:
    @pytest.fixture
    def frozen(self):
        with FrozenClock(NOW) as clock:
            yield clock

    @pytest.fixture
    def loop(self, alias, frozen):
        settings = get_settings()
        return MeterWriting(Node(settings, settings.engine(alias), dict))

    def test_writes_nothing_where_nothing_was_counted(self, alias, loop):
        assert loop.run_once() == get_settings().meter_interval.total_seconds()
        assert not MeterLog.objects.using(alias).exists()

    def test_looks_at_an_empty_queue_are_written_seldom(self, alias, loop, frozen):
        for _ in range(3):
            loop.node.meters.acquired(Acquisition())
            loop.run_once()
        assert not MeterLog.objects.using(alias).exists()
        frozen.tick(901)
        loop.run_once()
        row = MeterLog.objects.using(alias).get()
        assert (row.name, row.value, row.reporter) == ("job-acquisition-attempt", 3, "here")
        assert row.timestamp == NOW + timedelta(seconds=901)

    def test_the_backlog_is_sampled_seldom_while_nothing_happens(self, alias, loop, frozen, django_assert_num_queries):
        def samples():
            return meters.total(alias, meters.JOB_BACKLOG_SAMPLES)

        make_job(alias)
        with django_assert_num_queries(0, using=alias):
            frozen.tick(290)
            loop.run_once()
        frozen.tick(11)
        loop.run_once()
        assert samples() == 1
        frozen.tick(46)
        loop.run_once()
        assert samples() == 2, "jobs wait"
        Job.objects.using(alias).all().delete()
        for _ in range(5):
            frozen.tick(46)
            loop.run_once()
        assert samples() == 2
        assert meters.total(alias, meters.JOB_BACKLOG, key="default") == 2

    def test_a_flush_that_fails_loses_nothing(self, alias, loop, frozen, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(meter_writing, "flush_failures", self.away)
            loop.node.meters.ended([ended(TimerJob, Failure("ValueError: no"))])
            with pytest.raises(OperationalError):
                loop.run_once()
            loop.node.meters.ended([ended(name="b")])
            with pytest.raises(OperationalError):
                loop.run_once()
        assert sums(alias) == {}
        frozen.tick(60)
        loop.run_once()
        expected = {"job-failed a": 1, "job-successful b": 1, "job-wait-time": 2, "job-run-time": 2}
        assert sums(alias) == expected
        assert FailureGroup.objects.using(alias).get().count == 1
        assert MeterLog.objects.using(alias).get(name="job-failed").timestamp == NOW + timedelta(seconds=60)

    def test_a_flush_that_went_through_unseen_is_not_written_twice(self, alias, loop, monkeypatch):
        real = meter_writing.flush_failures

        def lost(using, failures):
            """The commit goes through, and its confirmation does not."""
            real(using, failures)
            raise OperationalError("connection lost")

        class Through:
            def __enter__(self):
                return self

            def __exit__(self, *args):
                return None

        with monkeypatch.context() as patch:
            patch.setattr(meter_writing, "flush_failures", lost)
            patch.setattr(meter_writing, "atomic", lambda using: Through())
            loop.node.meters.ended([ended(TimerJob, Failure("ValueError: no"))])
            with pytest.raises(OperationalError):
                loop.run_once()
        loop.run_once()
        assert sums(alias)["job-failed a"] == 1
        assert FailureGroup.objects.using(alias).get().count == 1

    @staticmethod
    def away(*args):
        raise OperationalError("away")
