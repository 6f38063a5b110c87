"""Rules for random schedules of batches of jobs; and what must hold of their children, their calls and their end."""

from collections import Counter, defaultdict

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

import jobexec
from jobexec.exceptions import BatchOver, BatchSealed
from jobexec.handlers.batch import JobBatchProgress, batch_of_job
from jobexec.models import BATCH_HANDLERS, JOB_TABLES, BatchState, DeadLetterJob
from jobexec.operations import (
    activate_batch,
    batch_progress,
    delete_batch,
    delete_jobs,
    move_to_dead_letter,
    retry_now,
    suspend,
)
from jobexec.operations.batches.jobs import MONITOR
from jobexec.operations.notify.observers import unwatch, watch
from tests.support.factories import HANDLER
from tests.support.rules.sharing import resources

FOLLOW = "tests.follow"
#: The messages for which jobs wait.
NAME = "paid"
OVER = (BatchState.COMPLETED, BatchState.FAILED, BatchState.CANCELLED)
#: Conditions of batches, and when they hold for good: the figures, whether the batch is sealed, whether it is over.
CONDITIONS = {
    "completed >= 2": lambda now, sealed, over: now.completed >= 2,
    "failed_rate > 20%": lambda now, sealed, over: (sealed or over) and now.failed > now.total / 5,
    "cancelled < 1": lambda now, sealed, over: over and now.cancelled < 1,
}
indexes = st.integers(0, 20)
waited_for = st.sampled_from([None, None, None, "a", "b"])
options = st.sampled_from([{}, {}, {"delay": 30}, {"expires": 30}, {"process_instance_id": "p"}])


