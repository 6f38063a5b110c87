"""Nothing hangs: in random schedules a job is over, or `why` says what it waits for, and that is so."""

from django.db import connections
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from jobexec.models import (
    BATCH_HANDLERS,
    JOB_TABLES,
    Batch,
    BatchState,
    BlockedJob,
    BreakerState,
    DeadLetterJob,
    ExecutorNode,
    Job,
    JobDefinition,
    SuspendedJob,
    Suspension,
    TimerJob,
)
from jobexec.operations import activate, activate_batch, lift, requeue, retry_now, sweep_suspensions, trigger_due_timers
from jobexec.operations.batches.jobs import MONITOR
from jobexec.operations.manage.suspension_sweep import next_suspension_date
from jobexec.operations.reports.resources import resource_names, resource_status
from jobexec.operations.rows.suspension_cover import Suspensions
from jobexec.operations.why import why
from jobexec.testing.commits import run_hooks
from tests.support.rules.batches import FOLLOW
from tests.support.rules.sharing import COUNT, PERIOD

#: What a node does at its next look: no such reason is left when all nodes have looked.
PROMISES = {"soon", "due", "activating", "resource_soon", "message_soon", "wait_over"}
#: What is never the reason here: there are nodes, which serve everything, and no lock without a job.
NEVER = {
    "no_node",
    "nodes_paused",
    "nodes_draining",
    "nodes_busy",
    "category_not_served",
    "handler_unknown",
    "priority_out_of_range",
    "resource_unknown",
    "exclusive_lock",
    "lock_expired",
    "held_without_node",
    "gone",
    "not_found",
}


