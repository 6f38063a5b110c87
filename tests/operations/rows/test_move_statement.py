"""A move inside the database writes what a move through Python writes, column for column."""

from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from django.db import IntegrityError, connections, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobexec.clock import FrozenClock
from jobexec.models import JOB_TABLES, DeadLetterJob, Job, SuspendedJob, TimerJob
from jobexec.operations import suspend, trigger_due_timers
from jobexec.operations.rows import move_statement
from jobexec.operations.rows.move import move_all
from jobexec.operations.sql.locks import atomic
from jobexec.operations.values.ranking import rank
from tests.support.columns import NOW, VALUES
from tests.support.factories import make_job, make_row, tables_of
from tests.support.suite.tiers import some
from tests.support.threads import Undo

pytestmark = [pytest.mark.every_database, pytest.mark.fast_form]

LOCKED = {"lock_owner": "one", "lock_expiration_time": NOW, "start_time": NOW, "revision": 4}


def written(alias):
    return {row["id"]: (table, row) for table in JOB_TABLES for row in table._base_manager.using(alias).values()}


def undone(alias, act):
    """What stands in the tables after `act`, which is then undone."""
    try:
        with transaction.atomic(alias):
            act()
            found = written(alias)
            raise Undo
    except Undo:
        return found


def both(alias, act, monkeypatch):
    """What `act` writes in each of the two ways."""
    fast = undone(alias, act)
    with monkeypatch.context() as patch:
        patch.setattr(move_statement, "is_possible", lambda using: False)
        slow = undone(alias, act)
    return fast, slow


@pytest.mark.parametrize("columns", [{}, VALUES, {**VALUES, **LOCKED}, {"due_date": NOW - timedelta(hours=1)}])
@pytest.mark.parametrize(("source", "to"), some([pytest.param(*pair) for pair in permutations(JOB_TABLES, 2)], 3))
def test_every_move(alias, frozen, source, to, columns):
    keys = [{"job_key": 2**51 + number} if "job_key" in columns else {} for number in range(3)]
    rows = [make_row(source, alias, **{**columns, **key}) for key in keys]
    ids = [row.pk for row in rows]
    common = {SuspendedJob: {"suspended_at": NOW}, DeadLetterJob: {"died_at": NOW, "fingerprint": "f"}}.get(to, {})
    changes = {**common, "failed_activity_id": "x"}
    each = {pk: {"attempts": number, "conflicts": 7, "exception_stack": "ä" * number} for number, pk in enumerate(ids)}

    def slowly():
        move_all(rows[:2], to, each, **changes)

    def fast():
        with atomic(alias):
            move_statement.transfer(alias, source, to, ids[:2], changes, {pk: each[pk] for pk in ids[:2]})

    found = undone(alias, fast)
    assert found == undone(alias, slowly)
    assert [found[pk][0] for pk in ids] == [to, to, source]


def test_nothing_is_moved_without_a_row(alias, django_assert_num_queries):
    with django_assert_num_queries(0, using=alias):
        move_statement.transfer(alias, TimerJob, Job, [])


def test_texts_that_a_statement_could_take_for_something_else(alias):
    row = make_row(Job, alias)
    hostile = '%s %(a)s {"x"} \'; -- \\ \n\t NULL'
    for value in (hostile, "NULL", "", "{a,b}", '"', "\\"):
        changes = {row.pk: {"exception_message": value, "exception_stack": value + "!"}}
        twin = make_row(Job, alias)
        each = changes | {twin.pk: {"exception_message": "other", "exception_stack": ""}}

        def act(each=each):
            with atomic(alias):
                move_statement.transfer(alias, Job, TimerJob, list(each), {}, each)

        found = undone(alias, act)
        assert found[row.pk][1]["exception_message"] == value
        assert found[row.pk][1]["exception_stack"] == value + "!"


