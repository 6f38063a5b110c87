"""Why a job is not running: every reason, made true by the verbs where there is one."""

import json
import re
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

import jobexec
from jobexec import clock
from jobexec.conf import get_settings
from jobexec.models import (
    AcquisitionLock,
    Batch,
    BlockedJob,
    DeadLetterJob,
    Deployment,
    ExecutorNode,
    HistoryJob,
    Incident,
    Job,
    JobDefinition,
    JobLog,
    JobProgress,
    SuspendedJob,
    TimerJob,
)
from jobexec.operations import (
    activate,
    cancel,
    complete_jobs,
    delete_jobs,
    fail_job,
    hold_resource,
    recover_node,
    register_deployment,
    requeue,
    suspend,
    unregister_deployment,
)
from jobexec.operations.nodes.cluster_lock import ACQUIRE_JOBS
from jobexec.operations.resources.breaker import open_breaker
from jobexec.operations.resources.promote import promote
from jobexec.operations.settle.recover import lock_for
from jobexec.operations.why import explain as why_module
from jobexec.operations.why.explain import why
from jobexec.testing import ManualExecutor
from tests.support.factories import HANDLER, a_failure, a_run, acquire, make_job, make_node, make_row, work
from tests.support.suite.databases import ROOT

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


def codes(id, alias):
    return [reason.code for reason in why(getattr(id, "id", id), using=alias).reasons]


def reason(id, alias, code=None):
    """The decisive reason, or that with this code."""
    found = why(getattr(id, "id", id), using=alias).reasons
    return found[0] if code is None else next(each for each in found if each.code == code)


def live(alias, name="berlin", **columns):
    """A node that serves everything and knows the handler."""
    JobDefinition.objects.using(alias).get_or_create(id=HANDLER, handler_type=HANDLER, defaults={"category": "default"})
    node = make_node(alias, name)
    columns.setdefault("categories", ["default"])
    ExecutorNode.objects.using(alias).filter(pk=node.pk).update(**columns)
    node.refresh_from_db(using=alias)
    return node


def also(alias, **columns):
    """One more node beside others, also where the database bears but one."""
    now = clock.now(alias)
    values = {"start_time": now, "heartbeat_time": now, "lease_expiration_time": now + MINUTE} | columns
    return ExecutorNode.objects.using(alias).create(lock_owner=f"{columns['name']}:{uuid4()}", **values)


