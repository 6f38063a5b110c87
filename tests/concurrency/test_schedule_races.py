"""Nodes that fire, start and save at the same moment: each time has one job."""

import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections, transaction

from jobexec import job
from jobexec.clock import FrozenClock
from jobexec.handlers import registry
from jobexec.models import Job, Schedule, ScheduleFiring
from jobexec.operations.schedules import firing, sync
from jobexec.operations.schedules.firing import fire_due
from jobexec.operations.schedules.jobs import scheduled_jobs
from jobexec.operations.schedules.manage import delete_schedule, fire_now, save_schedule, set_enabled
from jobexec.operations.schedules.sync import Declared, sync_schedules
from jobexec.operations.sql.errors import is_conflict
from jobexec.operations.sql.locks import waiting_at_most
from tests.support.threads import finish, held, start, together

pytestmark = pytest.mark.transactional

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HANDLER = "tests.report"
MINUTE = timedelta(minutes=1)
TWO = "postgresql", "mariadb"  # SQLite bears one writer: the other waits


@pytest.fixture(autouse=True)
def frozen():
    with FrozenClock(NOW) as clock, registry.isolated():
        job(name=HANDLER)(lambda: None)
        yield clock


def save(alias, name="report", expression="R/PT1M", **fields):
    return save_schedule(alias, name=name, handler_type=HANDLER, expression=expression, **fields)


def fire(alias, limit=100):
    return fire_due(alias, scheduled_jobs(), limit)


def times(alias):
    return sorted(ScheduleFiring.objects.using(alias).values_list("fire_time", flat=True))


def check(alias, schedules=1):
    """Each time has one job, and the schedules have counted them."""
    noted = list(ScheduleFiring.objects.using(alias).values_list("job_id", flat=True))
    assert sorted(noted) == sorted(Job.objects.using(alias).values_list("pk", flat=True))
    assert sum(Schedule.objects.using(alias).values_list("fired", flat=True)) == len(noted)


@pytest.mark.gate
def test_nodes_that_fire_at_once_make_each_job_once(alias, frozen):
    for number in range(5):
        save(alias, f"report {number}", misfire="all")
    for _ in range(3):
        frozen.tick(120)
        fired = together(alias, *[lambda: fire(alias)] * 4)
        assert sum(each.jobs for each in fired) <= 10
        assert [each.failed for each in fired] == [{}] * 4
        fire(alias)  # what each of them passed over, because another had it
        check(alias)
    assert Job.objects.using(alias).count() == 30


@pytest.mark.databases(*TWO)
def test_releases_that_start_at_once_and_withdraw_each_others_schedules_do_not_wait_in_a_circle(alias, monkeypatch):
    """Each in a transaction that goes on, as at the start of a node."""
    names = {"new": ("both", "new"), "old": ("both", "old")}
    for name in ("both", "new", "old"):
        sync_schedules(alias, [Declared(name, "R/PT1M", "UTC", "skip")], set())
    Schedule.objects.using(alias).update(declared_time=None)
    says, barrier = sync._say, threading.Barrier(2)

    def say(*args):
        says(*args)
        with suppress(threading.BrokenBarrierError):
            barrier.wait(2)

    monkeypatch.setattr(sync, "_say", say)

    def begin(release):
        with transaction.atomic(alias):
            declared = [Declared(name, "R/PT1M", "UTC", "skip") for name in names[release]]
            sync_schedules(alias, declared, {"both", "new", "old"})

    together(alias, lambda: begin("new"), lambda: begin("old"))


@pytest.mark.gate
def test_nodes_that_share_a_long_backlog(alias, frozen, monkeypatch):
    monkeypatch.setattr(firing, "TIMES", 3)
    save(alias, misfire="all")
    frozen.tick(timedelta(minutes=40))

    def until_done():
        while Schedule.objects.using(alias).filter(next_time__lte=NOW + timedelta(minutes=40)).exists():
            fire(alias)

    together(alias, *[until_done] * 3)
    assert times(alias) == [NOW + timedelta(minutes=minute) for minute in range(1, 41)]
    check(alias)


@pytest.mark.databases(*TWO)
def test_who_comes_second_passes_over_what_the_first_has_in_hand(alias, frozen):
    save(alias, "one")
    save(alias, "two")
    frozen.tick(60)
    with held(alias) as inside:
        assert inside(lambda: fire(alias, 1)).jobs == 1
        assert finish(start(alias, lambda: fire(alias))).jobs == 1, "the other, and nobody waits"
    assert fire(alias).jobs == 0
    check(alias)


@pytest.mark.databases(*TWO)
def test_two_nodes_of_which_one_is_rolled_back(alias, frozen):
    save(alias)
    frozen.tick(60)

    def fire_and_fail():
        fire(alias)
        transaction.set_rollback(True, using=alias)

    with held(alias) as inside:
        inside(fire_and_fail)
        assert finish(start(alias, lambda: fire(alias))).jobs == 0
    assert (Job.objects.using(alias).count(), times(alias)) == (0, [])
    assert fire(alias).jobs == 1
    check(alias)


