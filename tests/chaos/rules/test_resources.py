"""The judge on hand-made histories: limits, rates and breakers of what jobs share."""

import pytest

from tests.chaos.rules import jobs
from tests.chaos.rules import resources as rules
from tests.chaos.rules.stories import A, B, Story, bad, good

RESOURCES = {"gate": {"limit": 2}, "customer:*": {"limit": 1}, "meter": {"rate": "6/PT3S", "burst": 1}}
RESOURCES["line"] = {"limit": 9, "breaker": {"wait": 5, "trial_calls": 2}}
LIMIT, RATE = rules.resources_bear_what_runs, rules.rates_are_kept
SHUT, TRIAL = rules.breakers_let_none_begin, rules.only_trial_calls_run


def sharing(*names, resource="gate", **columns):
    story = Story(**{name: {"exclusive": False, "resource": resource, **columns} for name in names})
    return story.tell(0, "limits", tenants={}, resources=RESOURCES)


def test_as_many_as_a_resource_bears():
    good(LIMIT, sharing("i", "j", "k").run(1, 4, "i", A).run(2, 5, "j", B).run(4.5, 6, "k", A))
    story = sharing("i", "j", "k").run(1, 4, "i", A).run(2, 5, "j", B).run(3, 6, "k", A)
    bad(LIMIT, story, "began beside 2 others of gate, whose limit is 2")
    assert [resource.most for resource in rules.sharing(story.history())] == [3]


def test_each_customer_by_itself():
    plain = {"exclusive": False}
    story = Story(i={"resource": "customer:1", **plain}, j={"resource": "customer:2", **plain}, k=plain)
    story.tell(0, "limits", tenants={}, resources=RESOURCES)
    good(LIMIT, story.run(1, 4, "i", A).run(2, 5, "j", B).run(2, 5, "k", B))
    story = sharing("i", "j", resource="customer:1").run(1, 4, "i", A).run(2, 5, "j", B)
    bad(LIMIT, story, "began beside 1 others of customer:1")


def test_what_a_killed_node_held_is_taken_until_its_lease_is_over():
    def killed():
        return sharing("i", "j", "k").begin(1, "i", A).begin(1, "j", A).kill(2, A)

    bad(LIMIT, killed().run(5, 6, "k", B), "began beside 2 others")
    good(LIMIT, killed().run(5, 6, "k", B), single=True)
    good(LIMIT, killed().lease(B, 9).run(11, 12, "k", B))


def test_a_node_that_lost_its_lease_may_go_on_beside_its_successor():
    def paused():
        story = sharing("i", "j", resource="customer:1").begin(1, "i", A).end(14, "i", A, held=False)
        return story.lease(B, 9).run(12, 13, "j", B)

    good(LIMIT, paused())
    bad(LIMIT, paused().lease(A, 5), "began beside 1 others")
    late = sharing("i", "j", resource="customer:1").lease(B, 9).run(11, 13, "j", B)
    good(LIMIT, late.begin(12, "i", A, held=False))


def test_what_is_past_its_timeout_holds_no_permit():
    good(LIMIT, sharing("i", "j", resource="customer:1", kind="late").run(1, 4, "i", A).run(2, 5, "j", B))


def every(*moments, came=1.0):
    """Jobs that came one after the other and began at these moments."""
    jobs = {f"j{number}": {"exclusive": False, "resource": "meter"} for number in range(len(moments))}
    story = Story().tell(0, "limits", tenants={}, resources=RESOURCES)
    for number, name in enumerate(jobs):
        plain = {"kind": "work", "instance": "", "atomic": False, "retries": 3, "tenant": ""}
        story.tell(came + number * 0.001, "creating", jobs=[{"id": name, **plain, **jobs[name]}])
    for name, moment in zip(jobs, moments, strict=True):
        story.begin(moment, name, A).end(moment + 0.1, name, A)
    return story


def test_runs_that_are_spread_as_the_rate_says():
    good(RATE, every(*(1.01 + 0.5 * number for number in range(20))))
    # Late after their permits, because no thread was free.
    good(RATE, every(*(8 + 0.01 * number for number in range(14))))


def test_runs_that_come_sooner():
    bad(RATE, every(1.1, 1.2, 1.3), "was number 3 of meter that came and began within")
    bad(RATE, every(*(1.01 + 0.3 * number for number in range(20))), "of meter that came and began within")


def test_one_that_came_while_a_node_gave_permits_may_come_too_soon():
    good(RATE, every(1.1, 1.2))


def retried(again, **outcome):
    story = every(1.1, 2.0)
    story.outcome(2.2, "j1", A, result="failed", **outcome)
    story.begin(again, "j0", A, lost=1).end(again + 0.1, "j0", A)
    return story.begin(again, "j1", A, attempt=2).end(again + 0.1, "j1", A, attempt=2)


def test_what_is_lost_keeps_its_permit_and_what_has_failed_takes_another():
    permits = [(run.job, run.attempt) for _, run in rules._permits(retried(9.0).history(), "meter")]
    assert permits == [("j0", 1), ("j1", 1), ("j1", 2)]
    # One that was put off by a timeout is as silent as one that nobody has settled.
    permits = rules._permits(retried(9.0, error="JobTimeout").history(), "meter")
    assert [(run.job, run.attempt) for _, run in permits] == [("j0", 1), ("j1", 1)]