class TestNobodyHoldsIt:
    def test_nothing_keeps_it(self, alias):
        live(alias)
        job = make_job(alias)
        found = why(job.pk, using=alias)
        assert [each.code for each in found.reasons] == ["soon"]
        assert "berlin" in found.reasons[0].text
        assert (found.job.pk, type(found.job), found.state, found.id) == (job.pk, Job, "executable", str(job.pk))

    def test_no_node_was_ever_there(self, alias):
        assert reason(make_job(alias), alias).code == "no_node"
        assert "the table of nodes is empty" in reason(make_job(alias), alias).text

    def test_no_node_lives(self, alias, frozen):
        live(alias)
        job = make_job(alias)
        frozen.tick(31)
        found = reason(job, alias)
        assert (found.code, found.details["nodes"][0]["node"]) == ("no_node", "berlin")
        assert "berlin" in found.text and "(1 s ago)" in found.text
        assert codes(job, alias) == ["no_node"]

    def test_a_node_that_was_declared_dead_does_not_live(self, alias):
        live(alias, state="dead")
        assert codes(make_job(alias), alias) == ["no_node"]

    def test_every_node_is_stopping(self, alias):
        live(alias, state="draining")
        found = reason(make_job(alias), alias)
        assert (found.code, found.details) == ("nodes_draining", {"nodes": ["berlin"]})

    def test_its_category_is_served_by_none(self, alias, configure):
        configure(CATEGORIES=["default", "mail"])
        live(alias)
        job = make_job(alias, category="mail")
        found = reason(job, alias)
        assert (found.code, found.details) == (
            "category_not_served",
            {"category": "mail", "served": {"berlin": ["default"]}},
        )
        assert codes(job, alias) == ["category_not_served"]

    def test_its_deployment_is_registered_on_none(self, alias):
        live(alias, deployment_aware=True)
        job = make_job(alias, deployment_id="shop:2")
        found = reason(job, alias)
        assert found.code == "deployment_not_registered"
        assert found.details["nodes"] == [{"node": "berlin", "refusal": "not registered", "since": None}]
        Deployment.objects.using(alias).create(id="shop:2", name="shop", version="2")
        unregister_deployment("shop:2", "berlin", using=alias)
        found = reason(job, alias)
        assert "unregistered by an operator" in found.text
        assert found.details["nodes"][0]["since"] == clock.now(alias).isoformat()
        register_deployment("shop:2", "berlin", using=alias)
        assert codes(job, alias) == ["soon"]

    def test_a_node_that_is_not_aware_takes_every_deployment(self, alias):
        live(alias, deployment_aware=True)
        also(alias, name="oslo", categories=["default"])
        assert codes(make_job(alias, deployment_id="shop:2"), alias) == ["soon"]

    def test_one_that_takes_its_deployment_must_serve_its_category_too(self, alias, configure):
        configure(CATEGORIES=["default", "mail"])
        live(alias, deployment_aware=True, categories=["mail"])
        also(alias, name="oslo", categories=["default"])
        job = make_job(alias, category="mail", deployment_id="shop:2")
        assert codes(job, alias) == ["deployment_not_registered"]

    def test_no_node_knows_its_handler(self, alias):
        live(alias)
        job = make_job(alias, handler_type="shop.forgotten")
        found = reason(job, alias)
        assert (found.code, found.details) == ("handler_unknown", {"handler": "shop.forgotten"})

    def test_its_priority_is_out_of_range(self, alias, configure):
        live(alias)
        configure(engine={"PRIORITY_RANGE": (5, None)})
        found = reason(make_job(alias), alias)
        assert (found.code, found.details) == ("priority_out_of_range", {"priority": 0, "least": 5, "most": None})
        configure(engine={"PRIORITY_RANGE": (None, -1)})
        assert codes(make_job(alias, priority=-1, exclusive=False), alias)[0] != "priority_out_of_range"

    def test_its_priority_is_out_of_range_of_the_acquisition_of_its_category(self, alias, configure):
        live(alias)
        named = {"mail": {"CATEGORIES": ["mail"]}, "rest": {"CATEGORIES": ["default"], "PRIORITY_RANGE": (5, None)}}
        keys = {"CATEGORIES": ["default", "mail"], "ACQUISITIONS": named}
        configure(engine={"ACQUISITIONS": ["mail", "rest"]}, **keys)
        found = reason(make_job(alias), alias)
        details = {"priority": 0, "least": 5, "most": None, "acquisition": "rest"}
        assert (found.code, found.details) == ("priority_out_of_range", details)
        assert "the acquisition rest takes priorities from 5 to …" in found.text
        assert codes(make_job(alias, category="mail", exclusive=False), alias)[0] != "priority_out_of_range"

    def test_the_global_lock_is_held_by_who_does_not_live(self, alias, configure, frozen):
        node = live(alias)
        job = make_job(alias)
        until = clock.now(alias) + MINUTE
        table = AcquisitionLock.objects.using(alias)
        table.create(name=ACQUIRE_JOBS, lock_owner="oslo:1", token=1, lock_expiration_time=until)
        assert codes(job, alias) == ["soon"]
        configure(engine={"ACQUISITION": "global_lock"})
        assert codes(job, alias) == ["acquisition_locked"]
        assert reason(job, alias).details == {"lock_owner": "oslo:1", "until": until.isoformat()}
        table.update(lock_owner=node.lock_owner)
        assert codes(job, alias) == ["soon"]

    def test_all_threads_are_busy(self, alias):
        live(alias, threads=4, busy_threads=4, queued_jobs=7)
        job = make_job(alias)
        assert codes(job, alias) == ["nodes_busy"]
        assert "berlin (4 of 4 threads, 7 jobs queued)" in reason(job, alias).text
        also(alias, name="oslo", categories=["default"], threads=2, busy_threads=1)
        assert codes(job, alias) == ["soon"]


class TestTenant:
    def test_it_is_at_its_limit_on_every_node(self, alias, configure):
        configure(TENANT_CONCURRENCY={"acme": 2})
        berlin = live(alias)
        for tenant in ("acme", "other", "acme"):
            work(alias, berlin.lock_owner, tenant_id=tenant, exclusive=False)
        job = make_job(alias, tenant_id="acme")
        found = reason(job, alias)
        assert found.code == "tenant_at_limit"
        assert found.details == {"tenant": "acme", "limit": 2, "nodes": [{"node": "berlin", "in_hand": 2}]}
        assert codes(make_job(alias, tenant_id="other"), alias) == ["jobs_in_front"]
        also(alias, name="oslo", categories=["default"])
        assert codes(job, alias) == ["soon"]

    def test_there_is_room(self, alias, configure):
        configure(TENANT_CONCURRENCY=2)
        work(alias, live(alias).lock_owner, tenant_id="acme")
        assert codes(make_job(alias, tenant_id="acme"), alias) == ["soon"]

    def test_jobs_of_no_tenant_have_no_limit(self, alias, configure):
        configure(TENANT_CONCURRENCY=1)
        work(alias, live(alias).lock_owner)
        assert codes(make_job(alias), alias) == ["soon"]


