"""The judge on hand-made histories: limits and rates of what jobs share."""

import pytest

from tests.chaos.rules import jobs
from tests.chaos.rules import resources as rules
from tests.chaos.rules.stories import A, B, Story, bad, good

RESOURCES = {"gate": {"limit": 2}, "customer:*": {"limit": 1}, "meter": {"rate": "6/PT3S", "burst": 1}}
LIMIT, RATE = rules.resources_bear_what_runs, rules.rates_are_kept


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


def test_a_job_without_a_resource_says_nothing():
    story = Story(i={}).tell(0, "limits", tenants={}).run(1, 2, "i", A)
    assert list(rules.sharing(story.history())) == []


@pytest.mark.parametrize("resource", ["gate", None])
def test_blocked_at_the_end(resource):
    bad(jobs.nothing_lost, Story(j={"resource": resource}).row("j", "blocked"), "nobody gives it a permit")
