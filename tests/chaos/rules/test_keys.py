"""The judge on hand-made histories of calls with unique keys."""

import pytest

from tests.chaos.people.callers import LASTS
from tests.chaos.rules import keys as rules
from tests.chaos.rules.stories import A, B, Story, bad, good


class Calls(Story):
    """Each call makes a job of its name or meets another; of `call` to `answer`."""

    def made(self, job, key, call, answer, due=None, ok=True):
        number = {"call": len(self.lines), "key": key, "on_conflict": "return"}
        plain = {"kind": "keyed", "instance": "", "exclusive": False, "atomic": False, "retries": 3, "tenant": ""}
        self.tell(call, "keying", **number)
        middle = (call + answer) / 2
        self.tell(middle, "creating", w=middle, jobs=[{"id": job, **plain}], due=due, **number)
        error = {} if ok else {"error": "OperationalError: deadlock", "conflict": True}
        return self.tell(answer, "keyed", ok=ok, job=job, duplicate=False, **number, **error)

    def met(self, job, key, call, answer):
        number = {"call": len(self.lines), "key": key, "on_conflict": "return"}
        return self.tell(call, "keying", **number).tell(answer, "keyed", ok=True, job=job, duplicate=True, **number)


def two(key, second, first_until, **more):
    """One that ran until then, and another that was made at this time."""
    story = Calls().made("j", key, 1, 2, **more).run(2.5, first_until, "j", A)
    return story.made("k", key, second, second + 0.5, **more).run(second + 1, second + 2, "k", B)


@pytest.mark.parametrize("key", ["active-1", "existing-1"])
def test_two_jobs_at_the_same_time(key):
    good(rules.no_key_has_two_jobs, two(key, 5, 4))
    bad(rules.no_key_has_two_jobs, two(key, 5, 9), f"had the key {key} while j had it")
    bad(rules.no_key_has_two_jobs, two(key, 1, 9), f"had the key {key} while k had it")


def test_whose_answer_was_lost_has_the_key_since_it_ran():
    story = Calls().made("j", "active-1", 1, 2, ok=False).run(3, 9, "j", A)
    bad(rules.no_key_has_two_jobs, story.made("k", "active-1", 4, 5).run(5.5, 6, "k", B), "while j had it")
    never = Calls().made("j", "active-1", 1, 2, ok=False)
    good(rules.no_key_has_two_jobs, never.made("k", "active-1", 4, 5).run(5.5, 6, "k", B))


def test_one_that_lives_has_its_key_and_a_dead_letter_only_as_long_as_it_exists():
    def story(key, table):
        return Calls().made("j", key, 1, 2).row("j", table).made("k", key, 7, 8).run(8.5, 9, "k", B)

    bad(rules.no_key_has_two_jobs, story("active-1", "timer"), "while j had it")
    bad(rules.no_key_has_two_jobs, story("existing-1", "dead letter"), "while j had it")
    good(rules.no_key_has_two_jobs, story("active-1", "dead letter"))


def test_one_that_waits_for_its_date_and_one_that_runs():
    bad(rules.no_key_has_two_jobs, two("waiting-1", 5, 9, due=8.0), "while j had it")
    good(rules.no_key_has_two_jobs, two("waiting-1", 5, 9, due=4.0))
    good(rules.no_key_has_two_jobs, two("waiting-1", 5, 9))


def test_a_key_that_is_taken_for_a_time():
    good(rules.no_key_has_two_jobs, two("for-1", 1.1 + LASTS, 3))
    bad(rules.no_key_has_two_jobs, two("for-1", 0.4 + LASTS, 3), "while j had it")


def test_one_that_was_replaced_had_its_key_until_then():
    def story(second):
        calls = Calls().made("j", "active-1", 1, 2).log("j", "deleted", message="Replaced by k")
        calls.made("k", "active-1", 4, 5).run(6, 7, "k", A)
        return calls.made("l", "active-1", second, second + 0.5).run(second + 1, second + 2, "l", B)

    good(rules.no_key_has_two_jobs, story(8))
    bad(rules.no_key_has_two_jobs, story(2.5), "the key active-1 while j had it")


def test_a_duplicate_is_one_of_a_job_with_this_key_that_was_not_over():
    good(rules.duplicates_have_a_holder, Calls().made("j", "active-1", 1, 2).met("j", "active-1", 3, 4))
    bad(rules.duplicates_have_a_holder, Calls().met("j", "active-1", 3, 4), "nobody has made")
    other = Calls().made("j", "active-2", 1, 2).met("j", "active-1", 3, 4)
    bad(rules.duplicates_have_a_holder, other, "nobody has made with this key")
    over = Calls().made("j", "active-1", 1, 2).run(3, 4, "j", A)
    good(rules.duplicates_have_a_holder, over.met("j", "active-1", 4.05, 6))
    bad(rules.duplicates_have_a_holder, over.met("j", "active-1", 5, 6), "and was over before")


def test_a_dead_letter_is_a_holder_only_of_what_exists():
    def story(key):
        calls = Calls().made("j", key, 1, 2).begin(2.5, "j", A).end(3, "j", A, result="failed")
        return calls.outcome(3.1, "j", A, result="dead").row("j", "dead letter").met("j", key, 4, 5)

    good(rules.duplicates_have_a_holder, story("existing-1"))
    bad(rules.duplicates_have_a_holder, story("active-1"), "and was over before")


def test_one_that_runs_does_not_wait():
    story = Calls().made("j", "waiting-1", 1, 2).run(3, 6, "j", A).met("j", "waiting-1", 4, 5)
    bad(rules.duplicates_have_a_holder, story, "and ran since before")
    good(
        rules.duplicates_have_a_holder,
        Calls().made("j", "waiting-1", 1, 2).run(3, 6, "j", A).met("j", "waiting-1", 2, 5),
    )


def test_a_key_of_a_job_that_is_over_is_taken_as_long_as_was_said():
    story = Calls().made("j", "for-1", 1, 2).run(2.1, 2.5, "j", A)
    good(rules.duplicates_have_a_holder, story.met("j", "for-1", 1.5 + LASTS, 9))
    bad(rules.duplicates_have_a_holder, story.met("j", "for-1", 1.6 + LASTS, 9), "and was over before")


def test_calls_fail_only_in_conflicts():
    def story(**values):
        calls = Calls().tell(20, "keying", call=1, key="k")
        return calls.tell(21, "keyed", call=1, key="k", ok=False, error="IntegrityError", **values)

    good(rules.calls_fail_only_in_conflicts, story(conflict=True))
    bad(rules.calls_fail_only_in_conflicts, story(conflict=False), "IntegrityError")
    good(rules.calls_fail_only_in_conflicts, story(conflict=False).tell(17, "server-down").tell(18, "server-up"))
    bad(
        rules.calls_fail_only_in_conflicts,
        story(conflict=False).tell(2, "server-down").tell(3, "server-up"),
        "Integrity",
    )