class TestInFront:
    def test_what_is_acquired_before_it_is_counted(self, alias, frozen, configure):
        configure(CATEGORIES=["default", "mail"])
        live(alias, deployments=["shop:1"])
        make_job(alias, priority=5)
        make_job(alias, deployment_id="shop:1", priority=5)
        make_job(alias, priority=5, category="mail")
        frozen.tick(1)
        job = make_job(alias)
        frozen.tick(1)
        make_job(alias)
        found = reason(job, alias)
        assert (found.code, found.details["count"], found.details["more"]) == ("jobs_in_front", 2, False)
        assert "About 2 jobs of category default" in found.text

    def test_what_is_held_is_not_in_front(self, alias):
        live(alias)
        work(alias)
        assert codes(make_job(alias), alias) == ["soon"]

    def test_of_one_rank_the_older_is_first(self, alias):
        live(alias)
        first, second = make_job(alias), make_job(alias)
        assert first.rank == second.rank
        assert (codes(first, alias), codes(second, alias)) == (["soon"], ["jobs_in_front"])
        assert "About 1 job of" in reason(second, alias).text

    def test_counting_ends(self, alias, monkeypatch):
        monkeypatch.setattr("jobexec.operations.why.facts.MOST_IN_FRONT", 2)
        monkeypatch.setattr("jobexec.operations.why.waiting.MOST_IN_FRONT", 2)
        live(alias)
        for _ in range(5):
            job = make_job(alias)
        found = reason(job, alias)
        assert (found.details["count"], found.details["more"]) == (2, True)
        assert found.text.startswith("More than 2 jobs")


class TestExclusive:
    def test_a_sibling_is_in_hand(self, alias):
        node = live(alias)
        sibling = work(alias, node.lock_owner, process_instance_id="order-1")
        job = make_job(alias, process_instance_id="order-1")
        found = reason(job, alias)
        assert found.code == "exclusive_sibling"
        assert found.details["job"] == str(sibling.id) and found.details["node"] == "berlin"
        assert str(sibling.id) in found.text and HANDLER in found.text and "order-1" in found.text
        assert codes(make_job(alias, process_instance_id="order-1", exclusive=False), alias)[0] != "exclusive_sibling"
        complete_jobs(alias, [(sibling, a_run(alias))])
        assert codes(job, alias)[0] == "soon"

    def test_a_stuck_thread_keeps_the_instance(self, alias):
        node = live(alias)
        running = work(alias, node.lock_owner, process_instance_id="order-1")
        fail_job(alias, running, a_failure(keeps_instance=True), a_run(alias))
        job = make_job(alias, process_instance_id="order-1")
        assert reason(job, alias).code == "exclusive_lock"
        assert "an outcome is being written" in reason(job, alias).text
        ExecutorNode.objects.using(alias).update(stuck_threads=1)
        assert "1 thread stuck" in reason(job, alias).text

    def test_the_holder_is_gone(self, alias, frozen):
        node = live(alias)
        running = work(alias, node.lock_owner, process_instance_id="order-1")
        fail_job(alias, running, a_failure(keeps_instance=True), a_run(alias))
        job = make_job(alias, process_instance_id="order-1")
        ExecutorNode.objects.using(alias).update(state="dead")
        assert "the node is gone" in reason(job, alias, "exclusive_lock").text
        recover_node(alias, ExecutorNode.objects.using(alias).get())
        assert codes(job, alias) == ["no_node"]


