"""The judge on hand-made histories: who may run when, and what it must not take for a mistake."""

from tests.chaos.rules import judge
from tests.chaos.rules import runs as rules
from tests.chaos.rules.stories import PIDS, A, B, Story, bad, good

# One at a time.


def test_siblings_one_after_the_other():
    good(rules.no_overlap_in_an_instance, Story(i={}, j={}).run(1, 2, "i", A).run(2.5, 3, "j", B))


def test_siblings_at_once():
    story = Story(i={}, j={}).run(1, 4, "i", A).run(3, 5, "j", B)
    bad(rules.no_overlap_in_an_instance, story, "exclusive job i of p was running")
    good(rules.no_overlap_in_an_instance, Story(i={}, j={"exclusive": False}).run(1, 4, "i", A).run(3, 5, "j", B))
    good(rules.no_overlap_in_an_instance, Story(i={}, j={"instance": "q"}).run(1, 4, "i", A).run(3, 5, "j", B))


def test_a_node_that_lost_its_lease_may_go_on_beside_its_successor():
    story = Story(i={}, j={}).begin(1, "i", A).end(14, "i", A, held=False).lease(B, 9).run(12, 13, "j", B)
    good(rules.no_overlap_in_an_instance, story)
    bad(rules.no_overlap_in_an_instance, story.lease(A, 5), "whose node held its lease")


def test_what_a_killed_node_held_is_nobodys_before_its_lease_is_over():
    killed = Story(i={}, j={}).begin(1, "i", A).kill(2, A)
    bad(rules.no_overlap_in_an_instance, killed.run(5, 6, "j", B), "whose node held its lease")
    good(rules.no_overlap_in_an_instance, killed, single=True)
    good(rules.no_overlap_in_an_instance, Story(i={}, j={}).begin(1, "i", A).kill(2, A).lease(B, 9).run(11, 12, "j", B))


def test_a_job_twice_at_once():
    story = Story(j={}).begin(1, "j", A).run(3, 4, "j", B).end(5, "j", A)
    bad(rules.never_on_two_nodes, story, "ran twice at once")
    good(rules.never_on_two_nodes, Story(j={}).begin(1, "j", A).lease(B, 9).run(11, 12, "j", B).end(13, "j", A))
    good(rules.never_on_two_nodes, Story(j={}).begin(1, "j", A).end(2, "j", A, result="failed").run(3, 4, "j", B, 2))


# Fencing.


def test_the_outcome_of_a_run_that_was_taken_over():
    story = Story(j={}).begin(1, "j", A).begin(11, "j", B).end(12, "j", A).outcome(12.1, "j", A)
    bad(rules.outcomes_are_fenced, story, "already taken over")
    refused = Story(j={}).begin(1, "j", A).begin(11, "j", B).end(12, "j", A).end(13, "j", B).outcome(13.1, "j", B)
    good(rules.outcomes_are_fenced, refused)


def test_a_failure_that_counted_makes_the_next_run_another_attempt():
    failed = Story(j={}).begin(1, "j", A).end(2, "j", A, result="failed").outcome(2.5, "j", A, result="failed")
    good(rules.outcomes_are_fenced, failed.begin(2.4, "j", B, attempt=2))  # it was told late
    again = Story(j={}).begin(1, "j", A).end(2, "j", A, result="failed").outcome(2.5, "j", A, result="failed")
    bad(rules.outcomes_are_fenced, again.begin(12, "j", B, attempt=1), "already taken over")
    good(rules.outcomes_are_fenced, again.tell(5, "asks", verb="requeue", jobs=["j"]))


def test_what_is_put_off_while_its_node_drains_is_no_attempt():
    story = Story(j={}).begin(1, "j", A).end(2, "j", A, result="failed")
    story.outcome(2.1, "j", A, attempt=0, result="failed", error="RetryIn")
    good(rules.outcomes_are_fenced, story.begin(3, "j", B).end(4, "j", B))


def test_what_recovery_says_of_a_lost_run_is_not_the_outcome_of_an_earlier_run_in_its_process():
    story = Story(j={}).begin(1, "j", A).end(2, "j", A).begin(11, "j", B)
    story.tell(20, "outcome", 11, job="j", attempt=1, result="failed", error="WorkerLost")
    good(rules.outcomes_are_fenced, story)


# Repeats.


def test_a_repeat_needs_a_lost_lease():
    story = Story(j={}).begin(1, "j", A).end(2, "j", A).run(5, 6, "j", B)
    bad(rules.repeats_are_explained, story, "ended well and was run again")
    good(rules.repeats_are_explained, Story(j={}).begin(1, "j", A).end(2, "j", A).lease(B, 9).run(11, 12, "j", B))


def test_an_atomic_job_may_fail_after_its_handler():
    story = Story(j={"atomic": True}).begin(1, "j", A).end(2, "j", A).log("j", "failed", message="OperationalError")
    good(rules.repeats_are_explained, story.run(5, 6, "j", B, attempt=2))


# Leases.


