"""The judge on hand-made histories: each rule finds what is wrong, and lets pass what only looks like it."""

import pytest

from tests.chaos.rules import jobs as rules
from tests.chaos.rules import judge
from tests.chaos.rules.stories import A, Story, bad, good

DIED = "The executor process died while it ran this job (node n1, 2 lost runs)."


# Nothing is lost.


def test_a_job_that_ran_and_is_gone_is_finished():
    good(rules.nothing_lost, Story(j={}).run(1, 2, "j", A))


def test_a_job_that_is_nowhere_is_lost():
    bad(rules.nothing_lost, Story(j={}), "is lost")
    bad(rules.nothing_lost, Story(j={}).begin(1, "j", A).end(2, "j", A), "is lost")


def test_a_job_whose_creation_is_in_doubt_may_be_missing_but_not_after_it_ran():
    story = Story(j={}).tell(0.5, "created", ok=False, jobs=["j"])
    good(rules.nothing_lost, story)
    bad(rules.nothing_lost, story.begin(1, "j", A), "is lost")


def test_finished_without_a_run_that_ended_well():
    bad(rules.nothing_lost, Story(j={}).log("j", "successful"), "without a run")
    failed = Story(j={}).begin(1, "j", A).end(2, "j", A, result="failed").log("j", "successful")
    bad(rules.nothing_lost, failed, "without a run")


def test_finished_twice_or_in_two_places():
    bad(rules.nothing_lost, Story(j={}).run(1, 2, "j", A).log("j", "successful"), "finished twice")
    bad(rules.nothing_lost, Story(j={}).row("j", "timer", due_in=99).row("j", "executable"), "several tables")
    bad(rules.nothing_lost, Story(j={}).run(1, 2, "j", A).row("j", "executable"), "says that it is gone")


@pytest.mark.parametrize("verb, state", [("delete", "deleted"), ("cancel", "cancelled")])
def test_removed_is_fine_if_a_person_asked_for_it(verb, state):
    asked = Story(j={}).tell(1, "asks", verb=verb, jobs=["j"]).log("j", state)
    good(rules.nothing_lost, asked)
    bad(rules.nothing_lost, asked.log("j", "successful"), "finished and removed")
    bad(rules.nothing_lost, Story(j={}).log("j", state), "nobody asked")


def test_what_is_left_must_wait_for_something():
    bad(rules.nothing_lost, Story(j={}).row("j", "executable"), "nobody runs it")
    bad(rules.nothing_lost, Story(j={}).row("j", "timer", due_in=-3.0), "due since 3.0 s")
    good(rules.nothing_lost, Story(j={}).row("j", "timer", due_in=4000.0))
    bad(rules.nothing_lost, Story(j={}).row("j", "dead letter"), "does not say why")
    good(rules.nothing_lost, Story(j={}).row("j", "dead letter", exception_message="ValueError: no"))


def test_suspended_needs_a_suspension_that_covers_it():
    story = Story(j={}).row("j", "suspended", tenant_id="north")
    bad(rules.nothing_lost, story, "no suspension covers it")
    story.suspensions.append(["tenant_id", "north"])
    good(rules.nothing_lost, story)
    good(rules.nothing_lost, Story(j={}).row("j", "suspended", suspend_requested=True))


# Effects.


def test_an_atomic_job_takes_effect_once_when_it_finished_and_never_else():
    story = Story(j={"atomic": True}).run(1, 2, "j", A)
    bad(rules.effects_exactly_once, story, "0 times instead of 1")
    story.effects["j"] = 1
    good(rules.effects_exactly_once, story)
    story.effects["j"] = 2
    bad(rules.effects_exactly_once, story, "2 times instead of 1")
    dead = Story(j={"atomic": True}).row("j", "dead letter")
    dead.effects["j"] = 1
    bad(rules.effects_exactly_once, dead, "1 times instead of 0")


# Charges.


def test_a_failure_in_the_log_is_that_of_a_run():
    good(
        rules.nobody_pays_for_another,
        Story(j={}).begin(1, "j", A).end(2, "j", A, result="failed").log("j", "failed", message="ValueError: no"),
    )
    bad(
        rules.nobody_pays_for_another,
        Story(j={}).log("j", "failed", message="OperationalError: x"),
        "no run of it failed",
    )
    ended_well = Story(j={}).begin(1, "j", A).end(2, "j", A).log("j", "failed", message="x")
    bad(rules.nobody_pays_for_another, ended_well, "no run of it failed")
    atomic = Story(j={"atomic": True}).begin(1, "j", A).end(2, "j", A).log("j", "failed", message="x")
    good(rules.nobody_pays_for_another, atomic)