class TestSuspended:
    def test_by_itself(self, alias):
        live(alias)
        job = make_job(alias)
        suspend(job.pk, using=alias)
        found = why(job.pk, using=alias)
        assert ([each.code for each in found.reasons], found.state) == (["suspended"], "suspended")
        assert found.reasons[0].details == {"suspended_at": clock.now(alias).isoformat()}

    def test_by_itself_until_a_date(self, alias):
        live(alias)
        job = make_job(alias)
        suspend(job.pk, using=alias, until=clock.now(alias) + DAY)
        found = reason(job, alias)
        assert (found.code, found.details["until"]) == ("suspended", (clock.now(alias) + DAY).isoformat())
        assert "(in 1 d)" in found.text

    @pytest.mark.parametrize(
        ("scope", "said"),
        [
            ("process_instance_id", "process instance"),
            ("process_definition_key", "process definition"),
            ("job_definition_id", "job definition"),
            ("tenant_id", "tenant"),
        ],
    )
    def test_by_a_scope(self, alias, scope, said):
        live(alias)
        job = make_job(alias, **{scope: "x-1"})
        suspend(using=alias, **{scope: "x-1"}, until=clock.now(alias) + DAY)
        suspend(using=alias, **{scope: "x-2"})
        found = reason(job, alias)
        assert (found.code, found.details["scope"], found.details["value"]) == ("suspended_by_scope", scope, "x-1")
        assert f"{said} x-1" in found.text and "(in 1 d)" in found.text
        assert len(codes(job, alias)) == 1

    def test_by_several(self, alias):
        live(alias)
        job = make_job(alias, tenant_id="acme", process_instance_id="order-1")
        suspend(using=alias, tenant_id="acme")
        suspend(using=alias, process_instance_id="order-1")
        suspend(job.pk, using=alias)
        found = why(job.pk, using=alias).reasons
        assert [each.code for each in found] == ["suspended", "suspended_by_scope", "suspended_by_scope"]
        assert [each.details.get("scope") for each in found] == [None, "process_instance_id", "tenant_id"]
        assert "with no end date" in found[1].text

    def test_a_scope_whose_date_has_come_suspends_what_nobody_has_moved_yet(self, alias, frozen):
        live(alias)
        job = make_job(alias, tenant_id="acme")
        suspend(using=alias, tenant_id="acme", at=clock.now(alias) + timedelta(seconds=5))
        assert codes(job, alias) == ["soon", "suspension_planned"]
        assert "(in 5 s)" in reason(job, alias, "suspension_planned").text
        frozen.tick(6)
        assert codes(job, alias) == ["suspended_by_scope"]
        assert why(job.pk, using=alias).state == "executable"

    def test_one_that_leaves_out_what_was_there_before(self, alias, frozen):
        live(alias)
        before = make_job(alias, tenant_id="acme", priority=1)
        frozen.tick(1)
        suspend(using=alias, tenant_id="acme", include_jobs=False)
        assert codes(before, alias) == ["soon"]
        assert codes(make_job(alias, tenant_id="acme"), alias)[0] == "suspended_by_scope"

    def test_one_that_is_planned_for_a_single_job(self, alias, frozen):
        live(alias)
        job = make_job(alias)
        suspend(job.pk, using=alias, at=clock.now(alias) + timedelta(seconds=5))
        assert "individually" in reason(job, alias, "suspension_planned").text
        frozen.tick(6)
        assert codes(job, alias) == ["suspended"]

    def test_what_is_over_and_not_yet_brought_back(self, alias, frozen):
        live(alias)
        job = make_job(alias, tenant_id="acme")
        suspend(using=alias, tenant_id="acme", until=clock.now(alias) + timedelta(seconds=5))
        frozen.tick(6)
        assert codes(job, alias) == ["activating"]
        activate(using=alias, tenant_id="acme")
        assert codes(job, alias) == ["soon"]

    def test_it_keeps_its_due_date(self, alias):
        live(alias)
        job = make_job(alias, due_date=clock.now(alias) + DAY)
        suspend(job.pk, using=alias)
        assert codes(job, alias) == ["suspended", "not_due"]


class TestTimers:
    def test_not_due(self, alias):
        live(alias)
        job = make_job(alias, due_date=clock.now(alias) + DAY)
        found = why(job.pk, using=alias)
        assert (found.state, [each.code for each in found.reasons]) == ("timer", ["not_due"])
        assert found.reasons[0].details["due_date"] == (clock.now(alias) + DAY).isoformat()
        assert "(in 1 d)" in found.reasons[0].text

    def test_waits_for_a_retry(self, alias):
        live(alias)
        job = work(alias, retries=3)
        fail_job(alias, job, a_failure("ValueError: no"), a_run(alias))
        found = reason(job.id, alias)
        assert (found.code, found.details["attempts"], found.details["retries"]) == ("waits_for_retry", 1, 2)
        assert "2 retries left: ValueError: no" in found.text

    def test_due_and_not_moved_yet(self, alias, frozen):
        live(alias)
        job = make_job(alias, due_date=clock.now(alias) + timedelta(seconds=5))
        frozen.tick(6)
        assert codes(job, alias) == ["due"]

    def test_what_will_keep_it_when_it_is_due_is_said_too(self, alias):
        job = make_job(alias, due_date=clock.now(alias) + DAY)
        assert codes(job, alias) == ["not_due", "no_node", "handler_unknown"]

    def test_a_node_did_not_know_its_handler(self, alias, configure):
        live(alias)
        configure(UNKNOWN_HANDLER_TIMEOUT=3600)
        job = work(alias)
        fail_job(alias, job, a_failure("HandlerNotFound: no", kind="unknown"), a_run(alias))
        found = reason(job.id, alias)
        assert codes(job.id, alias) == ["handler_unknown", "not_due"]
        assert found.details["until"] == (clock.now(alias) + timedelta(hours=1)).isoformat()


