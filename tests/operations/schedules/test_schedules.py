"""Recurring schedules: saved, changed, fired, written from the code, forgotten."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections, transaction

from jobexec import job
from jobexec.clock import FrozenClock
from jobexec.exceptions import HandlerNotFound, InvalidJob, InvalidSchedule, ScheduleNotFound
from jobexec.handlers import registry
from jobexec.models import WITHDRAWN, BlockedJob, DeadLetterJob, Job, JobDefinition, Schedule, ScheduleFiring, TimerJob
from jobexec.operations import clean_up_history, complete_jobs, fail_job, trigger_due_timers
from jobexec.operations.batches.jobs import EXECUTION
from jobexec.operations.nodes.leases import NodeProfile, register_node
from jobexec.operations.resources.promote import blocked_resources, promote
from jobexec.operations.schedules import firing, manage
from jobexec.operations.schedules.firing import fire_due, next_schedule_time
from jobexec.operations.schedules.jobs import scheduled_jobs
from jobexec.operations.schedules.manage import (
    delete_schedule,
    fire_now,
    save_schedule,
    schedule_problem,
    scheduled_for,
    set_enabled,
    upcoming,
)
from jobexec.operations.schedules.sync import FORGOTTEN, Declared, sync_schedules
from tests.support.factories import a_failure, a_run, acquire, make_job
from tests.support.machines.killed import Killed, killed_at

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HANDLER = "tests.report"


def after(**time):
    return NOW + timedelta(**time)


@pytest.fixture(autouse=True)
def report():
    """A handler that may be called with and without arguments."""
    with registry.isolated():

        @job(name=HANDLER)
        def report(kind="daily", *, pages=1):
            pass

        yield report


def save(alias, expression="R/PT1H", name="report", **fields):
    return save_schedule(alias, **{"name": name, "handler_type": HANDLER, "expression": expression} | fields)


def reload(alias, name="report"):
    return Schedule.objects.using(alias).get(name=name)


def fire(alias, **options):
    return fire_due(alias, scheduled_jobs(), 100, **options)


def due_dates(alias):
    return sorted(Job.objects.using(alias).values_list("due_date", flat=True))


def fire_times(alias):
    return sorted(ScheduleFiring.objects.using(alias).values_list("fire_time", flat=True))


class TestSaving:
    def test_a_new_one(self, alias):
        row = save(alias, "0 3 * * *", timezone="Europe/Berlin", misfire="all", args=["x"], options={"priority": 5})
        assert row.next_time == datetime(2026, 3, 2, 2, tzinfo=UTC)
        saved = reload(alias)
        assert (saved.expression, saved.timezone, saved.misfire, saved.enabled) == (
            "0 3 * * *",
            "Europe/Berlin",
            "all",
            True,
        )
        assert (saved.handler_configuration, saved.options) == ({"args": ["x"], "kwargs": {}}, {"priority": 5})
        assert (saved.next_time, saved.declared, saved.fired) == (row.next_time, "", 0)

    def test_the_time_zone_is_that_of_the_settings(self, alias, settings):
        settings.TIME_ZONE = "Asia/Tokyo"
        assert save(alias, " 0 3 * * * ").timezone == "Asia/Tokyo"
        assert reload(alias).next_time == datetime(2026, 3, 1, 18, tzinfo=UTC)

    def test_what_has_no_effect_on_its_times_leaves_them(self, alias, frozen):
        save(alias)
        frozen.tick(timedelta(minutes=61))  # due, and not fired yet
        save(alias, kwargs={"pages": 2}, misfire="skip")
        row = reload(alias)
        assert (row.next_time, row.handler_configuration["kwargs"]) == (after(hours=1), {"pages": 2})

    def test_another_expression_begins_now(self, alias, frozen):
        save(alias)
        frozen.tick(timedelta(minutes=90))
        assert save(alias, "*/10 * * * *").next_time == after(minutes=100)

    def test_a_counted_cycle_that_is_put_into_an_old_row_is_counted_from_now(self, alias, frozen):
        save(alias)
        frozen.tick(timedelta(days=9))
        row = save(alias, "R3/PT1H")
        assert row.next_time == after(days=9, hours=1)
        assert len(upcoming(row, 9)) == 3

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"name": ""}, "name"),
            ({"name": "x" * 256}, "name"),
            ({"name": "a\x00b"}, "name"),
            ({"handler_type": "tests.unknown"}, "handler_type"),
            ({"handler_type": None}, "handler_type"),
            ({"handler_type": EXECUTION, "args": ["batch", [], False]}, "handler_type"),
            ({"expression": "61 * * * *"}, "expression"),
            ({"expression": "R2/2020-01-01T00:00Z/PT1H"}, "expression"),
            ({"timezone": "Europe/Atlantis"}, "timezone"),
            ({"misfire": "later"}, "misfire"),
            ({"args": [1, 2]}, "args"),
            ({"args": "daily"}, "args"),
            ({"args": [float("nan")]}, "args"),
            ({"kwargs": {"colour": "red"}}, "args"),
            ({"kwargs": [1]}, "args"),
            ({"options": {"colour": "red"}}, "options"),
            ({"options": {"priority": "high"}}, "options"),
            ({"options": {"category": "nowhere"}}, "options"),
            ({"options": {"run_after": 5}}, "options"),
            ({"options": {"database": "default"}}, "options"),
            ({"options": [1]}, "options"),
            ({"options": {"headers": {"a": {1}}}}, "options"),
            ({"enabled": 1}, "enabled"),
        ],
    )
    @pytest.mark.databases("sqlite")
    def test_what_is_wrong_is_said_and_nothing_saved(self, alias, fields, field):
        with pytest.raises(InvalidSchedule) as error:
            save(alias, **fields)
        assert (error.value.field, not str(error.value)) == (field, False)
        assert not Schedule.objects.using(alias).exists()

    @pytest.mark.parametrize(
        ("fields", "told"),
        [
            ({"args": [1, float("nan")]}, "args[1]: expected JSON, got nan"),
            ({"kwargs": {"share": [float("nan")]}}, "kwargs['share'][0]: expected JSON, got nan"),
        ],
    )
    @pytest.mark.databases("sqlite")
    def test_the_argument_that_is_no_json_is_named_by_its_place(self, alias, fields, told):
        with pytest.raises(InvalidSchedule) as error:
            save(alias, **fields)
        assert str(error.value).startswith(told)

    @pytest.mark.parametrize(
        ("resource", "told"),
        [
            ("mail", "options: resource: expected a name that RESOURCES covers"),
            (lambda kind: f"mail:{kind}", "options: resource: expected a name that RESOURCES covers"),
            (lambda kind: kind["key"], "options: "),
        ],
        ids=["name", "function", "error"],
    )
    def test_a_resource_that_no_entry_covers(self, alias, configure, resource, told):
        job(name="mail", resource=resource)(lambda kind: None)
        with pytest.raises(InvalidSchedule) as error:
            save(alias, handler_type="mail", args=["daily"])
        assert str(error.value).startswith(told)
        if told.endswith("covers"):
            configure(RESOURCES={"mail": {"limit": 1}, "mail:*": {"limit": 1}})
            save(alias, handler_type="mail", args=["daily"])
            configure(RESOURCES={"pay": {"limit": 1}})
            assert told in schedule_problem(reload(alias))

    def test_a_handler_that_only_other_nodes_know_is_believed(self, alias):
        JobDefinition.objects.using(alias).create(id="elsewhere", handler_type="elsewhere", last_registered=NOW)
        assert save(alias, handler_type="elsewhere").next_time
        assert "No handler 'elsewhere'" in schedule_problem(reload(alias))

    def test_of_two_who_save_the_same_name_at_once_the_last_wins(self, alias, monkeypatch):
        look, others = manage._locked_or_new, iter(["R/PT2H"])

        def look_too_early(using, name):
            found = look(using, name)
            for expression in others:  # somebody saves between our look and our INSERT
                save(alias, expression)
            return found

        monkeypatch.setattr(manage, "_locked_or_new", look_too_early)
        save(alias, "R/PT3H")
        assert [row.expression for row in Schedule.objects.using(alias)] == ["R/PT3H"]


class TestEnabling:
    def test_times_while_it_is_disabled_are_not_missed(self, alias, frozen):
        save(alias, misfire="all")
        assert set_enabled(alias, "report", False).next_time is None
        frozen.tick(timedelta(hours=5, minutes=1))
        assert fire(alias).jobs == 0
        assert set_enabled(alias, "report", True).next_time == after(hours=6)
        assert set_enabled(alias, "report", True).next_time == after(hours=6)

    def test_one_can_be_saved_disabled(self, alias):
        assert save(alias, enabled=False).next_time is None
        assert save(alias, enabled=True).next_time == after(hours=1)
        assert save(alias, enabled=False).next_time is None

    def test_there_is_none(self, alias):
        for change in (lambda: set_enabled(alias, "x", True), lambda: delete_schedule(alias, "x")):
            with pytest.raises(ScheduleNotFound, match="There is no schedule 'x'"):
                change()
        with pytest.raises(ScheduleNotFound):
            fire_now(alias, "x")

    def test_deleting_takes_its_firings_and_leaves_its_jobs(self, alias, frozen):
        save(alias)
        save(alias, name="other")
        frozen.tick(timedelta(hours=1))
        assert fire(alias).jobs == 2
        delete_schedule(alias, "report")
        assert [row.name for row in Schedule.objects.using(alias)] == ["other"]
        assert [row.schedule.name for row in ScheduleFiring.objects.using(alias)] == ["other"]
        assert Job.objects.using(alias).count() == 2


class TestByHand:
    def test_a_job_is_made_beside_the_times(self, alias):
        save(alias, kwargs={"pages": 3}, options={"priority": 7, "tenant_id": "t"})
        made = [fire_now(alias, "report"), fire_now(alias, "report")]
        row = reload(alias)
        assert (row.next_time, row.last_time, row.fired) == (after(hours=1), None, 2)
        job = Job.objects.using(alias).get(pk=made[0].pk)
        assert (job.handler_configuration, job.priority, job.tenant_id) == (
            {"args": [], "kwargs": {"pages": 3}},
            7,
            "t",
        )
        times = [scheduled_for(alias, each.pk) for each in made]
        assert all(NOW - timedelta(seconds=1) < time < NOW for time in times), "no time of the schedule is used up"
        assert times[0] != times[1]

    def test_a_job_that_was_there_is_not_counted(self, alias):
        save(alias, options={"unique": "one"})
        jobs = [fire_now(alias, "report"), fire_now(alias, "report")]
        assert (jobs[0].pk, reload(alias).fired) == (jobs[1].pk, 1)

    def test_a_disabled_one_too(self, alias):
        save(alias, enabled=False)
        assert fire_now(alias, "report").handler_type == HANDLER
        assert reload(alias).next_time is None

    def test_errors_leave_nothing(self, alias):
        save(alias)
        with pytest.raises(InvalidJob):
            Schedule.objects.using(alias).update(handler_configuration={"args": [1, 2, 3], "kwargs": {}})
            fire_now(alias, "report")
        with pytest.raises(HandlerNotFound):
            Schedule.objects.using(alias).update(handler_type="elsewhere")
            fire_now(alias, "report")
        assert not Job.objects.using(alias).exists()
        assert not ScheduleFiring.objects.using(alias).exists()

    def test_no_row_makes_jobs_of_our_own_handlers(self, alias, frozen):
        # A batch would do to whichever jobs the row names what its owner wanted for others.
        save(alias)
        own = {"handler_type": EXECUTION, "handler_configuration": {"args": ["batch", [], False], "kwargs": {}}}
        Schedule.objects.using(alias).update(**own)
        with pytest.raises(InvalidSchedule, match="internal job of jobexec"):
            fire_now(alias, "report")
        frozen.tick(timedelta(hours=2))
        (error,) = fire(alias).failed.values()
        assert "internal job of jobexec" in str(error) and "internal job of jobexec" in schedule_problem(reload(alias))
        assert not Job.objects.using(alias).exists()


class TestFiring:
    def test_nothing_before_its_time_and_one_job_at_it(self, alias, frozen):
        save(alias, args=["weekly"], options={"priority": 3})
        assert next_schedule_time(alias, scheduled_jobs()) == after(hours=1)
        frozen.tick(timedelta(minutes=59, seconds=59))
        assert fire(alias) == (0, False, {})
        frozen.tick(1.5)
        assert fire(alias) == (1, False, {})
        assert fire(alias) == (0, False, {})
        (made,) = Job.objects.using(alias).all()
        assert (made.due_date, made.priority, made.handler_configuration) == (
            after(hours=1),
            3,
            {"args": ["weekly"], "kwargs": {}},
        )
        row = reload(alias)
        assert (row.next_time, row.last_time, row.fired) == (after(hours=2), after(hours=1), 1)
        assert scheduled_for(alias, made.pk) == after(hours=1)
        assert scheduled_for(alias, make_job(alias).pk) is None

    @pytest.mark.parametrize(("declared", "own"), [("pay", {}), (lambda: "mail", {"resource": "pay"})])
    def test_its_jobs_wait_for_the_resource_of_the_schedule_or_else_of_the_handler(
        self, alias, frozen, configure, declared, own
    ):
        configure(RESOURCES={"pay": {"limit": 1}, "mail": {"limit": 9}})
        job(name="tests.charge", resource=declared)(lambda: None)
        save(alias, handler_type="tests.charge", options=own)
        for _ in range(2):
            frozen.tick(timedelta(hours=1))
            assert fire(alias) == (1, False, {})
        assert acquire(alias) == []
        blocked = BlockedJob.objects.using(alias).order_by("rank")
        assert [(row.resource, row.due_date) for row in blocked] == [("pay", after(hours=hour)) for hour in (1, 2)]
        assert promote(alias, blocked_resources(alias), 100).moved == 1
        (first,) = acquire(alias)
        assert scheduled_for(alias, first.id) == after(hours=1)
        complete_jobs(alias, [(first, a_run(alias))])
        assert promote(alias, blocked_resources(alias), 100).moved == 1
        assert [scheduled_for(alias, each.id) for each in acquire(alias)] == [after(hours=2)]

    @pytest.mark.parametrize(("declared", "own"), [("R2/PT5H", {}), ("R9/PT1S", {"retries": "R2/PT5H"})])
    def test_each_of_its_jobs_has_the_retries_of_the_schedule_or_else_of_the_handler(
        self, alias, frozen, declared, own
    ):
        job(name="tests.retried", retries=declared)(lambda: None)
        save(alias, handler_type="tests.retried", options=own)
        frozen.tick(timedelta(hours=1))
        fire(alias)
        (first,) = acquire(alias)
        fail_job(alias, first, a_failure(), a_run(alias))
        frozen.tick(timedelta(hours=1))
        assert fire(alias) == (1, False, {})
        assert TimerJob.objects.using(alias).get().retries == 1
        (second,) = acquire(alias)
        assert (second.id != first.id, second.retries) == (True, 2)
        frozen.tick(timedelta(hours=5))
        trigger_due_timers(alias, 5)
        (again,) = acquire(alias)
        fail_job(alias, again, a_failure(), a_run(alias))
        assert DeadLetterJob.objects.using(alias).get().pk == first.id
        assert (reload(alias).enabled, fire(alias)[0]) == (True, 1), "the schedule goes on"

    def test_the_wait_of_its_job_counts_from_its_time(self, alias, frozen):
        save(alias)
        early = make_job(alias)
        frozen.tick(timedelta(hours=1, seconds=30))
        late = make_job(alias)
        fire(alias)
        by_rank = list(Job.objects.using(alias).order_by("rank").values_list("handler_type", "pk"))
        assert [by_rank[0][1], by_rank[1][0], by_rank[2][1]] == [early.pk, HANDLER, late.pk]

    @pytest.mark.parametrize(
        ("misfire", "late", "expected"),
        [
            ("skip", {"minutes": 3}, [11, 12, 13]),  # on time: not older than the threshold
            ("once", {"seconds": 50}, [10]),
            ("all", {"seconds": 50}, [10]),
            ("skip", {"minutes": 30}, [38, 39, 40]),
            ("once", {"minutes": 30}, [40]),
            ("all", {"minutes": 30}, list(range(10, 41))),
            ("once", {"minutes": 3}, [13]),
        ],
    )
    def test_what_was_missed(self, alias, frozen, configure, misfire, late, expected):
        configure(MISFIRE_THRESHOLD=120)
        save(alias, "R/2026-03-01T12:10Z/PT1M", misfire=misfire)
        frozen.tick(timedelta(minutes=10) + timedelta(**late))
        assert fire(alias).jobs == len(expected)
        assert due_dates(alias) == fire_times(alias) == [after(minutes=minute) for minute in expected]
        assert reload(alias).next_time == after(minutes=expected[-1] + 1)

    def test_skipping_may_leave_nothing(self, alias, frozen, caplog):
        save(alias, misfire="skip")
        frozen.tick(timedelta(hours=5, minutes=30))
        assert fire(alias) == (0, False, {})
        row = reload(alias)
        assert (row.next_time, row.last_time, row.fired) == (after(hours=6), None, 0)
        assert "its misfire policy applies to missed times: skip" in caplog.text

    def test_all_goes_on_in_the_next_transaction(self, alias, frozen, monkeypatch):
        monkeypatch.setattr(firing, "TIMES", 4)
        save(alias, misfire="all")
        frozen.tick(timedelta(hours=10))
        rounds = [fire(alias) for _ in range(4)]
        assert [(each.jobs, each.more) for each in rounds] == [(4, True), (4, True), (2, False), (0, False)]
        assert due_dates(alias) == [after(hours=hour) for hour in range(1, 11)]

    @pytest.mark.parametrize("misfire", ["once", "skip"])
    def test_years_of_seconds_are_passed_over_at_once(self, alias, frozen, misfire):
        save(alias, "R/PT1S", misfire=misfire)
        frozen.tick(timedelta(days=3650))
        assert fire(alias).jobs == (1 if misfire == "once" else 61)
        assert reload(alias).next_time == after(days=3650, seconds=1)

    def test_a_cycle_that_is_counted_ends(self, alias, frozen):
        save(alias, "R2/PT1H", misfire="all")
        frozen.tick(timedelta(hours=9))
        assert fire(alias) == (2, False, {})
        row = reload(alias)
        assert (row.next_time, row.enabled) == (None, True)
        assert next_schedule_time(alias, scheduled_jobs()) is None

    def test_a_page_that_is_full_says_that_there_may_be_more(self, alias, frozen):
        for number in range(3):
            save(alias, name=f"report {number}")
        frozen.tick(timedelta(hours=1))
        assert fire_due(alias, scheduled_jobs(), 2) == (2, True, {})
        assert fire_due(alias, scheduled_jobs(), 2) == (1, False, {})

    def test_only_what_this_process_knows(self, alias, frozen):
        save(alias)
        frozen.tick(timedelta(hours=1))
        Schedule.objects.using(alias).update(handler_type="elsewhere")
        assert fire(alias) == (0, False, {})
        assert next_schedule_time(alias, scheduled_jobs()) is None

    def test_a_handler_by_an_old_name(self, alias, frozen):
        with registry.isolated():
            job(name="tests.new", aliases=["tests.old"])(lambda: None)
            save(alias, handler_type="tests.old")
            frozen.tick(timedelta(hours=1))
            assert fire(alias).jobs == 1
        assert Job.objects.using(alias).get().handler_type == "tests.new"

    def test_one_that_cannot_be_fired_does_not_stop_the_others(self, alias, frozen):
        broken = save(alias, name="broken")
        for name in ("before", "later"):
            save(alias, name=name)
        frozen.tick(timedelta(hours=1))
        for change, error in (
            ({"handler_configuration": {"args": [1, 2, 3], "kwargs": {}}}, "too many positional arguments"),
            ({"handler_configuration": []}, "list indices"),
            ({"handler_configuration": {"args": [], "kwargs": {}}, "expression": "nonsense"}, "nonsense"),
            ({"expression": "R/PT1H", "timezone": "Europe/Atlantis"}, "Atlantis"),
            ({"timezone": "UTC", "options": {"colour": "red"}}, "colour"),
        ):
            Schedule.objects.using(alias).filter(name="broken").update(**change)
            fired = fire(alias)
            assert list(fired.failed) == [broken.pk]
            assert error in repr(fired.failed[broken.pk])
            assert error in schedule_problem(reload(alias, "broken"))
        assert Job.objects.using(alias).count() == 2
        row = reload(alias, "broken")
        assert (row.next_time, row.enabled) == (after(hours=1), True), "it stays due, for whoever can"
        assert next_schedule_time(alias, scheduled_jobs()) == after(hours=1)
        assert next_schedule_time(alias, scheduled_jobs(), but=[broken.pk]) == after(hours=2)
        Schedule.objects.using(alias).filter(name="broken").update(options={})
        assert (fire(alias).jobs, schedule_problem(reload(alias, "broken"))) == (1, "")

    @pytest.mark.databases("sqlite")
    def test_rows_that_cannot_be_read_do_not_stop_the_others(self, alias, frozen):
        for name in ("no anchor", "no moment", "sound"):
            save(alias, name=name)
        with connections[alias].cursor() as cursor:
            cursor.execute("UPDATE jobexec_schedule SET create_time = '2026-13-01 00:00:00' WHERE name = 'no anchor'")
            cursor.execute("UPDATE jobexec_schedule SET next_time = '' WHERE name = 'no moment'")
        assert next_schedule_time(alias, scheduled_jobs()) == after(hours=1)
        frozen.tick(timedelta(hours=1))
        fired = fire(alias)
        assert (fired.jobs, len(fired.failed)) == (2, 1)
        assert reload(alias, "no moment").next_time == after(hours=2), "it has one again"

    def test_a_unique_job_that_still_waits_is_no_error(self, alias, frozen):
        for conflict in ("return", "ignore", "raise", "replace"):
            options = {"unique": f"one {conflict}", "on_conflict": conflict}
            save(alias, name=conflict, options=options)
        for _ in range(2):
            frozen.tick(timedelta(hours=1))
            assert fire(alias).failed == {}
        assert Job.objects.using(alias).count() == 4
        fired = dict(Schedule.objects.using(alias).values_list("name", "fired"))
        assert fired == {"return": 1, "ignore": 1, "raise": 1, "replace": 2}
        assert ScheduleFiring.objects.using(alias).count() == 8

    def test_nothing_becomes_a_timer(self, alias, frozen):
        with registry.isolated():
            job(name="tests.delayed", delay=600)(lambda: None)
            save(alias, handler_type="tests.delayed")
            frozen.tick(timedelta(hours=1))
            assert fire(alias).jobs == 1
        assert not TimerJob.objects.using(alias).exists()


class TestOnce:
    def test_a_clock_that_is_behind_does_not_fire_again(self, alias, frozen):
        save(alias, "0 * * * *")
        with FrozenClock(after(hours=1)):  # a node that is ahead
            assert fire(alias).jobs == 1
        with FrozenClock(after(minutes=59)):  # and those that are behind
            assert fire(alias).jobs == 0
            assert save(alias, "0,30 * * * *").next_time == after(minutes=90)
            set_enabled(alias, "report", False)
            assert set_enabled(alias, "report", True).next_time == after(minutes=90)

    def test_a_time_that_was_noted_is_not_fired_again(self, alias, frozen):
        save(alias, misfire="all")
        frozen.tick(timedelta(hours=3))
        assert fire(alias).jobs == 3
        Schedule.objects.using(alias).update(next_time=after(hours=2))  # somebody turns it back
        frozen.tick(timedelta(hours=1))
        assert fire(alias).jobs == 1
        assert fire_times(alias) == due_dates(alias) == [after(hours=hour) for hour in range(1, 5)]

    @pytest.mark.gate
    @pytest.mark.transactional
    def test_a_node_that_is_killed_anywhere_leaves_each_time_with_one_job(self, alias, frozen):
        save(alias, misfire="all")
        number = hours = 0
        while True:
            number, hours = number + 1, hours + 2
            frozen.tick(timedelta(hours=2))
            try:
                with killed_at(alias, number):
                    fire(alias)
            except Killed:
                connections[alias].close()  # what the server sees of it
                fire(alias)
            else:
                break
            times = [after(hours=hour) for hour in range(1, hours + 1)]
            assert due_dates(alias) == fire_times(alias) == times, f"killed before statement {number}"
            assert reload(alias).fired == hours
        assert number > 6


class TestDeclared:
    def sync(self, alias, *declared, handlers=(HANDLER,)):
        return sync_schedules(alias, [Declared(*each) for each in declared], handlers)

    def test_what_the_code_says_becomes_a_row(self, alias):
        self.sync(alias, (HANDLER, "0 3 * * *", "Europe/Berlin", "skip"))
        row = reload(alias, HANDLER)
        assert (row.handler_type, row.expression, row.timezone, row.misfire) == (
            HANDLER,
            "0 3 * * *",
            "Europe/Berlin",
            "skip",
        )
        assert (row.next_time, row.from_code, row.enabled) == (datetime(2026, 3, 2, 2, tzinfo=UTC), True, True)

    def test_a_restart_leaves_what_a_person_has_changed_and_a_release_changes_it(self, alias, frozen):
        first, second = (HANDLER, "R/PT1H", "UTC", "once"), (HANDLER, "R/PT5H", "UTC", "all")
        self.sync(alias, first)
        save(alias, "R/PT2H", name=HANDLER)
        set_enabled(alias, HANDLER, False)
        frozen.tick(600)
        self.sync(alias, first)
        row = reload(alias, HANDLER)
        assert (row.expression, row.enabled, row.from_code) == ("R/PT2H", False, True)
        self.sync(alias, second)
        row = reload(alias, HANDLER)
        assert (row.expression, row.misfire, row.enabled, row.next_time) == ("R/PT5H", "all", False, None)
        assert set_enabled(alias, HANDLER, True).next_time == after(hours=5)

    def test_what_nobody_declares_any_more_is_withdrawn_by_whoever_knows_the_handler(self, alias, frozen):
        self.sync(alias, (HANDLER, "R/PT1H", "UTC", "once"))
        save(alias, name="by hand")
        frozen.tick(timedelta(hours=1))
        fire(alias)
        self.sync(alias, handlers=["another"])
        assert not reload(alias, HANDLER).withdrawn
        self.sync(alias)
        row = reload(alias, HANDLER)
        assert (row.withdrawn, row.from_code, row.enabled, row.next_time) == (True, True, True, None)
        assert not reload(alias, "by hand").withdrawn
        frozen.tick(timedelta(hours=5))
        assert set_enabled(alias, HANDLER, False).next_time is set_enabled(alias, HANDLER, True).next_time is None

    def test_what_another_release_declares_is_not_withdrawn(self, alias, frozen):
        declared = (HANDLER, "R/PT1H", "UTC", "once")
        register_node(alias, NodeProfile("new"), timedelta(days=1))
        assert self.sync(alias, declared)
        assert self.sync(alias)
        assert not reload(alias, HANDLER).withdrawn, "a node that lives has just declared it"
        frozen.tick(FORGOTTEN)
        self.sync(alias, declared)
        frozen.tick(FORGOTTEN)
        assert self.sync(alias)
        assert not reload(alias, HANDLER).withdrawn, "it has said so again"
        frozen.tick(1)
        assert not self.sync(alias)
        assert reload(alias, HANDLER).withdrawn

    def test_without_another_node_nobody_declares_what_we_do_not(self, alias):
        own = register_node(alias, NodeProfile("own"), timedelta(days=1))
        self.sync(alias, (HANDLER, "R/PT1H", "UTC", "once"))
        assert not sync_schedules(alias, [], [HANDLER], own.lock_owner)
        assert reload(alias, HANDLER).withdrawn

    def test_what_was_withdrawn_goes_on_when_a_living_node_says_so_again(self, alias):
        declared = (HANDLER, "R/PT1H", "UTC", "once")
        self.sync(alias, declared)
        Schedule.objects.using(alias).update(declared=f"{WITHDRAWN}{reload(alias, HANDLER).declared}", next_time=None)
        self.sync(alias, declared)
        assert (reload(alias, HANDLER).withdrawn, reload(alias, HANDLER).next_time) == (False, after(hours=1))

    def test_what_is_declared_again_goes_on_as_a_person_left_it(self, alias, frozen):
        declared = (HANDLER, "R/PT1H", "UTC", "once")
        self.sync(alias, declared)
        save(alias, "R/PT2H", name=HANDLER)
        self.sync(alias)
        frozen.tick(timedelta(minutes=90))
        self.sync(alias, declared)
        row = reload(alias, HANDLER)
        assert (row.withdrawn, row.expression, row.next_time) == (False, "R/PT2H", after(hours=2))

    def test_who_saves_what_the_code_has_withdrawn_makes_it_his(self, alias, frozen):
        self.sync(alias, (HANDLER, "R/PT1H", "UTC", "once"))
        self.sync(alias)
        save(alias, "R/PT1H", name=HANDLER)
        row = reload(alias, HANDLER)
        assert (row.from_code, row.next_time) == (False, after(hours=1))

    def test_one_that_a_person_made_under_this_name(self, alias, caplog):
        save(alias, "R/PT7H", name=HANDLER)
        self.sync(alias, (HANDLER, "R/PT1H", "UTC", "once"))
        assert (reload(alias, HANDLER).expression, reload(alias, HANDLER).from_code) == ("R/PT1H", True)
        save(alias, "R/PT7H", name="other")
        self.sync(alias, (HANDLER, "R/PT1H", "UTC", "once"), ("other", "R/PT1H", "UTC", "once"))
        assert (reload(alias, "other").expression, reload(alias, "other").from_code) == ("R/PT7H", False)
        assert "The schedule other" in caplog.text

    def test_a_start_with_nothing_new_asks_once_and_writes_nothing(self, alias, django_assert_num_queries):
        self.sync(alias, (HANDLER, "R/PT1H", "UTC", "once"))
        with django_assert_num_queries(1, using=alias):
            self.sync(alias, (HANDLER, "R/PT1H", "UTC", "once"))
        self.sync(alias)
        with django_assert_num_queries(1, using=alias):
            self.sync(alias)

    def test_a_cycle_that_is_over_is_written_and_does_not_fire(self, alias):
        self.sync(alias, (HANDLER, "R2/2020-01-01T00:00Z/PT1H", "UTC", "once"))
        assert reload(alias, HANDLER).next_time is None


def test_firings_are_forgotten_but_for_the_newest_of_each(alias, frozen, configure):
    configure(HISTORY_TIME_TO_LIVE=86400)
    save(alias, misfire="all")
    save(alias, "R1/PT1H", name="once")
    frozen.tick(timedelta(hours=3))
    fire(alias)
    frozen.tick(timedelta(hours=3))
    fire(alias)
    frozen.tick(timedelta(days=2))
    with transaction.atomic(using=alias):
        assert clean_up_history(alias) == 5
    left = ScheduleFiring.objects.using(alias).values_list("schedule__name", "fire_time")
    assert sorted(left) == [("once", after(hours=1)), ("report", after(hours=6))]


def test_the_next_times_of_a_schedule_and_of_an_expression(alias):
    row = save(alias, "R/PT1H", enabled=False)
    hours = [after(hours=hour) for hour in (1, 2, 3)]
    assert upcoming(row, 3) == upcoming("R/PT1H", 3) == hours
    assert upcoming("0 * * * *", 2, after(minutes=90), timezone="UTC") == hours[1:]
    assert upcoming("0 3 * * *", 1, timezone="Europe/Berlin") == [datetime(2026, 3, 2, 2, tzinfo=UTC)]
    with pytest.raises(InvalidSchedule):
        upcoming("nonsense")
