"""Acquisition by ids: the same jobs may be had as without them, and what is left is what can still be had."""

from uuid import UUID

import pytest
from django.db import connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobexec.models import ExclusiveLock, Job, SuspendedJob, Suspension
from jobexec.operations import acquire_jobs
from jobexec.operations.acquire.by_ids import acquire_ids
from jobexec.operations.values.acquired_job import ServedJobs
from tests.operations.acquire.test_statement import EXAMPLES, ROWS, SCOPES, SUSPENSIONS, tried
from tests.support.factories import LOCK_TIME, locked_ids, make_job, reload, table_of

pytestmark = pytest.mark.every_database


def by_ids(alias, ids, owner="one", limit=100, strategy="auto", **scope):
    return acquire_ids(alias, owner, ids, limit, ServedJobs(**scope), lock_time=LOCK_TIME, strategy=strategy)


def names(acquisition):
    return [job.id for job in acquisition.jobs]


def test_locks_those_that_were_named_and_no_others(alias, strategy):
    wanted, other = [make_job(alias).pk for _ in range(3)], make_job(alias)
    named = by_ids(alias, wanted, strategy=strategy)
    assert names(named.acquisition) == wanted
    assert locked_ids(alias) == set(wanted) and reload(alias, other).lock_owner is None
    assert not named.left
    row = reload(alias, named.acquisition.jobs[0])
    assert (row.lock_owner, row.revision) == ("one", named.acquisition.jobs[0].revision)


def test_by_rank_whatever_order_they_are_named_in(alias, strategy):
    low, normal, high = (make_job(alias, priority=priority).pk for priority in (-1, 0, 1))
    assert names(by_ids(alias, [low, normal, high], strategy=strategy).acquisition) == [high, normal, low]


def test_a_second_message_does_nothing(alias, strategy):
    row = make_job(alias)
    by_ids(alias, [row.pk], strategy=strategy)
    before = reload(alias, row)
    for owner in ("one", "two"):
        again = by_ids(alias, [row.pk, row.pk], owner, strategy=strategy)
        assert not again.acquisition.jobs and not again.left
    assert reload(alias, row).revision == before.revision


def test_what_is_gone_or_elsewhere_is_settled(alias, strategy, frozen):
    gone, later = make_job(alias).pk, make_job(alias, due_date=frozen.now + LOCK_TIME).pk
    Job.objects.using(alias).filter(pk=gone).delete()
    named = by_ids(alias, [gone, later], strategy=strategy)
    assert not named.acquisition.jobs and not named.left


def test_what_a_page_has_no_room_for_is_left(alias, strategy):
    ids = [make_job(alias).pk for _ in range(5)]
    named = by_ids(alias, ids, limit=2, strategy=strategy)
    assert names(named.acquisition) == ids[:2] and named.left == frozenset(ids[2:])


def test_what_is_suspended_moves_away(alias, strategy):
    Suspension.objects.using(alias).create(scope="tenant_id", value="a", live=True)
    covered, free = make_job(alias, tenant_id="a").pk, make_job(alias).pk
    named = by_ids(alias, [covered, free], strategy=strategy)
    assert names(named.acquisition) == [free] and not named.left
    assert table_of(alias, covered) is SuspendedJob


def test_siblings_come_along_and_one_node_has_the_instance(alias, strategy):
    first, second = (make_job(alias, process_instance_id="p", exclusive=True).pk for _ in range(2))
    assert names(by_ids(alias, [first], strategy=strategy).acquisition) == [first, second]
    third = make_job(alias, process_instance_id="p", exclusive=True).pk
    named = by_ids(alias, [third], "two", strategy=strategy)
    assert not named.acquisition.jobs and not named.left  # whoever frees the instance announces it again
    assert ExclusiveLock.objects.using(alias).get().lock_owner == "one"


def test_jobs_of_others_are_settled_as_far_as_this_node_goes(alias, strategy, configure):
    configure(CATEGORIES=["default", "mail"])
    mail, foreign = make_job(alias, category="mail").pk, make_job(alias, deployment_id="shop:1").pk
    named = by_ids(alias, [mail, foreign], strategy=strategy)
    assert not named.acquisition.jobs and not named.left
    assert names(by_ids(alias, [mail, foreign], strategy=strategy, deployments=("shop:1",)).acquisition) == [foreign]


@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")
def test_a_row_that_somebody_just_holds_is_left(alias):
    row = make_job(alias)
    other = connections[alias].copy()
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute(f"SELECT id FROM {Job._meta.db_table} FOR UPDATE")
        named = by_ids(alias, [row.pk])
        assert not named.acquisition.jobs and named.left == {row.pk}
        other.rollback()
    finally:
        other.close()
    assert names(by_ids(alias, [row.pk]).acquisition) == [row.pk]


@pytest.mark.slow
@pytest.mark.databases("sqlite", "postgresql")  # where a fast form stands beside the portable one
@pytest.mark.timeout(400 + EXAMPLES)  # a second for each, on a machine that others use, too
def test_all_by_name_is_a_page_of_all(alias):
    """Whatever is in the tables: who names every row gets what a page of everything brings, and leaves the same."""

    @settings(max_examples=EXAMPLES // 2, suppress_health_check=list(HealthCheck))
    @given(st.lists(ROWS, max_size=10), SUSPENSIONS, SCOPES)
    def check(rows, suspension, scope):
        ids = [UUID(int=number + 1) for number in range(len(rows))]

        def named():
            found = acquire_ids(alias, "one", ids[::-1], 50, scope, lock_time=LOCK_TIME)
            assert not found.left
            return sorted(names(found.acquisition))  # siblings stand together, wherever the others stand

        def page():
            return sorted(names(acquire_jobs(alias, "one", 50, scope, lock_time=LOCK_TIME)))

        assert tried(alias, rows, suspension, named) == tried(alias, rows, suspension, page)

    check()