class TestBlocked:
    @pytest.fixture(autouse=True)
    def resources(self, alias, configure):
        """Two that have a limit, a rate and a breaker, and a node that serves all."""
        breaker = {"minimum_calls": 3, "wait": 20, "trial_calls": 1}
        pay = {"limit": 2, "breaker": breaker}
        configure(RESOURCES={"pay.example": pay, "fax": {"rate": "6/PT1M"}, "door": {"limit": 1}})
        live(alias)

    @staticmethod
    def blocked(alias, resource="pay.example"):
        return make_job(alias, resource=resource)

    @staticmethod
    def look(alias, resource="pay.example"):
        """What a node does at its next check."""
        return promote(alias, [resource], 100).moved

    @staticmethod
    def opened(alias):
        profile = get_settings().resources["pay.example"].breaker
        assert open_breaker(alias, "pay.example", profile, "3 of 3 calls failed")

    def test_it_has_a_permit_at_the_next_check(self, alias):
        job = self.blocked(alias)
        found = why(job.pk, using=alias)
        assert (found.state, [each.code for each in found.reasons]) == ("blocked", ["resource_soon"])
        assert found.reasons[0].text == (
            "Its resource pay.example has a free permit. A node assigns it to the job at its next check."
        )
        assert found.reasons[0].details == {"resource": "pay.example"}
        assert self.look(alias) == 1
        assert codes(job, alias) == ["soon"]

    def test_all_permits_are_held(self, alias):
        rows = [self.blocked(alias) for _ in range(3)]
        self.look(alias)
        found = reason(rows[2], alias)
        assert codes(rows[2], alias) == ["resource_full"]
        said = "All 2 permits of its resource pay.example are held by "
        assert found.text == f"{said}jobs that no node has taken yet."
        node = ExecutorNode.objects.using(alias).get()
        (held,) = acquire(alias, node.lock_owner, limit=1)
        found = reason(rows[2], alias)
        assert found.text == f"{said}berlin."
        assert found.details == {
            "resource": "pay.example",
            "limit": 2,
            "in_use": 2,
            "jobs": [
                {"job": str(held.id), "handler": HANDLER, "lock_owner": node.lock_owner},
                {"job": str(rows[1].pk), "handler": HANDLER, "lock_owner": None},
            ],
        }
        complete_jobs(alias, [(held, a_run(alias))])
        assert codes(rows[2], alias) == ["resource_soon"]

    def test_its_only_permit_is_held(self, alias):
        _, job = self.blocked(alias, "door"), self.blocked(alias, "door")
        self.look(alias, "door")
        acquire(alias, ExecutorNode.objects.using(alias).get().lock_owner)
        assert reason(job, alias).text == "The permit of its resource door is held by berlin."

    def test_its_rate_is_used_up(self, alias, frozen):
        _, job = self.blocked(alias, "fax"), self.blocked(alias, "fax")
        assert codes(job, alias) == ["resource_soon", "blocked_in_front"]
        assert self.look(alias, "fax") == 1
        found = reason(job, alias)
        until = clock.now(alias) + timedelta(seconds=10)
        assert codes(job, alias) == ["resource_rate"]
        assert found.text.startswith("Its resource fax allows 6/PT1M jobs to start; the next one may start on ")
        assert "(in 10 s)" in found.text
        assert found.details == {"resource": "fax", "rate": "6/PT1M", "until": until.isoformat()}
        frozen.tick(10)
        assert codes(job, alias) == ["resource_soon"]

    def test_an_operator_holds_its_resource(self, alias, frozen):
        job, until = self.blocked(alias), clock.now(alias) + MINUTE
        hold_resource("pay.example", using=alias, until=until)
        found = reason(job, alias)
        assert codes(job, alias) == ["resource_held"]
        assert found.text.startswith("An operator holds back the jobs of its resource pay.example until ")
        assert "(in 1 min)" in found.text
        details = {"resource": "pay.example", "until": until.isoformat(), "held": True, "reason": ""}
        assert found.details == details
        hold_resource("pay.example", using=alias)
        assert reason(job, alias).text.endswith("pay.example until an operator changes that.")
        assert reason(job, alias).details == details | {"until": None}
        self.opened(alias)
        assert codes(job, alias) == ["resource_held"]
        hold_resource("pay.example", using=alias, state="closed")
        assert codes(job, alias) == ["resource_soon"], "whatever the breaker says"

    def test_its_breaker_is_open_and_then_half_open(self, alias, frozen):
        first, second = self.blocked(alias), self.blocked(alias)
        self.opened(alias)
        found, until = reason(second, alias), clock.now(alias) + timedelta(seconds=20)
        assert codes(second, alias) == ["breaker_open", "blocked_in_front"]
        said = "The circuit breaker of its resource pay.example is open until "
        assert found.text.startswith(said) and found.text.endswith("(in 20 s): 3 of 3 calls failed")
        details = {"resource": "pay.example", "held": False, "reason": "3 of 3 calls failed"}
        assert found.details == details | {"until": until.isoformat()}
        frozen.tick(20)
        assert codes(first, alias) == ["resource_soon"], "as the trial call"
        assert self.look(alias) == 1
        found = reason(second, alias)
        assert codes(second, alias) == ["breaker_half_open"]
        assert found.text == "The circuit breaker of its resource pay.example waits for the result of trial calls."
        assert found.details == details | {"until": None}

    def test_what_waits_before_it_is_counted(self, alias, frozen):
        waiting = make_job(alias, resource="pay.example", waits_for="paid", waits_for_key="1")
        first, second = self.blocked(alias), self.blocked(alias)
        self.blocked(alias, "fax")
        assert first.rank == second.rank == waiting.rank
        last = make_job(alias, resource="pay.example", priority=-1)
        assert codes(first, alias) == ["resource_soon"]
        assert [codes(job, alias) for job in (second, last)] == [["resource_soon", "blocked_in_front"]] * 2
        found = reason(second, alias, "blocked_in_front")
        assert found.text == "1 job that waits for it is ahead of this one."
        assert found.details == {"count": 1, "more": False, "resource": "pay.example"}
        assert reason(last, alias, "blocked_in_front").text == "2 jobs that wait for it are ahead of this one."

    def test_counting_ends(self, alias, monkeypatch):
        monkeypatch.setattr("jobexec.operations.why.blocked.MOST_IN_FRONT", 2)
        for _ in range(5):
            job = self.blocked(alias)
        found = reason(job, alias, "blocked_in_front")
        assert found.text == "More than 2 jobs that wait for it are ahead of this one."
        assert (found.details["count"], found.details["more"]) == (2, True)

    def test_no_entry_covers_its_resource_any_more(self, alias, configure):
        job = self.blocked(alias)
        configure(RESOURCES={"fax": {"limit": 1}})
        assert codes(job, alias) == ["resource_unknown"]

    def test_also_what_will_keep_it_from_running(self, alias):
        job = self.blocked(alias)
        ExecutorNode.objects.using(alias).update(state="draining")
        assert codes(job, alias) == ["resource_soon", "nodes_draining"]


