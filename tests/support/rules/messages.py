"""Rules for random schedules of messages and of jobs that wait for them; and what must hold of their deliveries."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Value
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from jobexec.models import BlockedJob, Incident, Message, SuspendedJob
from jobexec.operations import activate, clean_up_history, end_wait, fail_job, publish_message, suspend
from jobexec.operations.messages.deliver import deliver
from jobexec.operations.values.messages import ReceivedMessage
from tests.support.factories import a_failure, a_run
from tests.support.rules.batches import NAME
from tests.support.rules.sharing import resources

keys = st.sampled_from(["a", "b"])
tenants = st.sampled_from(["", "", "", "acme"])


@dataclass(frozen=True)
class Published:
    """A message, and until when it is kept for jobs that begin to wait later."""

    number: int
    address: tuple[str, str]
    kept_until: datetime | None


@dataclass(frozen=True)
class Wait:
    """A job's wait: what was published before it began, and when that was.

    A job that becomes a dead letter, which opens an incident, and is requeued begins to wait anew.
    """

    address: tuple[str, str]
    published: int
    since: datetime
    incidents: int


class Messaging:
    """A part of a state machine, which has `alias`, `clock`, `created`, `create()` and the like."""

    def __init__(self):
        super().__init__()
        self.published = []
        self.waits: dict[UUID, Wait] = {}
        #: The address for which each job has ever waited, and the jobs whose waits may end without a message.
        self.addresses, self.impatient = {}, set()

    @initialize()
    def begin_with_waits(self):
        for key in ("a", "b"):
            self.wait_for_a_message(key, "", 0, None, None)

    @rule(
        key=keys,
        instance=st.sampled_from(["", "", "p", "acme/", "acme/p"]),
        wait=st.sampled_from([0, 0, 30]),
        resource=resources,
        ends=st.sampled_from([None, None, "waits_until", "expires_at"]),
    )
    def wait_for_a_message(self, key, instance, wait, resource, ends):
        end = {ends: self.clock.now + timedelta(seconds=30)} if ends else {}
        unrated = None if resource == "spread" and ends else resource  # jobs that have expired use up no rate
        self.create(instance, True, 0, wait, unrated, waits_for=NAME, waits_for_key=key, **end)

    @rule(
        key=keys,
        tenant=tenants,
        ttl=st.sampled_from([None, None, 20, 60]),
        id=st.sampled_from([None, None, "once"]),
        delivered=st.booleans(),
    )
    def publish(self, key, tenant, ttl, id, delivered):
        same = Message.objects.using(self.alias).filter(key=key, tenant_id=tenant, message_id=id)
        known = [row for row in same if id and (row.delivery_time or row.expiration_time > self.clock.now)]
        row = publish_message(NAME, key=key, ttl=ttl, message_id=id, tenant_id=tenant, using=self.alias)
        assert row.is_duplicate == bool(known)
        if not known:
            until = self.clock.now + timedelta(seconds=ttl) if ttl else None
            self.published.append(Published(row.pk, (tenant, key), until))
        if delivered:
            self.deliver_all()

    @rule(limit=st.sampled_from([1, 2, 100, 100]), cleans=st.sampled_from([False, False, True]))
    def deliver(self, limit, cleans):
        if limit == 100:
            self.deliver_all()
        else:
            deliver(self.alias, limit)
        if cleans:
            clean_up_history(self.alias)

    def deliver_all(self):
        """All that the nodes do about messages at this moment."""
        self.watch_waits()
        while deliver(self.alias, 100).more:
            pass
        self.watch_waits()
        assert not Message.objects.using(self.alias).filter(delivery_time__isnull=False).exists()
        for row in self.waiting():
            wait = self.waits[row.pk]
            missed = [each for at, each in enumerate(self.published) if self.misses(row, wait, at, each)]
            assert not missed, f"a job waits for {missed}"
            over = row.waits_until is not None and row.waits_until <= self.clock.now
            assert row.suspended or not over, "its wait is over"

    def misses(self, row, wait, at, message):
        """Whether the job should have received this message. What was kept reaches a suspended job when it goes on."""
        if message.address != wait.address:
            return False
        if at >= wait.published:
            return True
        kept = message.kept_until is not None and message.kept_until > wait.since
        return kept and not row.suspended

    @precondition(lambda self: self.waits)
    @rule(index=st.integers(0, 20), seconds=st.sampled_from([1, 20, 60]))
    def suspend_one_that_waits(self, index, seconds):
        waiting = [pk for pk in self.created if pk in self.waits]
        pk = waiting[index % len(waiting)]
        suspend(pk, using=self.alias)
        self.tick(seconds)
        activate(pk, using=self.alias)

    @rule(index=st.integers(0, 50))
    def end_a_wait(self, index):
        end_wait(self.pick(index), using=self.alias)

    @invariant()
    def watch_waits(self):
        rows = self.waiting()
        incidents = Incident.objects.using(self.alias).filter(job_id__in=[row.pk for row in rows])
        dead = Counter(incidents.values_list("job_id", flat=True)) if rows else {}
        before, self.waits = self.waits, {}
        for row in rows:
            address = (row.tenant_id, row.waits_for_key)
            wait = before.get(row.pk)
            if wait is None or wait.incidents != dead[row.pk]:
                wait = Wait(address, len(self.published), self.clock.now, dead[row.pk])
            self.waits[row.pk] = wait
            self.addresses[row.pk] = address
            if row.waits_until is not None:
                self.impatient.add(row.pk)

    def waiting(self):
        columns = ("pk", "tenant_id", "waits_for_key", "waits_until", "suspended")
        return [
            row
            for table in (BlockedJob, SuspendedJob)
            for row in table.objects.using(self.alias)
            .exclude(waits_for=None)
            .annotate(suspended=Value(table is SuspendedJob))
            .values_list(*columns, named=True)
        ]

    def complete(self, job):
        if job.expires_at is not None and job.expires_at <= self.clock.now:
            self.unwanted.add(job.id)
            assert fail_job(self.alias, job, a_failure(kind="cancelled"), a_run(self.alias)) is not None
            return
        if job.id in self.addresses:
            if job.message is None:
                assert job.id in self.impatient, "it has waited, and goes on without a message"
            else:
                received = ReceivedMessage.read(job.message)
                addresses = {each.number: each.address for each in self.published}
                assert addresses[received.number] == self.addresses[job.id]
        super().complete(job)

    def look_at_all_that_waits(self):
        self.deliver_all()
        super().look_at_all_that_waits()

    def is_at_rest(self):
        waiting = BlockedJob.objects.using(self.alias).filter(waits_until__isnull=False)
        kept = Message.objects.using(self.alias).filter(expiration_time__gte=self.clock.now)
        return super().is_at_rest() and not (waiting.exists() or kept.exists())

    def run_to_the_end(self):
        super().run_to_the_end()
        clean_up_history(self.alias)
        assert not Message.objects.using(self.alias).exists(), "a message that is kept for ever"