@pytest.mark.gate
@pytest.mark.databases(*TWO)
def test_a_key_in_an_open_transaction_holds_up_no_other_schedule(alias, frozen, monkeypatch):
    monkeypatch.setattr(firing, "PATIENCE", 1)
    indexing = job(name="tests.index", unique=True)(lambda: None).using(database=alias)
    save_schedule(alias, name="index", handler_type="tests.index", expression="R/PT1M")
    save(alias)
    frozen.tick(60)
    with held(alias) as inside:
        inside(indexing.enqueue)
        fired = finish(start(alias, lambda: fire(alias)))
        assert (fired.jobs, [is_conflict(error) for error in fired.failed.values()]) == (1, [True])
    assert (fire(alias).jobs, Schedule.objects.using(alias).get(name="index").next_time) == (0, NOW + 2 * MINUTE)
    assert Job.objects.using(alias).filter(handler_type="tests.index").count() == 1, "that of the transaction"


@pytest.mark.databases(*TWO)
def test_patience_is_set_back(alias):
    ask = {"postgresql": "SHOW lock_timeout", "mysql": "SELECT @@SESSION.innodb_lock_wait_timeout"}

    def patience():
        with connections[alias].cursor() as cursor:
            cursor.execute(ask[connections[alias].vendor])
            return cursor.fetchone()[0]

    with transaction.atomic(alias):
        before = patience()
        with waiting_at_most(alias, 3):
            assert str(patience()) in ("3", "3s")
        assert patience() == before
        with pytest.raises(KeyError), transaction.atomic(alias), waiting_at_most(alias, 3):
            raise KeyError
        assert patience() == before


@pytest.mark.databases(*TWO)
@pytest.mark.parametrize("ahead", [90, 0])
def test_clocks_that_differ(alias, frozen, ahead):
    """One node's clock is ahead: it fires early, and nobody else fires the same time again, nor leaves one out."""
    save(alias, misfire="all")
    for _ in range(3):
        with FrozenClock(frozen.now + timedelta(seconds=ahead)):
            together(alias, lambda: fire(alias), lambda: fire(alias))
        frozen.tick(60)
        fire(alias)
    assert times(alias) == [NOW + timedelta(minutes=minute) for minute in (1, 2, 3)]
    check(alias)


def test_whoever_changes_a_schedule_while_it_fires(alias, frozen):
    changes = (
        lambda: save(alias, expression="R/PT2M"),
        lambda: set_enabled(alias, "report", False),
        lambda: fire_now(alias, "report"),
        lambda: save(alias, expression="R/PT1M"),
        lambda: set_enabled(alias, "report", True),
    )
    save(alias, misfire="all")
    for change in changes:
        frozen.tick(180)
        together(alias, lambda: fire(alias), change, lambda: fire(alias))
        check(alias)
        assert Schedule.objects.using(alias).count() == 1


@pytest.mark.gate
def test_whoever_deletes_a_schedule_while_it_fires(alias, frozen):
    for _ in range(5):
        save(alias, misfire="all")
        frozen.tick(120)
        together(alias, lambda: fire(alias), lambda: delete_schedule(alias, "report"), lambda: fire(alias))
        assert not Schedule.objects.using(alias).exists()
        assert not ScheduleFiring.objects.using(alias).exists()


def test_two_people_who_fire_at_the_same_moment_get_a_job_each(alias, frozen):
    save(alias)
    together(alias, *[lambda: fire_now(alias, "report")] * 3)
    assert (Job.objects.using(alias).count(), len(set(times(alias)))) == (3, 3)
    check(alias)


def test_two_people_who_save_the_same_name(alias, frozen):
    together(alias, *[lambda text=text: save(alias, expression=text) for text in ("R/PT1M", "R/PT2M", "R/PT3M")])
    assert Schedule.objects.using(alias).count() == 1


def test_nodes_that_start_at_once_write_each_schedule_once(alias, frozen):
    names = [f"tests.report_{number}" for number in range(6)]
    for expression in ("R/PT1M", "R/PT2M"):
        declared = [Declared(name, expression, "UTC", "once") for name in names]
        orders = (declared, declared[::-1], declared[3:] + declared[:3])
        together(alias, *[lambda order=order: sync_schedules(alias, order, names) for order in orders])
        rows = Schedule.objects.using(alias).order_by("name").values_list("name", "expression")
        assert list(rows) == [(name, expression) for name in names]
    together(alias, *[lambda: sync_schedules(alias, [], names)] * 3)
    assert all(row.withdrawn and row.next_time is None for row in Schedule.objects.using(alias))


def test_a_node_of_an_old_release_and_one_of_a_new_start_at_once(alias, frozen):
    old = [Declared("tests.a", "R/PT1M", "UTC", "once"), Declared("tests.b", "R/PT1M", "UTC", "once")]
    new = [Declared("tests.b", "R/PT2M", "UTC", "once"), Declared("tests.c", "R/PT2M", "UTC", "once")]
    names = ["tests.a", "tests.b", "tests.c"]
    sync_schedules(alias, old, names)
    for _ in range(5):
        together(alias, lambda: sync_schedules(alias, old, names), lambda: sync_schedules(alias, new, names))
    sync_schedules(alias, new, names)
    rows = Schedule.objects.using(alias).order_by("name")
    assert [(row.name, row.expression) for row in rows if not row.withdrawn] == [
        ("tests.b", "R/PT2M"),
        ("tests.c", "R/PT2M"),
    ]