def held(*names, since=20, until=26):
    """Jobs of the gate, which an operator holds open; both nodes know of it at 23 at the latest."""
    story = sharing(*names).tell(since - 0.1, "breaker-holds", resource="gate")
    story.tell(since, "breaker-held", resource="gate", until=until, w=since)
    return beating(story, 20.5, 21.5, 22.5)


def beating(story, *moments):
    for moment in moments:
        story.lease(A, moment).lease(B, moment + 0.5)
    return story


def test_nothing_begins_while_an_operator_holds_it_open():
    good(SHUT, held("i", "j", "k").run(19, 25, "i", A).run(22.4, 25, "j", A).run(26, 27, "k", B))
    text = "began 1.000 s after its node knew that gate was held open by an operator"
    bad(SHUT, held("i").run(23.5, 25, "i", A), text)
    good(SHUT, held("i").run(22.9, 25, "i", B))
    other = Story(i={"resource": "customer:1"}).tell(0, "limits", tenants={}, resources=RESOURCES)
    good(SHUT, other.run(23.5, 25, "i", A).tell(20, "breaker-held", resource="gate", until=26, w=20))


@pytest.mark.parametrize("deed", ["breaker-holds", "breaker-releases"])
def test_until_an_operator_changes_it(deed):
    good(SHUT, held("i").tell(23, deed, resource="gate").run(23.5, 25, "i", A))
    bad(SHUT, held("i").tell(23, deed, resource="customer:1").run(23.5, 25, "i", A), "began 1.000 s")


def test_a_node_hears_of_it_when_nothing_disturbs():
    def begins_late(story):
        return story.run(25.5, 27, "i", A)

    bad(SHUT, begins_late(held("i")), "began 3.000 s")
    paused = held("i").tell(22, "pause", of=33).tell(23, "resume-sent", of=33)
    good(SHUT, begins_late(paused))
    bad(SHUT, begins_late(beating(paused, 24, 24.5, 25)), "began 0.500 s")
    good(SHUT, begins_late(held("i").tell(19.5, "server-down").tell(20.2, "server-up")))
    good(SHUT, begins_late(held("i").tell(21, "pause", of=33)))


def opened(*names, closing=()):
    """Jobs of the line, whose breaker is open from 20 to 25, and half open until it is closed."""
    story = sharing(*names, resource="line").tell(19.9, "breaker-opens", resource="line")
    story.tell(20, "breaker-opened", resource="line", done=True)
    for moment, done in closing:
        story.tell(moment, "breaker-counts", resource="line").tell(
            moment + 0.1, "breaker-counted", resource="line", done=done
        )
    return beating(story, 20.5, 21.5, 22.5)


def test_nothing_begins_while_a_breaker_is_open():
    good(SHUT, opened("i", "j").run(22.4, 24, "i", A).run(25, 26, "j", A))
    bad(SHUT, opened("i").run(24, 26, "i", A), "began 1.500 s after its node knew that line had an open breaker")
    good(SHUT, opened("i").tell(23, "breaker-releases", resource="line").run(24, 26, "i", A))
    story = sharing("i", resource="line").tell(20, "breaker-opens", resource="line")
    story.tell(20.1, "breaker-opened", resource="line", done=False)
    good(SHUT, beating(story, 20.5, 21.5, 22.5).run(24, 26, "i", A))


def three(story):
    return story.run(26, 29, "i", A).run(26, 29, "j", B).run(27, 29, "k", A)


def test_no_more_than_trial_calls_run_while_it_is_half_open():
    text = "began beside 2 others of line, which allows 2 trial calls"
    bad(TRIAL, three(opened("i", "j", "k")), text)
    good(TRIAL, opened("i", "j", "k").run(26, 29, "i", A).run(26, 29, "j", B).run(29.1, 30, "k", A))
    good(TRIAL, opened("i", "j", "k").run(19, 29, "i", A).run(26, 29, "j", B).run(27, 29, "k", A))
    # One success is counted, and it is not enough.
    bad(TRIAL, three(opened("i", "j", "k", closing=[(26.5, False)])), text)
    # What ends it is committed at some time between the two lines, if the second one is there at all.
    good(TRIAL, three(opened("i", "j", "k", closing=[(26.95, True)])))
    good(TRIAL, three(opened("i", "j", "k").tell(26.9, "breaker-counts", resource="line")))
    good(TRIAL, three(opened("i", "j", "k").tell(26.9, "breaker-releases", resource="line")))


def test_who_hears_of_it_too_late_may_take_what_it_holds_for_trial_calls():
    story = sharing("i", "j", "k", resource="line").tell(19.9, "breaker-opens", resource="line")
    story.tell(20, "breaker-opened", resource="line", done=True)
    good(TRIAL, three(beating(story, 23.5, 24.5, 25.5)))


def test_a_job_without_a_resource_says_nothing():
    story = Story(i={}).tell(0, "limits", tenants={}).run(1, 2, "i", A)
    assert list(rules.sharing(story.history())) == []


@pytest.mark.parametrize("resource", ["gate", None])
def test_blocked_at_the_end(resource):
    bad(jobs.nothing_lost, Story(j={"resource": resource}).row("j", "blocked"), "nobody gives it a permit")
