"""What else concerns messages: why a job waits, the end of its wait by an operator, counts, and the cleanup."""

from datetime import timedelta

import pytest
from django.db import connections

from jobexec import clock, operations
from jobexec.conf import get_settings
from jobexec.models import AuditLog, BlockedJob, Job, Message, SuspendedJob
from jobexec.operations import acting, end_wait, publish_message, suspend
from jobexec.operations.audit import Operator
from jobexec.operations.maintenance.cleanup import _expired
from jobexec.operations.manage.purge import delete_messages
from jobexec.operations.messages.deliver import deliver
from jobexec.operations.reports.messages import message_counts
from jobexec.operations.reports.pending import pending
from jobexec.operations.reports.resources import resource_status, totals
from jobexec.operations.values.acquired_job import ServedJobs
from jobexec.operations.why.explain import why
from tests.support.batches import run_to_the_end
from tests.support.factories import make_job, reload, table_of
from tests.support.jobs_command import jobs

pytestmark = pytest.mark.every_database
HOUR = timedelta(hours=1)


def waiting(alias, **columns):
    return make_job(alias, waits_for="approved", waits_for_key="4711", **columns)


def publish(alias, **more):
    return publish_message("approved", key="4711", using=alias, **more)


def codes(alias, row):
    return [reason.code for reason in why(row.pk, using=alias).reasons]


def test_why(alias, frozen):
    row, endless = waiting(alias, waits_until=clock.now(alias) + HOUR), waiting(alias, tenant_id="a")
    found = why(row.pk, using=alias).reasons[0]
    assert found.code == "waits_for_message"
    assert "the message approved with the key 4711 since " in found.text
    assert "its wait ends on " in found.text
    assert found.details["until"] == (clock.now(alias) + HOUR).isoformat()
    assert "its wait ends on " not in why(endless.pk, using=alias).reasons[0].text
    publish(alias)
    assert "message_soon" in codes(alias, row)
    assert "message_soon" not in codes(alias, endless)
    Message.objects.using(alias).all().delete()
    frozen.tick(HOUR)
    assert "wait_over" in codes(alias, row)
    suspend(row.pk, using=alias)
    assert "waits_for_message" in codes(alias, row)


def test_an_operator_ends_a_wait(alias):
    row, held, other = waiting(alias), waiting(alias), make_job(alias)
    suspend(held.pk, using=alias)
    result = end_wait([row.pk, held.pk, other.pk], using=alias)
    assert set(result.changed) == {row.pk, held.pk}
    assert list(result.skipped) == [other.pk]
    assert deliver(alias, 10).ended == 1
    assert (table_of(alias, row), table_of(alias, held)) == (Job, SuspendedJob)
    operations.activate(held.pk, using=alias)
    deliver(alias, 10)
    assert table_of(alias, held) is Job
    assert reload(alias, row).message is None


def test_many_waits_end_in_few_statements(alias, django_assert_max_num_queries):
    rows, other = [waiting(alias) for _ in range(20)], make_job(alias)
    blocked = BlockedJob.objects.using(alias).all()
    with django_assert_max_num_queries(8, connection=connections[alias]):
        assert len(end_wait(blocked, using=alias).changed) == 20
    assert deliver(alias, 100).ended == 20
    assert {table_of(alias, row) for row in [*rows, other]} == {Job}


def test_a_batch_ends_waits(alias, frozen):
    rows = [waiting(alias) for _ in range(3)]
    batch = run_to_the_end(alias, frozen, operations.start_batch("end_wait", BlockedJob.objects.using(alias).all()))
    assert (batch.changed, batch.skipped) == (3, 0)
    assert deliver(alias, 100).ended == 3
    assert {table_of(alias, row) for row in rows} == {Job}


def test_the_command_ends_waits(alias):
    row, other = waiting(alias), make_job(alias, waits_for="approved", waits_for_key="5")
    code, text = jobs(
        "end-wait", "--all-matching", "--waits-for", "approved", "--waits-for-key", "4711", "--yes", alias=alias
    )
    assert (code, text) == (0, "The wait of 1 job has ended.\n")
    assert deliver(alias, 100).ended == 1
    assert (table_of(alias, row), table_of(alias, other)) == (Job, BlockedJob)


def test_what_operators_do_is_audited(alias):
    row = waiting(alias)
    with acting(Operator("user", "ann")):
        message = publish(alias, payload={"password": "x"}, ttl=60)
        end_wait(row.pk, using=alias)
        delete_messages([message.pk], using=alias)
    verbs = list(AuditLog.objects.using(alias).order_by("pk").values_list("verb", "object_type", "object_id"))
    assert [verb for verb, *_ in verbs] == ["publish_message", "end_wait", "delete_messages"]
    assert verbs[0][1:] == ("message", str(message.pk))
    assert "password" not in str(AuditLog.objects.using(alias).values_list("new_value", flat=True))
    assert not Message.objects.using(alias).exists()


def test_counts(alias):
    assert message_counts(alias) == (0, 0, 0)
    waiting(alias)
    publish(alias, tenant_id="b")
    publish(alias, ttl=60, tenant_id="c")
    assert message_counts(alias) == (1, 1, 2)


def test_a_job_that_waits_for_a_message_does_not_wait_for_its_resource(alias, configure):
    configure(RESOURCES={"pay.example": {"limit": 1}, "customer:*": {"limit": 1}})
    waiting(alias, resource="pay.example")
    waiting(alias, resource="customer:1")
    make_job(alias, resource="customer:1")
    assert [status.waiting for status in resource_status(alias, ["pay.example", "customer:1"])] == [0, 1]
    assert {entry: total.waiting for entry, total in totals(alias).items()} == {"pay.example": 0, "customer:*": 1}


def test_jobs_that_wait_are_no_work_that_is_left(alias):
    scopes = [ServedJobs(get_settings().categories)]
    waiting(alias, waits_until=clock.now(alias) + HOUR)
    assert pending(alias, scopes).due
    deliver(alias, 10)
    assert pending(alias, scopes).empty
    publish(alias)
    assert pending(alias, scopes).due


def test_the_cleanup_deletes_messages_that_are_kept_no_longer(alias, frozen):
    old = publish(alias, ttl="PT1H")
    undelivered = publish(alias, ttl="PT1H")
    publish(alias, ttl="PT3H")
    Message.objects.using(alias).exclude(pk=undelivered.pk).update(delivery_time=None)
    frozen.tick(2 * HOUR)
    deleted = [rows for rows in _expired(alias) if rows.model is Message]
    assert [list(rows.values_list("pk", flat=True)) for rows in deleted] == [[old.pk]]
    assert BlockedJob.objects.using(alias).count() == 0
