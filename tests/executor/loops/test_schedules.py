"""Schedules in the loop of the timers, from the code to the job."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import Error, OperationalError, connections
from django.test.utils import CaptureQueriesContext

from jobexec import clock, job
from jobexec.clock import FrozenClock
from jobexec.conf import get_settings
from jobexec.exceptions import InvalidSchedule
from jobexec.executor.engine import Engine
from jobexec.executor.job_executor import JobExecutor
from jobexec.executor.loops import schedules as executor_schedules
from jobexec.executor.loops.timers import TimerAcquisition
from jobexec.executor.nodes.node import Node
from jobexec.handlers import registry
from jobexec.handlers.schedules import schedule
from jobexec.models import Job, Schedule
from jobexec.operations.notify.wake import EVERYTHING, HISTORY, JOBS, SCHEDULES, TIMERS
from jobexec.operations.schedules import firing
from jobexec.operations.schedules.manage import save_schedule, set_enabled
from tests.support.executor import run_one
from tests.support.factories import make_job
from tests.support.waiting import until

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def frozen():
    with FrozenClock(NOW) as clock:
        yield clock


@pytest.fixture
def seen():
    return []


@pytest.fixture
def report(handle, seen):
    """A handler that notes what its schedule says to it."""

    def report(context, fail=False):
        seen.append((context.attempt, context.scheduled_for))
        if fail and context.attempt == 1:
            raise ValueError("not yet")

    return handle(report, retries="R3/PT0S")


@pytest.fixture
def node(alias, report):
    settings = get_settings()
    node = Node(settings, settings.engine(alias), dict)
    node.register()
    return node


@pytest.fixture
def loop(node):
    return TimerAcquisition(node, lambda: True)


def save(alias, expression="R/PT1H", name="report", **fields):
    return save_schedule(alias, name=name, handler_type="tests.report", expression=expression, **fields)


def statements(alias, act):
    with CaptureQueriesContext(connections[alias]) as captured:
        act()
    return [query["sql"] for query in captured if "jobexec_schedule" in query["sql"]]


class TestTheLoop:
    def test_it_sleeps_until_the_next_time_and_fires(self, alias, frozen, loop):
        save(alias, "R/PT1M")
        assert loop.run_once() == pytest.approx(60.0)
        frozen.tick(59.5)
        assert loop.run_once() == pytest.approx(0.5)
        assert not Job.objects.using(alias).exists()
        frozen.tick(0.5)
        assert loop.run_once() == pytest.approx(60.0)
        assert Job.objects.using(alias).get().due_date == NOW + timedelta(minutes=1)

    def test_whichever_comes_first(self, alias, frozen, loop):
        save(alias, "R/PT1M")
        make_job(alias, due_date=NOW + timedelta(seconds=20))
        assert loop.run_once() == pytest.approx(20.0)

    def test_after_the_first_look_nothing_is_asked_without_a_reason(self, alias, frozen, loop):
        assert len(statements(alias, loop.run_once)) == 1
        for _ in range(5):
            frozen.tick(300)
            assert statements(alias, loop.run_once) == []
        loop.schedules.ask()
        assert len(statements(alias, loop.run_once)) == 1
        assert statements(alias, loop.run_once) == []

    def test_what_the_code_declares_is_said_again(self, alias, frozen, handle):
        handle(lambda: None, name="tests.declared", schedule="R/PT1H", database=alias)
        settings = get_settings()
        node = Node(settings, settings.engine(alias), dict)
        node.register()
        loop = TimerAcquisition(node, lambda: True)
        assert loop.run_once() == pytest.approx(60.0)
        Schedule.objects.using(alias).filter(name="tests.declared").update(declared="-", next_time=None)
        frozen.tick(59)
        assert loop.run_once() == pytest.approx(1.0)
        frozen.tick(2)
        loop.run_once()
        row = Schedule.objects.using(alias).get(name="tests.declared")
        assert (row.withdrawn, row.next_time is None, row.declared_time) == (False, False, clock.now(alias))

    def test_nothing_is_asked_before_the_next_time(self, alias, frozen, loop):
        save(alias, "R/PT1H")
        loop.run_once()
        frozen.tick(timedelta(minutes=59))
        assert statements(alias, loop.run_once) == []

    def test_what_another_process_has_changed_is_found_when_somebody_says_so(self, alias, frozen, loop):
        loop.run_once()
        save(alias, "R/PT10S")
        assert loop.run_once() == pytest.approx(300.0)
        loop.schedules.ask()
        assert loop.run_once() == pytest.approx(10.0)

    def test_one_that_another_node_has_fired_is_waited_for_anew(self, alias, frozen, node, loop):
        save(alias, "R/PT1M")
        other = TimerAcquisition(node, lambda: True)
        assert (loop.run_once(), other.run_once()) == pytest.approx((60.0, 60.0))
        frozen.tick(60)
        assert (loop.run_once(), other.run_once()) == pytest.approx((60.0, 60.0))
        assert Job.objects.using(alias).count() == 1

    def test_more_than_a_page_goes_on_at_once(self, alias, frozen, loop, monkeypatch):
        monkeypatch.setattr(executor_schedules, "_PAGE", 2)
        for number in range(3):
            save(alias, "R/PT1M", name=f"report {number}")
        loop.run_once()
        frozen.tick(60)
        assert (loop.run_once(), loop.run_once()) == pytest.approx((0.0, 60.0))
        assert Job.objects.using(alias).count() == 3

    def test_one_that_cannot_be_fired_is_said_once_and_tried_again_each_minute(self, alias, frozen, loop, caplog):
        save(alias, "R/PT1M", name="sound")
        save(alias, "R/PT1M", name="broken")
        Schedule.objects.using(alias).filter(name="broken").update(options={"colour": "red"})
        loop.run_once()
        for _ in range(3):
            frozen.tick(60)
            assert loop.run_once() == pytest.approx(60.0)
        assert Job.objects.using(alias).count() == 3
        said = [record for record in caplog.records if "cannot be fired by this node" in record.message]
        assert len(said) == 1
        assert "colour" in said[0].message
        Schedule.objects.using(alias).filter(name="broken").update(options={})
        frozen.tick(60)
        loop.run_once()
        assert Job.objects.using(alias).count() == 5, "that of now, and one for those that were missed"

    def test_a_database_that_is_away_is_asked_again(self, alias, frozen, loop, monkeypatch):
        save(alias, "R/PT1M")

        def away(*args, **kwargs):
            raise OperationalError("the connection is gone")

        with monkeypatch.context() as patch:
            patch.setattr(executor_schedules, "next_schedule_time", away)
            for _ in range(2):
                with pytest.raises(OperationalError):
                    loop.run_once()
        assert loop.run_once() == pytest.approx(60.0)
        frozen.tick(60)
        with monkeypatch.context() as patch:
            patch.setattr(executor_schedules, "fire_due", away)
            with pytest.raises(OperationalError):
                loop.run_once()
        loop.run_once()
        assert Job.objects.using(alias).count() == 1

    @pytest.mark.databases("postgresql", "mariadb")
    @pytest.mark.transactional
    def test_a_connection_that_is_lost_while_one_fires_silences_nothing(self, alias, frozen, loop, monkeypatch):
        """Django has connected again by the time somebody asks whether the connection is usable."""
        save(alias, "R/PT1M")
        loop.run_once()
        frozen.tick(60)
        real = firing.due_times

        def lose(*arguments):
            connections[alias].connection.close()
            return real(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(firing, "due_times", lose)
            with pytest.raises(Error):
                loop.run_once()
        assert connections[alias].is_usable() or connections[alias].connection is None
        loop.run_once()
        assert Job.objects.using(alias).count() == 1


class TestTheEngine:
    @pytest.fixture
    def engine(self, alias, configure, report):
        engine = JobExecutor().engines[alias]
        engine.node.register()
        engine.woken = []
        loops = {"acquisition": engine.acquisitions[alias], "timers": engine.timers, "history": engine.history}
        for name, loop in loops.items():
            loop.wake = lambda name=name: engine.woken.append(name)
        return engine

    def asks(self, alias, engine: Engine):
        return len(statements(alias, engine.timers.run_once))

    def test_a_word_wakes_those_whom_it_concerns(self, alias, frozen, engine):
        self.asks(alias, engine)
        for content, woken, asked in (
            (SCHEDULES, {"timers"}, 1),
            (TIMERS, {"timers"}, 0),
            (JOBS, {"acquisition"}, 0),
            (HISTORY, {"history"}, 0),
            (EVERYTHING, {"acquisition", "timers", "history"}, 1),
            ("of a later release", {"acquisition", "timers", "history"}, 1),
        ):
            engine.woken.clear()
            engine.heard(content)
            assert (content, set(engine.woken), self.asks(alias, engine)) == (content, woken, asked)

    def test_the_heartbeat_sees_what_no_notification_has_told(self, alias, frozen, engine):
        self.asks(alias, engine)
        save(alias, "R/PT1M")
        engine.woken.clear()
        assert engine.heartbeat.run_once() == 10.0
        assert (engine.woken, self.asks(alias, engine)) == ([], 0), "it is not near"
        frozen.tick(45)
        engine.heartbeat.run_once()
        assert (engine.woken, engine.timers.schedules.fire()) == (["timers"], pytest.approx(15.0))
        set_enabled(alias, "report", False)
        engine.woken.clear()
        engine.heartbeat.run_once()
        assert engine.woken == []

    @pytest.mark.transactional
    def test_saving_tells_the_engines_of_this_process(self, alias, frozen, engine, monkeypatch):
        from jobexec.operations.notify import wake

        told = []
        wake.add_listener(lambda using, content: told.append(content))
        try:
            save(alias)
            set_enabled(alias, "report", False)
            set_enabled(alias, "report", False)
        finally:
            wake._listeners.clear()
        assert told == [SCHEDULES, SCHEDULES]


class TestFromTheCode:
    def test_a_decorator_writes_a_row_when_a_node_starts(self, alias, frozen, handle):
        handle(
            lambda: None,
            name="tests.nightly",
            schedule="0 3 * * *",
            timezone="Europe/Berlin",
            misfire="skip",
            database=alias,
        )
        self.register(alias)
        row = Schedule.objects.using(alias).get()
        assert (row.name, row.handler_type, row.timezone, row.misfire) == (
            "tests.nightly",
            "tests.nightly",
            "Europe/Berlin",
            "skip",
        )
        assert row.next_time == datetime(2026, 3, 2, 2, tzinfo=UTC)

    def test_a_call_does_the_same_for_what_is_decorated_already(self, alias, frozen, handle):
        schedule(handle(lambda: None, name="tests.hourly", database=alias), "R/PT1H")
        self.register(alias)
        assert Schedule.objects.using(alias).get().next_time == NOW + timedelta(hours=1)

    def test_when_it_is_no_longer_declared_it_fires_no_more(self, alias, frozen, handle):
        for options in ({"schedule": "R/PT1H", "database": alias}, {"database": alias}):
            with registry.isolated():
                job(name="tests.nightly", **options)(lambda: None)
                self.register(alias)
        row = Schedule.objects.using(alias).get()
        assert (row.withdrawn, row.next_time) == (True, None)

    def test_a_job_of_another_engine_is_none_of_ours(self, alias, frozen, handle):
        handle(lambda: None, name="tests.nightly", schedule="R/PT1H", database="elsewhere")
        self.register(alias)
        assert not Schedule.objects.using(alias).exists()

    def register(self, alias):
        settings = get_settings()
        node = Node(settings, settings.engine(alias), dict)
        node.register()
        node.leave()

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"schedule": "61 * * * *"}, "the field minute is wrong"),
            ({"schedule": ""}, "expected a string"),
            ({"schedule": "R/PT1H", "timezone": "Europe/Atlantis"}, "timezone: expected"),
            ({"schedule": "R/PT1H", "misfire": "later"}, "misfire: expected one of 'skip', 'once', 'all'"),
            ({"timezone": "UTC"}, "only valid with a schedule"),
            ({"misfire": "all"}, "only valid with a schedule"),
        ],
    )
    def test_what_is_wrong_is_said_at_the_decoration(self, handle, options, said):
        with pytest.raises(InvalidSchedule, match=said):
            handle(lambda: None, name="tests.nightly", **options)
        assert not registry.schedules
        assert "tests.nightly" not in registry.known_names()

    def test_a_name_of_our_own_is_refused_there_and_not_when_a_node_starts(self, handle):
        with pytest.raises(InvalidSchedule, match="internal job of jobexec"):
            handle(lambda: None, name="jobexec.nightly", schedule="@daily")
        assert not registry.schedules

    def test_a_function_that_needs_arguments_cannot_be_scheduled(self, handle, report):
        def needs(context, kind):
            pass

        with pytest.raises(InvalidSchedule, match=r"called without arguments. tests.needs: missing .*'kind'"):
            handle(needs, schedule="R/PT1H")
        with pytest.raises(InvalidSchedule, match="expected a job or a task, got <built-in function len>"):
            schedule(len, "R/PT1H")


@pytest.mark.transactional
def test_a_job_knows_its_time_in_every_attempt(alias, frozen, loop, seen):
    save(alias, "R/PT1M", kwargs={"fail": True})
    loop.run_once()
    frozen.tick(75)
    loop.run_once()
    run_one(alias)
    loop.run_once()
    run_one(alias)
    make_job(alias, handler_type="tests.report")
    run_one(alias)
    assert seen == [(1, NOW + timedelta(minutes=1)), (2, NOW + timedelta(minutes=1)), (1, None)]


@pytest.mark.gate
@pytest.mark.transactional
def test_from_the_decorator_to_the_run(alias, handle, make_executor, seen):
    options = {"takes_context": True, "schedule": "R/PT1S", "database": alias}
    handle(lambda context: seen.append(context.scheduled_for), name="tests.often", **options)
    executor = make_executor()
    executor.start()
    until(lambda: len(seen) >= 2)
    assert executor.stop()
    times = sorted(seen)
    assert times == [times[0] + timedelta(seconds=number) for number in range(len(times))]