class Grouping:
    """A part of a state machine, which has `alias`, `functions` (HANDLER and FOLLOW), `created`, `hands` and the like.

    What happens to a child is known from the tables and from what this process completed. What was counted is not.
    """

    def __init__(self):
        super().__init__()
        self.groups = []
        self.children = defaultdict(set)
        self.completed = set()
        #: How often each call of a batch was made, by the process instance that it shares with the batch; and those
        #: that were due.
        self.made, self.due = Counter(), set()
        watch(self.see)

    def undo_everything(self):
        unwatch(self.see)
        super().undo_everything()

    def see(self, using, jobs):
        """Learn of children, and of calls, as they are inserted."""
        for job in jobs:
            if job.handler_type == FOLLOW:
                self.made[job.process_instance_id, job.handler_configuration["args"][0]] += 1
            elif job.batch_id is not None and job.handler_type not in BATCH_HANDLERS:
                self.children[job.batch_id].add(job.pk)
                if job.resource is not None:
                    self.shared.append(job.pk)
            else:
                continue
            self.created.append(job.pk)

    def pick_group(self, index):
        return self.groups[index % len(self.groups)]

    @initialize()
    def begin_with_batches(self):
        self.begin_a_batch(2, None, None, {}, None, True, False)
        self.begin_a_batch(1, "two", "a", {}, None, False, True)

    @rule(
        count=st.integers(0, 3),
        resource=resources,
        key=waited_for,
        more=options,
        deadline=st.sampled_from([None, None, 45]),
        grows=st.booleans(),
        seals=st.booleans(),
    )
    def begin_a_batch(self, count, resource, key, more, deadline, grows, seals):
        call = self.functions[FOLLOW].s
        both = {"on_success": call("success"), "on_failure": call("failure")}
        when = {text: call(text) for text in CONDITIONS}
        batch = jobexec.batch(**both, when=when, deadline=deadline, grows=grows, using=self.alias)
        self.groups.append(batch)
        assert batch.add_many([self.child(resource, key, more)] * count) == count
        if seals:
            batch.seal()

    def child(self, resource, key, more):
        given = more | ({"wait_for": (NAME, key)} if key else {})
        if resource and not (resource == "spread" and "expires" in more):  # jobs that have expired use up no rate
            given["resource"] = resource
        return self.functions[HANDLER].using(**given).s()

    @precondition(lambda self: self.groups)
    @rule(
        index=indexes,
        count=st.integers(1, 3),
        resource=resources,
        key=waited_for,
        more=options,
        by_a_child=st.booleans(),
    )
    def add_to_a_batch(self, index, count, resource, key, more, by_a_child):
        batch = self.pick_group(index)
        row, parent = batch.row, self.child_in_hand(batch) if by_a_child else None
        grows = parent is not None and "grows" in row.arguments
        takes = row.state == BatchState.OPEN or (grows and row.state == BatchState.RUNNING)
        try:
            added = (batch_of_job(parent) if parent else batch).add_many([self.child(resource, key, more)] * count)
        except BatchOver:
            assert row.over
        except BatchSealed:
            assert not takes
        else:
            assert takes and added == count

    def child_in_hand(self, batch):
        hands = (job for hand in self.hands.values() for chunk in hand for job in chunk)
        return next((job for job in hands if job.id in self.children[batch.id]), None)

    @precondition(lambda self: self.groups)
    @rule(
        index=indexes,
        verb=st.sampled_from(["seal", "seal", "seal", "retry", "retry", "activate", "activate", "cancel", "delete"]),
    )
    def change_a_batch(self, index, verb):
        batch = self.pick_group(index)
        before, failed = batch.row, batch.progress().failed
        try:
            getattr(self, f"{verb}_batch")(batch)
        except BatchOver:
            assert before.over
        else:
            getattr(self, f"check_{verb}")(batch, before, failed)

    def seal_batch(self, batch):
        batch.seal()

    def check_seal(self, batch, before, failed):
        assert not before.over and batch.state == BatchState.RUNNING

    def retry_batch(self, batch):
        batch.retry_failed()

    def check_retry(self, batch, before, failed):
        assert before.state != BatchState.CANCELLED and not batch.progress().failed
        goes_on = failed and before.state == BatchState.FAILED
        assert batch.state == (BatchState.RUNNING if goes_on else before.state)

    def activate_batch(self, batch):
        activate_batch(batch.id, using=self.alias)

    def check_activate(self, batch, before, failed):
        assert not before.over and not batch_progress(batch.row).stalled

    def cancel_batch(self, batch):
        batch.cancel()

    def check_cancel(self, batch, before, failed):
        assert before.state not in (BatchState.COMPLETED, BatchState.FAILED)
        assert batch.state == BatchState.CANCELLED
        self.unwanted |= self.children[batch.id]
        assert self.open_children(batch) <= self.held(), "a child of a cancelled batch still waits"

    def delete_batch(self, batch):
        delete_batch(batch.id, using=self.alias)

    def check_delete(self, batch, before, failed):
        self.groups.remove(batch)
        self.unwanted |= self.children.pop(batch.id, set())

    @precondition(lambda self: self.groups)
    @rule(index=indexes, verb=st.sampled_from([delete_jobs, move_to_dead_letter, suspend, retry_now, retry_now]))
    def meddle_with_a_monitor(self, index, verb):
        verb(self.monitors(self.pick_group(index)), using=self.alias)

    def monitors(self, batch):
        rows = (table._base_manager.using(self.alias).filter(batch_id=batch.id) for table in JOB_TABLES)
        return [pk for each in rows for pk in each.filter(handler_type=MONITOR).values_list("pk", flat=True)]

    def complete(self, job):
        super().complete(job)
        self.completed.add(job.id)

    def work(self, job):
        batch = next((each for each in self.groups if each.id == job.batch_id), None)
        if batch is None or job.handler_type != MONITOR:
            super().work(job)
            return
        before = batch.row
        if before.over or (before.deadline is not None and before.deadline <= self.clock.now):
            self.unwanted |= self.children[batch.id]
        super().work(job)
        self.check_a_look(batch, before)

    def check_a_look(self, batch, before):
        """A monitor has looked: it has ended the batch if that is due, and has made the calls that are due."""
        after, now = batch.row, self.figures_of(batch, self.tables())
        if before.over:
            assert after.state == before.state
            return
        sealed = before.state == BatchState.RUNNING
        late = before.deadline is not None and before.deadline <= self.clock.now
        over = late or (sealed and not now.open)
        done = sealed and now.completed == now.total
        state = before.state if not over else BatchState.COMPLETED if done else BatchState.FAILED
        assert after.state == state, (after.state, state, now)
        calls = {text for text, holds in CONDITIONS.items() if holds(now, sealed, over)}
        if over:
            calls.add("success" if done else "failure")
        self.due |= {(before.process_instance_id, what) for what in calls}

    def tables(self):
        """The tables of the children that are not over, and of dead letters, by id."""
        return {
            pk: table
            for table in JOB_TABLES
            for pk in table._base_manager.using(self.alias).exclude(batch_id=None).values_list("pk", flat=True)
        }

    def open_children(self, batch):
        return {pk for pk, table in self.tables().items() if pk in self.children[batch.id] and not table.dead}

    def figures_of(self, batch, tables):
        children = self.children[batch.id]
        completed, there = children & self.completed, children & tables.keys()
        assert not completed & there, "completed, and still there"
        dead = {pk for pk in there if tables[pk] is DeadLetterJob}
        gone = len(children) - len(completed) - len(there)
        return JobBatchProgress(len(children), len(completed), len(dead), gone, len(there - dead))

    @invariant()
    def batches_are_counted_and_call_once(self):
        tables = self.tables()
        for batch in self.groups:
            assert batch.progress() == self.figures_of(batch, tables)
        assert self.made == Counter(self.due), "calls"
