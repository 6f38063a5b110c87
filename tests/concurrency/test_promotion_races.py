"""Promotions beside each other, and beside settlements: never more permits than the limit, none forgotten."""

import threading

import pytest
from django.db import connections
from django.db.utils import OperationalError

from jobexec.models import BlockedJob, Job, Resource
from jobexec.operations import cancel, complete_jobs
from jobexec.operations.resources import promote as promotion
from jobexec.operations.resources.breaker import open_breaker
from jobexec.operations.resources.promote import promote
from jobexec.operations.sql.errors import is_conflict
from tests.support.factories import a_run, acquire, make_job
from tests.support.machines.rerouted import rerouted
from tests.support.threads import finish, held, start, together, wait_until_waiting

pytestmark = pytest.mark.transactional
servers = pytest.mark.databases("postgresql", "mariadb")
NAME = "pay.example"


@pytest.fixture(autouse=True)
def resources(settings):
    settings.JOBEXEC = {
        "ENGINES": {name: {"NOTIFY": False} for name in connections},
        "RESOURCES": {NAME: {"limit": 3}, "customer:*": {"limit": 1, "breaker": "fast"}},
    }


def look(alias, name=NAME):
    """Promote until the database has let us: on InnoDB it may end one of two transactions."""
    while True:
        try:
            return promote(alias, [name], 100).moved
        except OperationalError as error:
            if not is_conflict(error):
                raise


def permits(alias, name=NAME):
    return Job.objects.using(alias).filter(resource=name).count()


def test_several_nodes_give_no_permit_twice(alias):
    for _ in range(10):
        make_job(alias, resource=NAME)
    assert sum(together(alias, *(lambda: look(alias) for _ in range(4)))) == 3
    assert (permits(alias), BlockedJob.objects.using(alias).count()) == (3, 7)


def test_while_jobs_end_and_come(alias):
    """What is seen at any moment is within the limit, and in the end everything is done."""
    for _ in range(20):
        make_job(alias, resource=NAME)
    seen, over = [], threading.Event()

    def watch():
        while not over.is_set():
            seen.append(permits(alias))

    def work(owner):
        done = 0
        while BlockedJob.objects.using(alias).exists() or Job.objects.using(alias).exists():
            look(alias)
            for job in acquire(alias, owner, 2):
                done += len(complete_jobs(alias, [(job, a_run(alias))]))
        return done

    watcher = start(alias, watch)
    try:
        done = together(alias, lambda: work("one"), lambda: work("two"), lambda: look(alias) and 0)
    finally:
        over.set()
    finish(watcher)
    assert sum(done[:2]) == 20
    assert max(seen) <= 3


@servers
def test_a_promotion_waits_for_another_and_counts_what_that_has_taken(alias):
    for _ in range(10):
        make_job(alias, resource=NAME)
    make_job(alias, resource="customer:1")
    promote(alias, ["customer:1"], 1)
    Resource.objects.using(alias).create(name=NAME)
    with held(alias) as inside:
        inside(lambda: promotion.locked_resources(alias, [NAME]))
        other = start(alias, lambda: look(alias))
        wait_until_waiting(alias, other)
        assert inside(lambda: promote(alias, [NAME], 2).moved) == 2
    assert finish(other) == 1
    assert permits(alias) == 3


@servers
def test_a_row_that_somebody_changes_is_passed_over(alias):
    first, *_ = (make_job(alias, resource=NAME) for _ in range(4))
    with held(alias) as inside:
        inside(lambda: list(BlockedJob.objects.using(alias).select_for_update().filter(pk=first.pk)))
        assert look(alias) == 3
    assert BlockedJob.objects.using(alias).get().pk == first.pk


def test_cancelled_while_it_is_promoted(alias):
    rows = [make_job(alias, resource=NAME) for _ in range(6)]
    cancels = [lambda row=row: cancel(row.pk, using=alias) for row in rows[:3]]
    _, *results = together(alias, lambda: look(alias), *cancels)
    left = 6 - sum(len(result.changed) for result in results)  # a job that is just being moved may be skipped
    while look(alias):
        pass
    assert permits(alias) == 3
    assert BlockedJob.objects.using(alias).count() == left - 3


def test_of_two_nodes_one_opens_the_breaker(alias):
    from jobexec.conf import get_settings

    profile = get_settings().resources["customer:*"].breaker
    opened = together(alias, *(lambda: open_breaker(alias, "customer:1", profile, "down") for _ in range(3)))
    assert sorted(opened) == [False, False, True]


@pytest.mark.databases("postgresql")
def test_under_repeatable_read_a_stale_count_is_refused(alias):
    """A transaction that waited for the lock reads in the snapshot of its beginning."""
    for _ in range(10):
        make_job(alias, resource=NAME)
    Resource.objects.using(alias).create(name=NAME)
    options = {**connections.settings[alias]["OPTIONS"], "isolation_level": 3}
    with held(alias) as inside:
        inside(lambda: promotion.locked_resources(alias, [NAME]))

        def stale():
            with rerouted(alias, OPTIONS=options):
                return promote(alias, [NAME], 100).moved

        other = start(alias, stale)
        wait_until_waiting(alias, other)
        assert inside(lambda: promote(alias, [NAME], 100).moved) == 3
    with pytest.raises(OperationalError) as refused:
        finish(other)
    assert is_conflict(refused.value)
    assert permits(alias) == 3