def test_a_node_that_believes_in_a_lease_that_is_over():
    good(rules.leases_are_true, Story(j={}).begin(9.9, "j", A))
    good(rules.leases_are_true, Story(j={}).begin(10.5, "j", A, held=False))
    bad(rules.leases_are_true, Story(j={}).begin(10.5, "j", A), "0.500 s after it had run out")
    good(rules.leases_are_true, Story(j={}).lease(A, 5).begin(10.5, "j", A))


def test_declared_dead_too_soon():
    good(rules.leases_are_true, Story().tell(10.2, "declared", owner=A))
    bad(rules.leases_are_true, Story().tell(8, "declared", owner=A), "2.000 s before its lease was over")


def test_declared_dead_by_whoever_is_back_first_after_an_outage():
    def outage(until, declared):
        story = Story().lease(B, 1).tell(5, "server-down").tell(until, "server-up").lease(B, until + 1)
        return story.tell(declared, "declared", PIDS[B], owner=A)

    good(rules.judges_were_well_themselves, outage(16, 27.1))
    good(rules.judges_were_well_themselves, outage(14, 16))  # a lease may have survived it
    good(rules.judges_were_well_themselves, outage(16, 25).lease(B, 14.5))  # the server was there before that was told
    bad(rules.judges_were_well_themselves, outage(16, 25), "declared dead by who had been there for 8.000 s")


def test_declared_dead_by_who_has_just_begun():
    good(rules.judges_were_well_themselves, Story().tell(10.1, "declared", PIDS[B], owner=A))
    bad(rules.judges_were_well_themselves, Story().tell(7, "declared", PIDS[B], owner=A), "had been there for 7.000 s")


# Siblings.


def test_siblings_begin_in_their_order():
    def story(**younger):
        plain = {"priority": 0, "now": True}
        return Story(i=plain, j=plain | younger).run(3, 4, "j", A).run(5, 6, "i", B)

    bad(rules.siblings_begin_in_their_order, story(), "began before its elder sibling i")
    good(
        rules.siblings_begin_in_their_order, Story(i={"now": True}, j={"now": True}).run(1, 2, "i", A).run(3, 4, "j", A)
    )
    for other in ({"priority": 1}, {"now": False}, {"instance": "q"}, {"exclusive": False}):
        good(rules.siblings_begin_in_their_order, story(**other))
    good(rules.siblings_begin_in_their_order, story().tell(1, "asks", verb="set_priority", jobs=["i"]))


def test_a_sibling_waits_for_the_commit():
    good(rules.siblings_wait_for_the_commit, Story(i={}, j={}).run(1, 2, "i", A).run(2.2, 3, "j", A))
    good(rules.siblings_wait_for_the_commit, Story(i={}, j={}).run(1, 2, "i", A).run(2.07, 3, "j", A))
    early = Story(i={}, j={}).run(1, 2, "i", A).run(2.02, 3, "j", A)
    bad(rules.siblings_wait_for_the_commit, early, "before its outcome was committed")
    never = Story(i={}, j={}).begin(1, "i", A).end(2, "i", A).run(3, 4, "j", A)
    bad(rules.siblings_wait_for_the_commit, never, "before its outcome was committed")


def test_a_job_that_ended_well_never_runs_again_after_its_sibling():
    story = Story(i={}, j={}).begin(1, "i", A).end(2, "i", A).settling(2.1, "i", A)
    good(rules.siblings_wait_for_the_commit, story.run(3, 4, "j", A))
    bad(rules.siblings_wait_for_the_commit, story.begin(11, "i", B), "run again after its sibling j")


def test_an_atomic_job_settles_itself():
    story = Story(i={"atomic": True}, j={}).begin(1, "i", A).end(2, "i", A).run(2.1, 3, "j", A)
    good(rules.siblings_wait_for_the_commit, story)


def test_siblings_on_other_nodes_and_of_other_instances_say_nothing():
    good(rules.siblings_wait_for_the_commit, Story(i={}, j={}).begin(1, "i", A).end(2, "i", A).run(2.05, 3, "j", B))
    other = Story(i={}, j={"instance": "q"}).begin(1, "i", A).end(2, "i", A).run(2.05, 3, "j", A)
    good(rules.siblings_wait_for_the_commit, other)


# Timeouts and suspects.


def test_a_run_whose_time_was_over_has_failed_however_it_ends():
    story = Story(i={}, j={}).begin(1, "i", A).outcome(2, "i", A, result="failed", error="JobTimeout").end(3, "i", A)
    story.log("i", "failed", message="JobTimeout").run(4, 5, "j", A).begin(6, "i", B, attempt=2)
    assert [problem.rule for problem in judge(story.history())] == []
    bad(rules.no_overlap_in_an_instance, story.begin(2.5, "j", A), "exclusive job i of p was running")


def test_a_job_that_was_lost_while_it_ran_runs_alone():
    story = Story(i={"instance": ""}, j={}).begin(1, "j", A, lost=2).end(3, "j", A).run(4, 5, "i", A)
    good(rules.suspects_run_alone, story.run(2, 3, "i", B))
    bad(rules.suspects_run_alone, story.begin(2.5, "i", A), "ran beside others")
    good(rules.suspects_run_alone, Story(i={}, j={}).begin(1, "j", A, lost=1).begin(2, "i", A))
