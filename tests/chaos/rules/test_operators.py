"""The judge on hand-made histories: batches, incidents, meters, limits of tenants, recorded history."""

import pytest

from tests.chaos.mixtures import NEVER
from tests.chaos.rules import operators as rules
from tests.chaos.rules.stories import A, B, Story, bad, good


def recorded(ok=True, kept=True, failures=0, **more):
    story = Story().tell(1, "recording", records=[{"id": "r", "failures": failures}], kept=kept)
    story.more = more
    return story.tell(2, "recorded", ok=ok, records=["r"])


@pytest.mark.parametrize("place", ["ledger", "unwritten", "buried"])
def test_a_record_is_in_one_place(place):
    good(rules.records_are_written_once, recorded(**{place: {"r": 1}}))
    bad(rules.records_are_written_once, recorded(**{place: {"r": 2}}), "record r is written")
    bad(rules.records_are_written_once, recorded(kept=False, **{place: {"r": 1}}), "record r is written")


def test_a_record_that_was_committed_is_not_lost_and_one_in_doubt_may_be():
    bad(rules.records_are_written_once, recorded(), "written 0, waiting 0 and buried 0")
    good(rules.records_are_written_once, recorded(ok=False))
    good(rules.records_are_written_once, recorded(kept=False))
    bad(rules.records_are_written_once, recorded(ledger={"r": 1}, buried={"r": 1}), "written 1, waiting 0 and buried 1")


def test_a_record_whose_handler_fails_is_not_written():
    bad(rules.records_are_written_once, recorded(failures=NEVER, ledger={"r": 1}), "although its handler failed")
    good(rules.records_are_written_once, recorded(failures=NEVER, buried={"r": 1}))


def test_what_a_job_records_is_written_as_often_as_it_took_effect():
    story = Story(j={"atomic": True})
    story.more, story.effects = {"ledger": {"effect j": 1}}, {"j": 1}
    good(rules.records_are_written_once, story)
    story.effects = {}
    bad(rules.records_are_written_once, story, "took effect 0 times")


def test_no_record_waits_at_rest():
    bad(rules.no_record_waits, recorded(unwritten={"r": 1}), "still waiting")
    good(rules.no_record_waits, recorded(buried={"r": 1}))


def test_incidents_are_dead_letters():
    story = Story()
    story.more = {"incidents": ["a", "b"], "dead": ["a", "b"]}
    good(rules.each_dead_letter_has_its_incident, story)
    for opened in (["a"], ["a", "b", "b"], ["a", "b", "c"]):
        story.more["incidents"] = opened
        bad(rules.each_dead_letter_has_its_incident, story, "2 dead letters")


def of_children(**values):
    """A batch of two jobs, one done and one dead, that has failed."""
    story = Story(done={"batch": "b"}, dead={"batch": "b"}, other={})
    story.log("done", "successful").log("other", "successful").row("dead", "dead letter")
    counts = {"total": 2, "completed": 1, "failed": 1, "cancelled": 0, "all_done": 0, "not_all_done": 1}
    story.more = {"job_batches": [{"name": "b", "state": "failed", "stalled": False, **counts, **values}]}
    return story


def test_children_are_counted_and_what_follows_comes_once():
    good(rules.children_are_counted, of_children())
    good(rules.children_are_counted, of_children(state="running", not_all_done=0))
    bad(rules.children_are_counted, of_children(completed=2), "counts {'completed': 2}")
    bad(rules.children_are_counted, of_children(not_all_done=2), "followed more than once")
    bad(rules.children_are_counted, of_children(not_all_done=0), "nothing followed")
    good(rules.batches_of_jobs_end, of_children())
    good(rules.batches_of_jobs_end, of_children(state="running", completed=0))
    good(rules.batches_of_jobs_end, of_children(state="running", stalled=True))
    bad(rules.batches_of_jobs_end, of_children(state="running"), "has not come to its end")


def of_batch(*jobs, **values):
    plain = {"id": "b", "type": "requeue", "state": "completed", "total": 5, "changed": 4, "skipped": 1}
    story = Story()
    story.more = {"batches": [plain | {"failures": 1, "parts": 0} | values], "batch_jobs": list(jobs)}
    return story


def test_batches_come_to_their_end_and_leave_nothing():
    good(rules.batches_end, of_batch())
    good(rules.batches_end, of_batch(state="cancelled", total=9))
    bad(rules.batches_end, of_batch(state="running"), "has not come to its end")
    bad(rules.batches_end, of_batch(parts=1), "left 1 parts")
    bad(rules.batches_end, of_batch(["timer", "b", "jobexec.batch_monitor", ""]), "jobexec.batch_monitor")
    bad(rules.batches_end, of_batch(["timer", "other", "jobexec.batch_monitor", ""]), "is gone, but not its jobs")


def test_the_counts_of_a_batch_add_up():
    bad(rules.batches_end, of_batch(changed=3), "has done 4 of 5")
    bad(rules.batches_end, of_batch(changed=5), "has done 6 of 5")
    bad(rules.batches_end, of_batch(changed=5, state="cancelled"), "has done 6 of 5")
    bad(rules.batches_end, of_batch(failures=2), "has skipped 1 jobs and noted 2")


def test_a_batch_may_wait_for_a_job_that_lost_its_nodes_and_for_no_other():
    dead = ["dead letter", "b", "jobexec.batch_execution"]
    died = "The executor process died while it ran this job (node n1, 2 lost runs)."
    good(rules.batches_end, of_batch([*dead, died], state="running"))
    bad(rules.batches_end, of_batch([*dead, "KeyError: 1"], state="running"), "has not come to its end")


def counted(metered, logged, failed=0, groups=0):
    story = Story()
    story.more = {
        "meters": {"job-successful": {"h": metered}, "job-failed": {"h": failed}},
        "logged": {"successful": {"h": logged}, "failed": {"h": failed}},
        "failure_groups": groups,
    }
    return story


def test_meters_never_count_more_than_happened_and_less_only_if_somebody_was_killed():
    good(rules.meters_count_what_happened, counted(3, 3))
    bad(rules.meters_count_what_happened, counted(4, 3).kill(1, A), "is 4, and the job log has 3")
    bad(rules.meters_count_what_happened, counted(2, 3), "is 2, and the job log has 3")
    good(rules.meters_count_what_happened, counted(2, 3).kill(1, A))


def test_failures_are_counted_together_with_their_groups():
    good(rules.meters_count_what_happened, counted(3, 3, failed=2, groups=2))
    bad(rules.meters_count_what_happened, counted(3, 3, failed=2, groups=1), "and 1 in groups")


def of_tenant(**more):
    jobs = {name: {"tenant": "t", **more} for name in ("j", "k", "l")}
    return Story(**jobs).tell(0, "limits", tenants={"t": 2})


def test_a_process_keeps_to_the_limit_of_a_tenant():
    good(rules.tenants_keep_to_their_limits, of_tenant().run(1, 4, "j", A).run(1, 4, "k", A).run(5, 6, "l", A))
    good(rules.tenants_keep_to_their_limits, of_tenant().run(1, 4, "j", A).run(1, 4, "k", A).run(2, 6, "l", B))
    three = of_tenant().run(1, 4, "j", A).run(1, 4, "k", A).run(3, 6, "l", A)
    bad(rules.tenants_keep_to_their_limits, three, "beside 2 others of tenant t, of which 2 may")
    late = of_tenant(kind="late").run(1, 4, "j", A).run(1, 4, "k", A).run(3, 6, "l", A)
    good(rules.tenants_keep_to_their_limits, late)
