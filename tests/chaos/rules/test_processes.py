"""The judge on hand-made histories of processes and flows."""

from tests.chaos.rules import processes as rules
from tests.chaos.rules.stories import Story, bad, good


def ran(kind="chaos-fork", state="completed", end="done", done=None, steps=None, **more):
    """One instance ``i`` of the name ``n`` that was started; ``done`` and ``steps`` count by element."""
    story = Story().tell(1, "starting", instances=[{"kind": kind, "name": "n"}])
    story.tell(2, "started", ok=True, kept=True, names=["n"])
    row = {"id": "i", "root_id": "i", "definition_key": kind, "business_key": "n", "state": state}
    row |= {"end_element": end, "parent_execution_id": None}
    done = done or {}
    story.more = {
        "instances": [row],
        "activities": [["i", element, count] for element, count in done.items()],
        "steps": [["i", element, count] for element, count in (done if steps is None else steps).items()],
        **more,
    }
    return story


FORK = {"hotel": 1, "flight": 1, "concert": 1, "taxi": 1, "after": 1}


def ended(story, *elements):
    for number, element in enumerate(elements):
        story.tell(3 + number, "step-ends", 11, name="n", element=element, job=f"j{number}", attempt=1)
    return story


def test_an_instance_is_there_if_its_start_was_committed():
    good(rules.starts_are_kept, ran())
    bad(rules.starts_are_kept, ran(instances=[]), "is there 0 times, expected [1]")
    twice = ran()
    twice.more["instances"] *= 2
    bad(rules.starts_are_kept, twice, "is there 2 times")
    for line in (twice := ran()).lines:
        line.update({"kept": False} if line["what"] == "started" else {})
    bad(rules.starts_are_kept, twice, "expected [0]")
    in_doubt = ran(instances=[])
    in_doubt.lines = [line for line in in_doubt.lines if line["what"] != "started"]
    good(rules.starts_are_kept, in_doubt)


def test_tasks_are_those_of_a_way_to_the_end():
    good(rules.instances_end_as_their_models_say, ran(done=FORK))
    bad(rules.instances_end_as_their_models_say, ran(done=FORK | {"after": 2}), "'after': 2")
    bad(rules.instances_end_as_their_models_say, ran(done=FORK | {"taxi": 0}), "'taxi': 0")
    good(rules.instances_end_as_their_models_say, ran("chaos-late", end="too-late", done={"remind": 1}))
    both = ran("chaos-late", end="too-late", done={"wait": 1, "paid": 1, "remind": 1})
    bad(rules.instances_end_as_their_models_say, both, "ended at too-late")
    good(rules.instances_end_as_their_models_say, ran(state="cancelled", end="", done={"hotel": 1}))
    bad(rules.instances_end_as_their_models_say, ran(state="active", end="", done={"after": 2}), "on no way")
    good(rules.instances_end_as_their_models_say, ran("chaos-chain", end="any", done={"a": 1, "b": 1, "c": 1}))
    bad(rules.instances_end_as_their_models_say, ran("chaos-chain", end="any", done={"a": 1, "c": 1}), "ended at any")


def test_what_runs_in_a_step_writes_once():
    good(rules.steps_have_their_effects_once, ran(done=FORK))
    bad(rules.steps_have_their_effects_once, ran(done=FORK, steps=FORK | {"after": 2}), "written 2 rows")
    bad(rules.steps_have_their_effects_once, ran(done=FORK, steps={}), "written 0 rows")
    nobodys = ran(done=FORK, steps={**FORK, "broken": 1})
    bad(rules.steps_have_their_effects_once, nobodys, "completed broken 0 times")
    nobodys.more["steps"] = [["other", "after", 1]]
    nobodys.more["instances"] = []
    bad(rules.steps_have_their_effects_once, nobodys, "nobody knows that instance")


def test_a_step_outside_is_completed_by_a_run():
    chain = {"a": 1, "b": 1, "c": 1}
    good(rules.what_is_done_outside_was_run, ended(ran("chaos-chain", done=chain), "a", "a", "b", "c"))
    bad(rules.what_is_done_outside_was_run, ended(ran("chaos-chain", done=chain), "a", "c"), "has completed b")


def test_what_is_cancelled_is_undone_backwards():
    undone = {"a": 1, "b": 1, "undo.a": 1, "undo.b": 1}
    runs = ("a", "b", "undo.b", "undo.a")
    good(rules.flows_are_undone_backwards, ended(ran("chaos-flow", "cancelled", done=undone), *runs))
    wrong = ended(ran("chaos-flow", "cancelled", done=undone), "a", "b", "undo.a", "undo.b")
    bad(rules.flows_are_undone_backwards, wrong, "its first step before")
    bad(rules.flows_are_undone_backwards, ran("chaos-flow", "cancelled", done={"a": 1}), "should have undone ['a']")
    bad(rules.flows_are_undone_backwards, ran("chaos-flow", done=undone), "has undone ['a', 'b']")
    good(rules.flows_are_undone_backwards, ran("chaos-flow", "compensating", done={"a": 1, "b": 1, "undo.b": 1}))


def test_a_message_is_delivered_once():
    def sent(times, **done):
        story = ran("chaos-late", done=done)
        for number in range(times):
            story.tell(3 + number, "sent", ok=True, name="n", delivered=[1])
        return story.tell(9, "sent", ok=True, name="n", delivered=[])

    good(rules.messages_are_delivered_once, sent(1, wait=1))
    good(rules.messages_are_delivered_once, sent(0))
    bad(rules.messages_are_delivered_once, sent(1), "took 1 messages")
    bad(rules.messages_are_delivered_once, sent(2, wait=1), "took 2 messages")


def test_a_cancellation_holds():
    def cancelled(state, done=("i",)):
        story = ran(state=state).tell(3, "cancelling", name="n")
        return story.tell(4, "cancelled", ok=True, name="n", done=list(done))

    good(rules.cancellations_hold, cancelled("cancelled"))
    good(rules.cancellations_hold, cancelled("completed", done=()))
    bad(rules.cancellations_hold, cancelled("completed"), "was cancelled")
    bad(rules.cancellations_hold, ran(state="cancelled"), "by nobody")


def test_rows_that_do_not_fit():
    bad(rules.rows_fit_together, ran(discrepancies=[["i", "The execution is alone"]]), "The execution is alone")
    job = ran(discrepancies=[["x", "The job j at a belongs to t, which is gone."]])
    good(rules.rows_fit_together, job)
    bad(rules.rows_fit_together, job.tell(5, "rest"), "belongs to t")


def test_at_rest_instances_have_ended():
    good(rules.instances_come_to_their_end, ran())
    waits = ran(state="active", tokens=[["i", "join", "joined"]])
    bad(rules.instances_come_to_their_end, waits, "its tokens: [['join', 'joined']]")
    dead = ["dead letter", "i", "broken", "jobexec.processes.continue", "Injected: for good"]
    good(rules.instances_come_to_their_end, ran("chaos-doomed", "active", process_jobs=[dead]))
    bad(rules.instances_come_to_their_end, ran(state="active", process_jobs=[dead]), "has not ended")
    lost = [*dead[:4], f"{rules.DIED} (node n1)"]
    good(rules.instances_come_to_their_end, ran(state="active", process_jobs=[lost]))
    bad(rules.instances_come_to_their_end, ran(process_jobs=[dead]), "has ended, and has the jobs")
    bad(rules.instances_come_to_their_end, ran(process_jobs=[["timer", "x", "a", "h", ""]]), "which is not there")
