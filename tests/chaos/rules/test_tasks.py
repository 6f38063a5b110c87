"""The judge on hand-made histories of tasks and their results."""

import pytest

from tests.chaos.rules import tasks as rules
from tests.chaos.rules.stories import A, B, Story, bad, good

VALUE = {"run": "x", "attempt": 1}


def task(**result):
    """A task with this result; without one if nothing is said of it."""
    story = Story(j={"kind": "task"})
    plain = {"job": "j", "status": "SUCCESSFUL", "ended": True, "value": None, "errors": 0, "workers": []}
    if result:
        story.more = {"results": [{**plain, "seen": result.get("status", "SUCCESSFUL"), **result}]}
    return story


def ran(story, since, until, owner, value=VALUE):
    story.begin(since, "j", owner)
    run = {"job": "j", "owner": owner, "attempt": 1, "result": "ok", "held": True, "asked": until}
    return story.tell(until, "end", 11 if owner == A else 22, returns=value, **run)


def test_a_task_that_is_over_has_its_result():
    done = task(value=VALUE).run(1, 2, "j", A)
    good(rules.results_say_what_happened, done)
    bad(rules.results_say_what_happened, task().run(1, 2, "j", A), "has the result none")
    bad(rules.results_say_what_happened, task(status="READY", ended=False).run(1, 2, "j", A), "result READY")
    good(rules.results_say_what_happened, task(status="FAILED").log("j", "deleted"))
    bad(rules.results_say_what_happened, task(status="SUCCESSFUL").log("j", "cancelled"), "result SUCCESSFUL")


@pytest.mark.parametrize("table", ["executable", "timer", "suspended"])
def test_a_task_that_lives_has_none_that_is_final(table):
    good(rules.results_say_what_happened, task().row("j", table))
    good(rules.results_say_what_happened, task(status="READY", ended=False).row("j", table))
    for status in ("SUCCESSFUL", "FAILED"):
        bad(rules.results_say_what_happened, task(status=status).row("j", table), f"result {status}")


def test_a_dead_letter_has_failed():
    good(rules.results_say_what_happened, task(status="FAILED").row("j", "dead letter"))
    bad(rules.results_say_what_happened, task(status="READY", ended=False).row("j", "dead letter"), "result READY")
    bad(rules.results_say_what_happened, task().row("j", "dead letter"), "result none")


def test_a_result_ends_when_it_is_final_and_is_shown_as_it_is():
    bad(rules.results_say_what_happened, task(ended=False).run(1, 2, "j", A), "has no end")
    bad(rules.results_say_what_happened, task(status="READY").row("j", "timer"), "has an end")
    bad(rules.results_say_what_happened, task(seen="READY").run(1, 2, "j", A), "shown as READY")
    bad(rules.results_say_what_happened, task(seen=None).run(1, 2, "j", A), "shown as None")


def test_a_result_of_nobody():
    story = Story()
    story.more = {"results": [{"job": "other", "status": "FAILED"}]}
    bad(rules.results_say_what_happened, story, "no task that was enqueued")


def test_the_value_is_that_of_the_last_run():
    other = {"run": "y", "attempt": 1}
    good(rules.values_are_those_of_the_last_run, ran(task(value=VALUE), 1, 2, A))
    both = ran(ran(task(value=other), 1, 9, A, other), 3, 4, B)
    bad(rules.values_are_those_of_the_last_run, both, "SUCCESSFUL with the value")
    both.more["results"][0]["value"] = VALUE
    good(rules.values_are_those_of_the_last_run, both)
    bad(rules.values_are_those_of_the_last_run, ran(task(status="FAILED", value=VALUE), 1, 2, A), "is FAILED")


def test_each_attempt_is_noted_once():
    story = task(workers=["n1"]).run(1, 2, "j", A)
    good(rules.each_attempt_is_noted_once, story)
    bad(rules.each_attempt_is_noted_once, story.log("j", "failed"), "and 2 attempts")
    bad(rules.each_attempt_is_noted_once, task(workers=["n1", "n2"]).run(1, 2, "j", A), "and 1 attempts")


def test_what_was_seen_stays_so():
    story = task(value=VALUE).tell(3, "saw", ok=True, seen={"j": ["READY", None]})
    story.tell(4, "saw", ok=True, seen={"j": ["SUCCESSFUL", VALUE]})
    good(rules.sightings_are_true, story)
    for status, value in (("RUNNING", None), ("SUCCESSFUL", {"run": "y"})):
        again = task(value=VALUE).tell(4, "saw", ok=True, seen={"j": ["SUCCESSFUL", VALUE]})
        bad(rules.sightings_are_true, again.tell(5, "saw", ok=True, seen={"j": [status, value]}), "and then")
    bad(rules.sightings_are_true, task().tell(4, "saw", ok=True, seen={"j": ["nowhere", None]}), "was not found")
    gone = task().tell(4, "saw", ok=True, seen={"j": ["SUCCESSFUL", VALUE]})
    bad(rules.sightings_are_true, gone, "is not any more")