class TestBatchOfJobs:
    """More of its reasons are in the tests of `manage.py jobs why`."""

    @pytest.fixture
    def batch(self, alias, handle):
        job = handle(lambda: None, "tests.child", database=alias)
        with jobexec.batch(using=alias, deadline=MINUTE) as batch:
            batch.add(job.s())
        return batch

    def test_it_fails_at_its_deadline(self, alias, batch):
        found = why(batch.id, using=alias)
        expected = ["batch_children", "batch_jobs", "batch_deadline"]
        assert (found.state, [each.code for each in found.reasons]) == ("running", expected)
        said = reason(batch, alias, "batch_deadline")
        assert said.text.startswith("It fails at its deadline, ") and said.text.endswith("(in 1 min).")
        assert said.details == {"deadline": (clock.now(alias) + MINUTE).isoformat()}

    def test_one_that_is_retried_has_no_deadline(self, alias, batch):
        Batch.objects.using(alias).update(deadline=None)
        assert codes(batch, alias) == ["batch_children", "batch_jobs"]

    @pytest.mark.parametrize("end", ["completed", "cancelled", "failed"])
    def test_it_is_over(self, alias, frozen, batch, end):
        if end == "cancelled":
            batch.cancel()
        elif end == "failed":
            suspend(Job.objects.using(alias).get(handler_type="tests.child"), using=alias)
            frozen.tick(60)
        ManualExecutor(using=alias).run_until_empty()
        frozen.tick(5)
        found = why(batch.id, using=alias)
        assert (found.state, [each.code for each in found.reasons]) == (end, ["batch_over"])
        text = found.reasons[0].text
        assert text.startswith(f"The batch has ended ({end}, ") and text.endswith("(5 s ago)).")
        counts = {"total": 1, "completed": 0, "failed": 0, "cancelled": 0, "open": 0}
        ended = "completed" if end == "completed" else "cancelled"
        assert found.reasons[0].details == counts | {ended: 1}