@pytest.mark.parametrize("ageing", [None, 0.001, 60, 10**9])
def test_timers(alias, frozen, monkeypatch, configure, ageing):
    configure(engine={"PRIORITY_AGEING": ageing})
    priorities = (0, 7, -7, 10**6, 2**31 - 1, -(2**31))
    plain = {"suspend_requested": False, "resource": None, "job_key": None}
    for number, priority in enumerate(priorities):
        due = NOW + timedelta(microseconds=number * 1999)
        make_row(TimerJob, alias, **{**VALUES, **plain, "due_date": due, "priority": priority})
    make_row(TimerJob, alias, due_date=NOW + timedelta(days=1))
    frozen.tick(1)
    fast, slow = both(alias, lambda: trigger_due_timers(alias, 10), monkeypatch)
    assert fast == slow
    assert sum(table is Job for table, _ in fast.values()) == len(priorities)


@pytest.mark.parametrize("how", ["suspended", "by itself"])
def test_timers_of_which_some_are_suspended(alias, frozen, monkeypatch, how):
    if how == "suspended":
        suspend(tenant_id="t", using=alias)
    rows = [make_row(TimerJob, alias, due_date=NOW, tenant_id="t" if n else "") for n in range(3)]
    if how != "suspended":
        TimerJob.objects.using(alias).filter(tenant_id="t").update(suspend_requested=True)
    fast, slow = both(alias, lambda: trigger_due_timers(alias, 10), monkeypatch)
    assert fast == slow
    assert [fast[row.pk][0] for row in rows] == [Job, SuspendedJob, SuspendedJob]


def test_a_suspension_that_concerns_none_of_them(alias, frozen, monkeypatch):
    suspend(tenant_id="t", using=alias)
    make_row(TimerJob, alias, due_date=NOW)
    fast, slow = both(alias, lambda: trigger_due_timers(alias, 10), monkeypatch)
    assert fast == slow


MOMENTS = st.datetimes(datetime(1800, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC))


@pytest.mark.slow
@pytest.mark.databases("postgresql", "mariadb")
@given(
    due=MOMENTS | MOMENTS.map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)),
    priority=st.integers(-(2**31), 2**31 - 1) | st.integers(-100, 100),
    ageing=st.none() | st.integers(1, 10**9),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_rank_in_sql_is_the_rank(alias, configure, due, priority, ageing):
    configure(engine={"PRIORITY_AGEING": ageing})
    text, parameters = move_statement.rank_sql(alias, due)
    for moment in (due, None):
        with transaction.atomic(alias), connections[alias].cursor() as cursor:
            moments = {"postgresql": "%s::timestamptz", "mariadb": "CAST(%s AS DATETIME(6))"}
            row = f"(SELECT {moments[alias]} AS due_date, CAST(%s AS DECIMAL(10)) AS priority) AS source"
            cursor.execute(f"SELECT {text} FROM {row}", [*parameters, moment and adapted(alias, moment), priority])
            assert cursor.fetchone() == (rank(alias, due, priority),)


def adapted(alias, moment):
    return connections[alias].ops.adapt_datetimefield_value(moment)


def test_a_rank_past_2038(alias, frozen, monkeypatch):
    """Where a number of seconds with a fraction no longer tells every millisecond."""
    with FrozenClock(datetime(2039, 1, 1, tzinfo=UTC)):
        for number in range(50):
            make_job(alias, due_date=datetime(2038, 6, 1, 0, 0, number, 1000 * number, tzinfo=UTC))
            make_row(TimerJob, alias, due_date=datetime(2038, 6, 1, 0, 0, number, 1000 * number, tzinfo=UTC))
        created = set(Job.objects.using(alias).values_list("rank", flat=True))
        assert trigger_due_timers(alias, 100) == 50
        assert set(Job.objects.using(alias).values_list("rank", flat=True)) == created
        assert len(created) == 50


@pytest.mark.transactional
def test_what_the_database_refuses_leaves_everything_as_it_was(alias, frozen):
    twins, other = (make_row(TimerJob, alias, due_date=NOW) for _ in range(2)), make_job(alias)
    first, second = twins
    Job.objects.using(alias).filter(pk=other.pk).update(id=first.pk)
    before = tables_of(alias)
    with pytest.raises(IntegrityError):
        trigger_due_timers(alias, 10)
    assert tables_of(alias) == before == {first.pk: [Job, TimerJob], second.pk: [TimerJob]}