def test_a_timeout_that_nobody_lived_to_tell():
    late = "JobTimeout: It ran longer than its timeout of 0:00:01."
    good(rules.nobody_pays_for_another, Story(j={}).begin(1, "j", A).kill(3, A).log("j", "failed", message=late))
    bad(rules.nobody_pays_for_another, Story(j={}).run(1, 2, "j", A).log("j", "failed", message=late), "no run of it")


def test_the_first_loss_costs_nothing():
    story = Story(j={}).begin(1, "j", A).kill(2, A).log("j", "failed", message=DIED)
    bad(rules.nobody_pays_for_another, story, "no run was lost")
    bad(rules.nobody_pays_for_another, Story(j={}).log("j", "failed", message=DIED), "no run was lost")
    second = Story(j={}).begin(1, "j", A, lost=1).kill(2, A).log("j", "failed", message=DIED)
    bad(rules.nobody_pays_for_another, second, "no run was lost")


def test_a_suspect_that_ran_when_its_node_was_killed_or_paused():
    good(
        rules.nobody_pays_for_another, Story(j={}).begin(1, "j", A, lost=2).kill(2, A).log("j", "failed", message=DIED)
    )
    paused = Story(j={}).begin(1, "j", A, lost=2).end(15, "j", A, held=False).log("j", "failed", message=DIED)
    good(rules.nobody_pays_for_another, paused)


def test_an_innocent_suspect_pays_for_a_neighbour():
    story = Story(j={}, k={"kind": "killer"}).begin(1, "j", A, lost=2).begin(2, "k", A)
    story.tell(2.1, "dies", 11, job="k", attempt=1, owner=A).exit(2.2, A, 9).log("j", "failed", message=DIED)
    bad(rules.nobody_pays_for_another, story, "because a neighbour killed the process")


def test_a_killer_pays_for_itself():
    story = Story(k={"kind": "killer"}).begin(2, "k", A, lost=2).tell(2.1, "dies", 11, job="k", attempt=1, owner=A)
    good(rules.nobody_pays_for_another, story.exit(2.2, A, 9).log("k", "failed", message=DIED))


def test_retries_add_up():
    good(rules.retries_add_up, Story(j={}).log("j", "failed").row("j", "timer", retries=2))
    bad(rules.retries_add_up, Story(j={}).log("j", "failed").row("j", "timer", retries=1), "has 1 retries left")
    good(rules.retries_add_up, Story(j={}).log("j", "failed").row("j", "timer", retries=3, conflicts=1))
    asked = Story(j={}).tell(1, "asks", verb="set_retries", jobs=["j"]).row("j", "timer", retries=1)
    good(rules.retries_add_up, asked)


# Kinds and leftovers.


def test_a_killer_ends_as_a_dead_letter_that_says_so():
    good(rules.kinds_end_as_they_must, Story(k={"kind": "killer"}).row("k", "dead letter", exception_message=DIED))
    other = Story(k={"kind": "killer"}).row("k", "dead letter", exception_message="ValueError: no")
    bad(rules.kinds_end_as_they_must, other, "does not say that it kills")
    bad(rules.kinds_end_as_they_must, Story(k={"kind": "doomed"}).log("k", "successful"), "which it cannot")


def test_nothing_is_left_and_nobody_ends_by_himself():
    started = Story().tell(0, "start", node="n1", of=11)
    bad(rules.nothing_is_left, started.exit(5, A, 1), "ended by itself with 1")
    good(rules.nothing_is_left, Story().tell(0, "start", node="n1", of=11).kill(5, A))
    without_server = Story().tell(0, "start", node="n1", of=11).tell(1, "server-down").exit(2, A, 1)
    good(rules.nothing_is_left, without_server)
    left = Story()
    left.locks.append("instance-1")
    bad(rules.nothing_is_left, left, "instance-1 is left in locks")
    bad(rules.nothing_is_left, Story().tell(9, "restless", seconds=60), "did not come to rest")


def test_a_run_that_never_came_to_rest_is_judged_by_what_always_holds():
    assert judge(Story(j={}).history()) == []
    assert [problem.rule for problem in judge(Story(j={}).tell(1, "rest").history())] == ["nothing lost"]