class TestHeld:
    def test_in_hand(self, alias):
        node = live(alias, busy_threads=3, queued_jobs=2)
        since = clock.now(alias)
        job = work(alias, node.lock_owner)
        found = reason(job.id, alias)
        assert codes(job.id, alias) == ["in_hand"]
        assert (found.details["node"], found.details["since"]) == ("berlin", since.isoformat())
        assert found.details["lease_until"] == node.lease_expiration_time.isoformat()
        assert "3 threads were busy and 2 jobs waited" in found.text

    def test_runs_because_nothing_waited_there_after_it_had_come(self, alias, frozen):
        node = live(alias, busy_threads=1)
        job = work(alias, node.lock_owner)
        assert codes(job.id, alias) == ["in_hand"]
        frozen.tick(1)
        ExecutorNode.objects.using(alias).update(heartbeat_time=clock.now(alias))
        assert codes(job.id, alias) == ["running"]

    def test_runs_because_it_says_so(self, alias):
        node = live(alias, queued_jobs=2)
        job = work(alias, node.lock_owner)
        row = JobProgress(job_id=job.id, attempt=1, done=3, total=7, update_time=clock.now(alias))
        row.save(using=alias)
        found = reason(job.id, alias)
        assert (found.code, found.details["progress"]["done"], found.details["progress"]["total"]) == ("running", 3, 7)
        JobProgress.objects.using(alias).update(attempt=2)
        assert codes(job.id, alias) == ["in_hand"]

    def test_asked_to_stop_suspended_and_its_node_stopping(self, alias):
        node = live(alias, state="draining", stuck_threads=2, queued_jobs=1)
        job = work(alias, node.lock_owner, tenant_id="acme")
        cancel(job.id, using=alias)
        suspend(using=alias, tenant_id="acme")
        expected = ["in_hand", "node_draining", "threads_stuck", "cancel_requested", "suspended_by_scope"]
        assert codes(job.id, alias) == expected

    def test_its_node_is_dead(self, alias, frozen):
        node = live(alias)
        job = work(alias, node.lock_owner)
        frozen.tick(31)
        assert codes(job.id, alias) == ["node_dead", "no_node"]
        assert "berlin" in reason(job.id, alias).text
        also(alias, name="oslo", categories=["default"])
        assert codes(job.id, alias) == ["node_dead"]

    def test_somebody_runs_it_himself(self, alias, frozen):
        live(alias)
        row = make_job(alias)
        assert lock_for(alias, row, "execute now:1", MINUTE)
        assert codes(row, alias) == ["held_without_node"]
        frozen.tick(61)
        assert codes(row, alias) == ["lock_expired", "no_node"]
        also(alias, name="oslo", categories=["default"])
        assert codes(row, alias) == ["lock_expired"]


class TestOver:
    def test_a_dead_letter(self, alias):
        live(alias)
        job = work(alias, retries=1)
        fail_job(alias, job, a_failure("ValueError: no"), a_run(alias))
        Incident.objects.using(alias).all().delete()
        found = why(job.id, using=alias)
        assert ([each.code for each in found.reasons], found.state) == (["dead_letter"], "dead letter")
        assert "ValueError: no" in found.reasons[0].text and "1 attempts" not in found.reasons[0].text
        assert found.reasons[0].details["incident"] is None

    def test_a_dead_letter_with_its_incident(self, alias):
        job = make_row(DeadLetterJob, alias, tenant_id="acme", attempts=3)
        made = Incident(timestamp=clock.now(alias), job_id=job.pk, handler_type=HANDLER, annotation="asked the bank")
        made.save(using=alias)
        suspend(using=alias, tenant_id="acme")
        assert codes(job, alias) == ["dead_letter", "annotation", "suspended_by_scope"]
        assert reason(job, alias).details["incident"] == str(made.pk)
        assert "asked the bank" in reason(job, alias, "annotation").text

    def test_requeued_it_is_no_dead_letter(self, alias):
        live(alias)
        job = make_row(DeadLetterJob, alias)
        requeue(job.pk, using=alias)
        assert codes(job, alias) == ["soon"]

    def test_done(self, alias):
        job = work(alias)
        complete_jobs(alias, [(job, a_run(alias))])
        found = why(job.id, using=alias)
        assert ([each.code for each in found.reasons], found.state, found.job) == (["done"], "over", None)
        assert "attempt 1 succeeded" in found.reasons[0].text and found.reasons[0].details["node"] == "node"

    def test_deleted_and_cancelled(self, alias):
        deleted, cancelled = make_job(alias), make_job(alias)
        delete_jobs(deleted, using=alias)
        cancel(cancelled, using=alias)
        assert (codes(deleted, alias), codes(cancelled, alias)) == (["deleted"], ["cancelled"])

    @pytest.mark.parametrize("state", ["failed", "created"])
    def test_ends_are_not_logged(self, alias, state):
        id = uuid4()
        JobLog.objects.using(alias).create(
            job_id=id, state=state, timestamp=clock.now(alias), handler_type=HANDLER, category="default"
        )
        assert codes(id, alias) == ["gone"]

    @pytest.mark.parametrize("id", [uuid4(), "no id", ""])
    def test_nothing_knows_it(self, alias, id):
        found = why(id, using=alias)
        assert ([each.code for each in found.reasons], found.state, found.id) == (["not_found"], "unknown", str(id))

    def test_history(self, alias):
        row = make_row(HistoryJob, alias)
        assert codes(row, alias) == ["history_waiting", "no_node"]
        later = make_row(HistoryJob, alias, due_date=clock.now(alias) + DAY)
        assert "(in 1 d)" in reason(later, alias).text