class Reasons:
    """A part of a state machine with jobs, resources, batches and messages."""

    #: Whether something is looked at after each commit; not so where processes are killed before.
    looks = True

    @initialize(looks=st.sampled_from([True, True, False]))
    def lose_all_looks(self, looks):
        self.looks = looks

    def start(self, name):
        """A node that serves everything and knows all handlers."""
        super().start(name)
        for handler in (FOLLOW, *BATCH_HANDLERS):
            JobDefinition.objects.using(self.alias).get_or_create(pk=handler, defaults={"handler_type": handler})
        ExecutorNode.objects.using(self.alias).filter(name=name).update(categories=["default"])

    @invariant()
    def commit(self):
        connection = connections[self.alias]
        if self.looks:
            run_hooks(connection, 0)
        else:
            connection.run_on_commit.clear()

    @rule(index=st.integers(0, 50))
    def ask(self, index):
        self.check_reasons({self.pick(index)})
        for batch in self.groups[index % 3 : index % 3 + 1]:
            self.check_reasons_of_a_batch(batch)

    @rule()
    def look_at_everything(self):
        """All nodes do all that they can at this moment; then nothing waits for them any more."""
        self.look_at_all_that_waits()
        self.check_reasons(settled=True)

    @rule()
    def work_on(self):
        self.go_on(20)

    def look_at_all_that_waits(self):
        sweep_suspensions(self.alias)
        while trigger_due_timers(self.alias, 100):
            pass
        super().look_at_all_that_waits()
        for name, hand in self.hands.items():
            before = -1
            while before < len(hand):
                before = len(hand)
                self.take(name, 100)

    def when_dead(self, lost):
        for job in lost[:1]:
            assert "node_dead" in self.codes(job.id)

    def codes(self, id):
        return {reason.code for reason in why(id, using=self.alias).reasons}

    def check_reasons(self, ids=None, settled=False):
        """Ask about one job of each kind; `settled`: after all nodes have looked."""
        kinds = {}
        for table in JOB_TABLES:
            rows = table._base_manager.using(self.alias)
            for row in rows if ids is None else rows.filter(pk__in=ids):
                kinds[table, frozenset(self.wanted(row))] = row.pk
        for (table, wanted), pk in kinds.items():
            codes = self.codes(pk)
            assert codes.intersection(wanted), (table, wanted, codes)
            assert not NEVER & codes, codes
            assert not (settled and PROMISES & {*wanted, *codes}), (table, wanted, codes)
            assert not (settled and "breaker_half_open" in codes) or self.now_permitted()["frail"], "no trial call"

    def wanted(self, row):
        """The reasons of which one must be given."""
        if isinstance(row, DeadLetterJob):
            return {"dead_letter"}
        if row.locked:
            return {"running", "in_hand"}
        if Suspensions.of(self.alias, [row.pk]).cover(row):
            return {"suspended", "suspended_by_scope"}
        if isinstance(row, SuspendedJob):
            return {"activating"}
        if row.waits_for is not None:
            return {"waits_for_message"}
        if isinstance(row, TimerJob):
            later = "waits_for_retry" if row.attempts else "not_due"
            return {later if row.due_date > self.clock.now else "due"}
        return self.wanted_of_resource(row.resource) if isinstance(row, BlockedJob) else self.wanted_of_due(row)

    def wanted_of_resource(self, name):
        if self.is_open(name):
            return {"breaker_open" if name == "frail" else "resource_held"}
        if name == "frail" and self.breaker().breaker_state != BreakerState.CLOSED:
            return {"breaker_half_open"}
        if len(self.now_permitted()[name]) >= self.limit_of(name):
            return {"resource_full"}
        return {"resource_rate" if name == "spread" and self.waits_for_rate() else "resource_soon"}

    def waits_for_rate(self):
        return bool(self.granted) and self.clock.now < self.granted[-1] + PERIOD / COUNT

    def wanted_of_due(self, row):
        held = {chunk[0].serial_key for hand in self.hands.values() for chunk in hand}
        return {"exclusive_sibling"} if row.serial_key and row.serial_key in held else {"soon", "jobs_in_front"}

    def check_reasons_of_a_batch(self, batch):
        tables = self.tables()
        row, open, codes = batch.row, self.figures_of(batch, tables).open, self.codes(batch.id)
        if row.over:
            assert codes == {"batch_over"}
            return
        monitors = [tables[pk] for pk in self.monitors(batch)]
        expected = {
            "batch_stalled": all(table is DeadLetterJob for table in monitors),
            "batch_monitor_suspended": SuspendedJob in monitors,
            "batch_open": row.state == BatchState.OPEN,
            "batch_children": bool(open),
            "batch_ends": row.state == BatchState.RUNNING and not open,
            "batch_deadline": row.deadline is not None,
        }
        assert codes - {"batch_jobs", "batch_monitor_failed"} == {code for code, holds in expected.items() if holds}

    def go_on(self, seconds=60):
        super().go_on(seconds)
        self.permits_are_given_by_promotion_alone()
        self.commit()

    def is_at_rest(self):
        timers = TimerJob.objects.using(self.alias).exclude(handler_type=MONITOR)
        if not super().is_at_rest() or timers.exists() or next_suspension_date(self.alias) is not None:
            return False
        return not self.ending()

    def ending(self):
        """The batches that are about to end: nothing is left of them but a monitor, which may run."""
        tables, found = self.tables(), []
        for batch in self.groups:
            row, open = batch.row, self.figures_of(batch, tables).open
            due = row.deadline is not None or (row.state == BatchState.RUNNING and not open)
            if due and not row.over and any(tables[pk].runnable for pk in self.monitors(batch)):
                found.append(batch)
        return found

    def run_to_the_end(self):
        """First as far as it goes by itself. Then all comes for which something may wait, and everything ends."""
        for _ in range(10):
            super().run_to_the_end()
            self.check_what_is_left()
            if not self.present() and all(batch.row.over for batch in self.groups):
                return
            self.help()
        raise AssertionError("it does not end")

    def check_what_is_left(self):
        assert not self.ending(), "a batch that does not end"
        assert not Job.objects.using(self.alias).exists()
        assert not TimerJob.objects.using(self.alias).exclude(handler_type=MONITOR).exists()
        assert not any(status.in_use for status in resource_status(self.alias, resource_names(self.alias)))
        self.check_reasons(settled=True)
        for batch in self.groups:
            self.check_reasons_of_a_batch(batch)

    def help(self):
        """Do what operators and other programs can do for jobs that wait."""
        for suspension in Suspension.objects.using(self.alias).filter(live=True):
            lift(suspension)
        for verb, table in ((activate, SuspendedJob), (requeue, DeadLetterJob), (retry_now, TimerJob)):
            verb(table.objects.using(self.alias).all(), using=self.alias)
        for tenant, key in {wait.address for wait in self.waits.values()}:
            self.publish(key, tenant, None, None, False)
        for batch in self.groups:
            if batch.state == BatchState.OPEN:
                batch.seal()
        for batch in Batch.objects.using(self.alias).filter(end_time=None):
            activate_batch(batch.pk, using=self.alias)
