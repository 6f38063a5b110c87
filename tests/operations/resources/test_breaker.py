"""The circuit breaker of a resource: one node opens it for all, trial calls decide."""

from datetime import timedelta

import pytest

from jobexec import signals
from jobexec.conf.resources import BreakerProfile
from jobexec.models import BlockedJob, ExecutorNode, Job, NodeState, Resource
from jobexec.operations import hold_resource, recover_node
from jobexec.operations.resources.breaker import count_trials, open_breaker, take_back
from jobexec.operations.resources.promote import promote
from jobexec.operations.settle.complete import complete_jobs
from jobexec.operations.settle.recover import release_owned, release_strays
from jobexec.operations.settle.release import release_jobs
from tests.support.factories import a_run, acquire, make_job, make_node

pytestmark = pytest.mark.every_database

PROFILE = BreakerProfile(wait=timedelta(seconds=30), trial_calls=2)


@pytest.fixture(autouse=True)
def resources(configure):
    configure(RESOURCES={"pay.example": {"rate": "60/PT1M", "burst": 20, "breaker": {"wait": 30, "trial_calls": 2}}})


def blocked(alias, count):
    return [make_job(alias, resource="pay.example") for _ in range(count)]


def look(alias):
    return promote(alias, ["pay.example"], 100)


def state(alias):
    return Resource.objects.using(alias).get().breaker_state


def opened(alias, reason="5 of 5 failed"):
    return open_breaker(alias, "pay.example", PROFILE, reason)


def test_it_opens_once_and_says_why(alias, frozen):
    told = []

    def hear(**said):
        told.append((said["name"], said["state"]))

    signals.breaker_changed.connect(hear)
    assert opened(alias)
    assert not opened(alias, "later")
    signals.breaker_changed.disconnect(hear)
    row = Resource.objects.using(alias).get()
    assert (row.breaker_state, row.reason, row.breaker_time) == ("open", "5 of 5 failed", frozen.now)
    assert row.trial_time == frozen.now + timedelta(seconds=30)
    assert told == [("pay.example", "open")]


def test_what_has_not_begun_waits_again(alias, frozen):
    rows = blocked(alias, 5)
    look(alias)
    (running,) = acquire(alias, limit=1)
    opened(alias)
    assert list(Job.objects.using(alias).values_list("pk", flat=True)) == [running.id]
    again = list(BlockedJob.objects.using(alias).order_by("rank", "id").values_list("pk", flat=True))
    assert again == [row.pk for row in rows[1:]]  # in their places
    assert look(alias).moved == 0


def recover(alias, node, jobs):
    ExecutorNode.objects.using(alias).update(state=NodeState.DEAD)
    recover_node(alias, node)


GIVES_BACK = {
    "begins none": lambda alias, node, jobs: release_jobs(alias, jobs),
    "stops": lambda alias, node, jobs: release_owned(alias, node.lock_owner),
    "did not know": lambda alias, node, jobs: release_strays(alias, node.lock_owner, list),
    "was killed": recover,
}


@pytest.mark.parametrize("gives_back", GIVES_BACK)
@pytest.mark.parametrize("after", [0, 30])
def test_what_a_node_gives_back_waits_too(alias, frozen, gives_back, after):
    """Also when the time for trial calls has come: these are more."""
    rows = blocked(alias, 3)
    look(alias)
    node = make_node(alias)
    jobs = acquire(alias, node.lock_owner)
    opened(alias)
    frozen.tick(after)
    GIVES_BACK[gives_back](alias, node, jobs)
    assert not Job.objects.using(alias).exists()
    again = BlockedJob.objects.using(alias).order_by("rank", "id")
    lost = int(gives_back == "was killed")
    assert list(again.values_list("pk", "lock_owner", "lost_runs")) == [(row.pk, None, lost) for row in rows]
    assert look(alias).moved == (2 if after else 0)


@pytest.mark.parametrize("held", ["open", "closed"])
def test_what_is_given_back_while_an_operator_holds_it(alias, held):
    blocked(alias, 3)
    look(alias)
    jobs = acquire(alias)
    if held == "closed":
        opened(alias)
    hold_resource("pay.example", state=held, using=alias)
    release_jobs(alias, jobs)
    waiting = BlockedJob.objects.using(alias).count()
    assert (Job.objects.using(alias).count(), waiting) == ((0, 3) if held == "open" else (3, 0))


def test_trial_calls_close_it(alias, frozen):
    blocked(alias, 6)
    opened(alias)
    assert look(alias).again == {"pay.example": frozen.now + timedelta(seconds=30)}
    frozen.tick(30)
    assert (look(alias).moved, state(alias)) == (2, "half open")
    assert look(alias).moved == 0
    (first, second) = acquire(alias)
    complete_jobs(alias, [(first, a_run(alias))])
    assert not count_trials(alias, "pay.example", PROFILE, 1)
    assert look(alias).moved == 0  # one call is still on trial
    complete_jobs(alias, [(second, a_run(alias))])
    assert count_trials(alias, "pay.example", PROFILE, 1)
    assert (state(alias), look(alias).moved) == ("closed", 4)


def test_a_trial_call_that_fails_opens_it_again(alias, frozen):
    blocked(alias, 6)
    opened(alias)
    frozen.tick(30)
    look(alias)
    assert opened(alias, "a trial call failed")
    row = Resource.objects.using(alias).get()
    assert (row.breaker_state, row.trial_time) == ("open", frozen.now + timedelta(seconds=30))


def test_a_trial_call_that_was_lost_is_made_by_another(alias, frozen):
    blocked(alias, 3)
    opened(alias)
    frozen.tick(30)
    look(alias)
    first, _second = acquire(alias)
    Job.objects.using(alias).filter(pk=first.id).delete()
    assert look(alias).moved == 1


def test_successes_of_a_breaker_that_is_not_half_open_do_not_count(alias):
    assert count_trials(alias, "pay.example", PROFILE, 1)  # has never been used
    opened(alias)
    assert not count_trials(alias, "pay.example", PROFILE, 5)
    assert state(alias) == "open"


def test_page_by_page(alias, monkeypatch):
    monkeypatch.setattr("jobexec.operations.resources.breaker._PAGE", 2)
    blocked(alias, 5)
    look(alias)
    assert take_back(alias, "pay.example") == 5