class TestTheWhole:
    def test_as_json(self, alias):
        node = live(alias)
        work(alias, node.lock_owner, process_instance_id="order-1", tenant_id="acme")
        job = make_job(alias, process_instance_id="order-1", tenant_id="acme")
        suspend(using=alias, tenant_id="acme", at=clock.now(alias) + DAY)
        found = why(job.pk, using=alias)
        told = json.loads(json.dumps(found.as_json()))
        assert [each["code"] for each in told["reasons"]] == ["exclusive_sibling", "suspension_planned"]
        assert (told["id"], told["state"], told["handler"], told["database"]) == (
            str(job.pk),
            "executable",
            HANDLER,
            alias,
        )
        assert told["at"] == clock.now(alias).isoformat()

    def test_few_statements(self, alias, configure):
        resources = {"pay:*": {"limit": 1, "rate": "6/PT1M", "breaker": "fast"}}
        configure(engine={"ACQUISITION": "global_lock"}, TENANT_CONCURRENCY=5, RESOURCES=resources)
        live(alias, deployment_aware=True)
        jobs = [
            make_job(alias, deployment_id="shop:2", process_instance_id="order-1", tenant_id="acme"),
            make_job(alias, due_date=clock.now(alias) + DAY),
            make_row(SuspendedJob, alias),
            make_row(TimerJob, alias, due_date=clock.now(alias)),
            make_row(DeadLetterJob, alias),
            make_row(BlockedJob, alias, resource="pay:1", deployment_id="shop:2", tenant_id="acme"),
        ]
        make_row(Job, alias, resource="pay:1", lock_owner="oslo:2")
        work(alias, "oslo:1", process_instance_id="order-1")
        jobs.append(Job.objects.using(alias).get(lock_owner="oslo:1"))
        for job in jobs:
            with CaptureQueriesContext(connections[alias]) as queries:
                why(job.pk, using=alias)
            assert len(queries) <= 15, "\n".join(query["sql"][:150] for query in queries)

    def test_what_is_large_stays_in_the_database(self, alias):
        job = make_job(alias)
        with CaptureQueriesContext(connections[alias]) as queries:
            why(job.pk, using=alias)
        assert not [query for query in queries if "handler_configuration" in query["sql"]]

    def test_a_job_that_moves_meanwhile_is_looked_at_again(self, alias, monkeypatch):
        live(alias)
        job = make_job(alias)
        look, moves = why_module._reasons, iter([lambda: suspend(job.pk, using=alias)])

        def reasons(facts):
            found = look(facts)
            next(moves, lambda: None)()
            return found

        monkeypatch.setattr(why_module, "_reasons", reasons)
        assert codes(job, alias) == ["suspended"]

    def test_a_job_that_never_stands_still_is_explained_as_it_was(self, alias, monkeypatch):
        live(alias)
        job = make_job(alias)
        monkeypatch.setattr(why_module, "_still", lambda explanation: False)
        assert codes(job, alias) == ["soon"]

    def test_nothing_is_changed(self, alias):
        node = live(alias)
        job = work(alias, node.lock_owner)
        before = Job.objects.using(alias).values().get(pk=job.id)
        why(job.id, using=alias)
        assert Job.objects.using(alias).values().get(pk=job.id) == before
        assert acquire(alias) == []


def test_every_code_is_explained():
    text = (ROOT / "docs/reference/commands.md").read_text()
    rows = text.partition("(jobs-why)=")[2].partition("\n## ")[0]
    explained = set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"^\| (`.*?) \|", rows, re.MULTILINE))))
    sources = "".join(path.read_text() for path in (ROOT / "jobexec/operations/why").glob("*.py"))
    assert explained - {"in_hand", "running", "suspended_by_scope"} == _codes(sources)


def _codes(sources):
    """The codes as they are written: the first argument of each reason, and what says how a job has ended."""
    return set(re.findall(r'(?:Reason\(|return )"([a-z_]+)"', sources))


def test_who_asks_leaves_the_clock_of_his_process_alone(alias, monkeypatch):
    monkeypatch.setattr(clock, "synchronise", lambda *time: pytest.fail("it is set once, and never again"))
    assert "no_node" in codes(make_job(alias), alias)
