"""Failures on demand, and that what follows is what production does."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError

from jobexec.models import DeadLetterJob, ExclusiveLock, ExecutorNode, Job, TimerJob
from jobexec.testing import ManualExecutor, conflict, database_away, fail, kill_node, lose_lock
from tests.support.factories import locked_ids, reload, table_of


def names(alias):
    return set(Group.objects.using(alias).values_list("name", flat=True))


@pytest.fixture
def write(handle, alias):
    """A job that writes a name."""

    def write(name):
        Group.objects.using(alias).create(name=name)

    return handle(write, database=alias, process_instance_id="order 7")


class TestFail:
    def test_instead_of_running_so_many_times(self, alias, write, executor):
        row = write.enqueue("one")
        with fail(write, ValueError("asked for"), times=1):
            (result,) = executor.run_due()
        assert (result.outcome, str(result.exception), result.became) == ("failed", "asked for", TimerJob)
        assert names(alias) == set()
        assert reload(alias, row).attempts == 1

    def test_others_go_on(self, alias, shop, executor, write):
        shop.send.enqueue(1)
        write.enqueue("one")
        with fail("shop.write", ValueError):
            assert [each.outcome for each in executor.run_due()] == ["successful", "failed"]

    def test_one_job(self, alias, shop, executor):
        shop.send.enqueue(1)
        row = shop.send.enqueue(2)
        with fail(row, ValueError):
            assert [each.outcome for each in executor.run_due()] == ["successful", "failed"]

    def test_a_failure_that_never_comes_fails_the_test(self, alias, shop, executor):
        told = pytest.raises(AssertionError, match=r"fail: no job shop.send reached that point; 2 times left")
        with told, fail(shop.send, ValueError, times=2):
            executor.run_due()
        with pytest.raises(ValueError, match="times: expected a whole number of at least 1"), fail(None, ValueError, 0):
            pass

    def test_a_conflict_costs_no_retry(self, alias, shop, executor):
        row = shop.send.enqueue(1)
        with conflict(shop.send):
            executor.run_due()
        waiting = reload(alias, row)
        assert (type(waiting), waiting.conflicts, waiting.retries) == (TimerJob, 1, 3)


class LoseLock:
    @pytest.mark.parametrize("atomic", [False, True])
    def test_the_outcome_does_not_count(self, alias, write, executor, atomic):
        row = write.using(atomic=atomic).enqueue("one")
        with lose_lock(write) as other:
            (result,) = executor.run_due()
        assert (result.outcome, result.became, other.taken) == ("lost", None, [row.pk])
        # What an atomic job did is rolled back; any other has done it, and will do it again.
        assert names(alias) == (set() if atomic else {"one"})
        held = reload(alias, row)
        assert (held.lock_owner, held.lost_runs, held.attempts) == (other.owner, 1, 0)
        assert ExclusiveLock.objects.using(alias).get().lock_owner == other.owner
        assert executor.run_due() == []
        other.give_back()
        Group.objects.using(alias).all().delete()
        assert executor.run_due()[0].successful
        assert names(alias) == {"one"}

    def test_its_siblings_are_given_back(self, alias, write, executor):
        write.enqueue("one")
        second = write.enqueue("two")
        with lose_lock() as other:
            assert [each.outcome for each in executor.run_due()] == ["lost"]
        assert second.pk not in locked_ids(alias)
        assert len(other.taken) == 1


class TestLoseLockInATestCase(LoseLock):
    pass


@pytest.mark.transactional
class TestLoseLock(LoseLock):
    pass


class KillNode:
    @pytest.mark.parametrize("atomic", [False, True])
    def test_what_it_held_stays_locked_until_it_is_recovered(self, alias, write, shop, executor, atomic):
        row = write.using(atomic=atomic).enqueue("one")
        other = shop.send.enqueue(1)
        with kill_node(write):
            executor.run_due()
            pytest.fail("the node lives")
        assert names(alias) == (set() if atomic else {"one"})
        assert locked_ids(alias) == {row.pk, other.pk}
        assert executor.run_due() == []
        assert executor.recover() == 1
        assert not locked_ids(alias)
        assert not ExecutorNode.objects.using(alias).exists()
        assert (reload(alias, row).lost_runs, reload(alias, row).attempts) == (1, 0)
        Group.objects.using(alias).all().delete()
        assert {each.outcome for each in executor.run_due()} == {"successful"}

    def test_before_the_handler_begins(self, alias, write, executor):
        write.enqueue("one")
        with kill_node(when="begins"):
            executor.run_due()
        assert names(alias) == set()
        executor.recover()
        assert executor.run_due()[0].successful


class TestKillNodeInATestCase(KillNode):
    def test_a_job_that_kills_every_node_ends_as_a_dead_letter(self, alias, handle, executor):
        row = handle(lambda: None, name="shop.kills", database=alias, retries="R1/PT0S").enqueue()
        for _ in range(3):
            with kill_node("shop.kills"):
                executor.run_due()
            executor.recover()
        assert table_of(alias, row) is DeadLetterJob
        assert "process died" in reload(alias, row).exception_message

    def test_nobody_who_dies_fails_the_test(self, executor):
        with pytest.raises(AssertionError, match="kill_node: no job reached that point"), kill_node():
            executor.run_due()


@pytest.mark.transactional
class TestKillNode(KillNode):
    pass


class DatabaseAway:
    def test_an_acquisition_says_so_and_nothing_is_lost(self, alias, shop, executor):
        shop.send.enqueue(1)
        with database_away(alias) as away, pytest.raises(OperationalError, match="is unavailable"):
            executor.run_due()
        assert away.refused == 1
        assert [each.value for each in executor.run_due()] == ["sent 1"]

    def test_an_outcome_is_written_when_it_is_back(self, alias, shop, executor):
        row = shop.send.enqueue(1)
        (work,) = executor.acquire()
        ran = executor.run(work)
        with database_away(alias):
            assert executor.settle(ran).outcome == "unsettled"
        assert reload(alias, row).lock_owner == executor.owner
        assert executor.run_due() == []
        assert table_of(alias, row) is None
        assert shop.done == [1]

    def test_a_job_that_cannot_begin_is_given_back(self, alias, write, executor):
        row = write.enqueue("one")
        (work,) = executor.acquire()
        with database_away(alias, times=1):
            assert executor.settle(executor.run(work)).outcome == "returned"
        assert (reload(alias, row).attempts, reload(alias, row).lock_owner) == (0, None)
        assert executor.run_due()[0].successful

    def test_a_handler_that_meets_it_fails(self, alias, handle):
        def meets(name):
            Group.objects.using(alias).create(name="before")
            with database_away(alias):
                Group.objects.using(alias).create(name=name)

        row = handle(meets, database=alias).enqueue("one")
        (result,) = ManualExecutor(alias, reraise=False).run_due()
        assert (type(result.exception), result.became) == (OperationalError, TimerJob)
        assert reload(alias, row).attempts == 1
        assert names(alias) == {"before"}


class TestDatabaseAwayInATestCase(DatabaseAway):
    def test_a_database_that_nobody_asks_fails_the_test(self, alias):
        with pytest.raises(AssertionError, match="no statement was sent"), database_away(alias):
            pass
        sent = pytest.raises(AssertionError, match=r"1 of 3 statements were sent")
        with sent, database_away(alias, times=3), pytest.raises(OperationalError):
            Job.objects.using(alias).count()


@pytest.mark.transactional
class TestDatabaseAway(DatabaseAway):
    pass


def test_expired_locks_of_steps_are_found_too(alias, shop, frozen_at_noon):
    first, second = ManualExecutor(alias), ManualExecutor(alias)
    shop.send.enqueue(1)
    first.acquire()
    frozen_at_noon.advance(timedelta(hours=1))
    second.recover()
    assert [each.value for each in second.run_due()] == ["sent 1"]
