"""Why a job of workers outside is not done."""

from datetime import UTC, datetime, timedelta

from jobexec.operations import cancel, move_to_dead_letter, suspend
from jobexec.operations.external import fail_external_job
from jobexec.operations.why.explain import why
from tests.support.factories import acquire, make_job
from tests.support.outside import MINUTE, fetch, held_by_worker, make_external, missed_by_worker, seen

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def codes(alias, job):
    return [reason.code for reason in why(job.pk, using=alias).reasons]


def first(alias, job):
    return why(job.pk, using=alias).reasons[0]


def test_nobody_has_ever_asked_for_it(alias):
    job = make_external(alias)
    found = why(job.pk, using=alias)
    assert (found.state, [reason.code for reason in found.reasons]) == ("external worker", ["no_worker"])
    assert found.reasons[0].text == "No worker is known to have asked for jobs of the type payment."


def test_nobody_has_asked_for_it_for_long(alias, frozen):
    seen(alias, worker="java-1")
    seen(alias, type="mail", last_seen=NOW + timedelta(hours=1))
    frozen.tick(timedelta(hours=1))
    reason = first(alias, make_external(alias))
    assert reason.code == "no_worker"
    assert reason.details == {"type": "payment", "last_seen": NOW.isoformat(), "worker": "java-1"}
    assert "the last one was java-1" in reason.text and "1 h ago" in reason.text


def test_nobody_asks_for_its_tenant(alias):
    seen(alias, tenants=["beta"])
    job = make_external(alias, tenant_id="acme")
    assert codes(alias, job) == ["no_worker_of_tenant"]
    seen(alias, worker="w2", tenants=["acme"])
    assert codes(alias, job) == ["waits_for_worker"]


def test_a_worker_is_there(alias):
    seen(alias, worker="java-1")
    job = make_external(alias)
    reason = first(alias, job)
    assert (reason.code, reason.details) == ("waits_for_worker", {"workers": ["java-1"]})
    make_external(alias, priority=5)
    make_external(alias, "mail", priority=5)
    make_external(alias, priority=5, delay=60)
    assert first(alias, job).code == "jobs_in_front"
    assert first(alias, job).text == "1 job of the type payment is ahead of it."


def test_a_worker_has_it(alias):
    job = held_by_worker(alias)
    reason = first(alias, job)
    assert codes(alias, job) == ["held_by_worker"]
    until = (NOW + MINUTE).isoformat()
    assert reason.details == {"worker": "w1", "until": until, "fetched": 1, "leased": False}
    assert "The worker w1 holds it until" in reason.text
    cancel(job, using=alias)
    suspend(job, using=alias)
    assert codes(alias, job) == ["held_by_worker", "cancel_requested", "suspended"]


def test_its_deadline_was_missed(alias, frozen):
    job = missed_by_worker(alias, frozen)
    seen(alias, worker="java-1")
    assert codes(alias, job) == ["deadline_missed", "waits_for_worker"]
    assert first(alias, job).details["worker"] == "w1"


def test_it_backs_off(alias):
    seen(alias)
    job = held_by_worker(alias)
    fail_external_job(alias, job.job_key, retries=1, message="No account", back_off=timedelta(minutes=5))
    reason = first(alias, job)
    assert codes(alias, job) == ["waits_for_retry"]
    assert "with 1 retry left: No account" in reason.text and "in 5 min" in reason.text
    assert codes(alias, make_external(alias, delay=60)) == ["not_due"]


def test_it_is_suspended(alias):
    job = make_external(alias, tenant_id="acme")
    suspend(tenant_id="acme", using=alias)
    assert codes(alias, job) == ["suspended_by_scope", "no_worker"], "and no node is missed"


def test_it_is_dead(alias):
    job = make_external(alias)
    move_to_dead_letter(job, "no more", using=alias)
    assert codes(alias, job) == ["dead_letter"]


def test_a_sibling_is_with_a_worker(alias):
    seen(alias)
    other = held_by_worker(alias, process_instance_id="p")
    for job in (make_external(alias, process_instance_id="p"), make_job(alias, process_instance_id="p")):
        reason = next(each for each in why(job.pk, using=alias).reasons if each.code == "exclusive_sibling")
        assert (reason.details["job"], reason.details["worker"]) == (str(other.pk), "w1")
        assert "the worker w1 has held another job" in reason.text
    assert codes(alias, other) == ["held_by_worker"]


def test_a_sibling_is_with_a_node(alias):
    seen(alias)
    running = make_job(alias, process_instance_id="p")
    acquire(alias, "berlin:1")
    job = make_external(alias, process_instance_id="p")
    assert fetch(alias) == []
    reason = first(alias, job)
    assert (reason.code, reason.details["job"]) == ("exclusive_sibling", str(running.pk))
    assert "node berlin" in reason.text
