"""What Prometheus is told, and whom."""

import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.db import OperationalError, connections
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import jobexec
from jobexec import metrics
from jobexec.clock import FrozenClock
from jobexec.models import (
    JOB_TABLES,
    Batch,
    BlockedJob,
    DeadLetterJob,
    ExecutorNode,
    HistoryJob,
    Incident,
    Job,
    NodeState,
    Resource,
    Suspension,
    SuspensionScope,
    TimerJob,
)
from jobexec.operations.reports import counts, meters
from tests.support.factories import make_row
from tests.support.suite.databases import ROOT

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TOKEN = "0123456789abcdef"


@pytest.fixture(autouse=True)
def frozen(request, settings):
    metrics._registry.cache_clear()
    alias = request.getfixturevalue("alias") if "alias" in request.fixturenames else "default"
    settings.JOBEXEC = {"ENGINES": {alias: {}}}
    with FrozenClock(NOW) as clock:
        yield clock
    metrics._registry.cache_clear()


def scrape(collector=None):
    registry = CollectorRegistry()
    registry.register(collector or metrics.JobExecCollector())
    families = text_string_to_metric_families(generate_latest(registry).decode())
    found = {}
    for family in families:
        assert family.documentation
        for sample in family.samples:
            labels = tuple(value for name, value in sorted(sample.labels.items()) if name != "engine")
            assert "engine" in sample.labels
            assert (sample.name, labels) not in found, "no sample twice"
            found[sample.name, labels] = sample.value
    return found


def test_counters_are_the_sums_of_all_nodes(alias):
    counts = {(meters.JOB_SUCCESSFUL, "shop.mail"): 3, (meters.JOB_FAILED, "shop.mail"): 2}
    meters.flush_meters(alias, "one", {**counts, (meters.JOB_ACQUIRED_SUCCESS, ""): 5})
    meters.flush_meters(alias, "two", {**counts, (meters.JOB_SUCCESSFUL, 'odd "name"'): 1})
    found = scrape()
    assert found["jobexec_jobs_successful_total", ("shop.mail",)] == 6
    assert found["jobexec_jobs_successful_total", ('odd "name"',)] == 1
    assert found["jobexec_jobs_failed_total", ("shop.mail",)] == 4
    assert found["jobexec_jobs_acquired_total", ()] == 5
    assert found["jobexec_jobs_recovered_total", ()] == 0
    assert found["jobexec_up", ()] == 1


def test_histograms_are_in_seconds(alias):
    times = {(meters.JOB_WAIT_TIME, "1"): 2, (meters.JOB_WAIT_TIME, "1024"): 3, (meters.JOB_WAIT_TIME, "inf"): 1}
    meters.flush_meters(alias, "one", {**times, (meters.JOB_WAIT_TIME_SUM, ""): 2500})
    found = scrape()
    assert found["jobexec_job_wait_seconds_bucket", ("0.001",)] == 2
    assert found["jobexec_job_wait_seconds_bucket", ("0.512",)] == 2
    assert found["jobexec_job_wait_seconds_bucket", ("1.024",)] == 5
    assert found["jobexec_job_wait_seconds_bucket", ("+Inf",)] == 6
    assert found["jobexec_job_wait_seconds_count", ()] == 6
    assert found["jobexec_job_wait_seconds_sum", ()] == 2.5
    assert found["jobexec_job_run_seconds_count", ()] == 0


def test_gauges_tell_what_is_in_the_tables(alias, monkeypatch):
    monkeypatch.setattr(counts, "COUNT_LIMIT", 2)
    due = int((NOW - timedelta(seconds=90)).timestamp() * 1000)
    make_row(Job, alias, rank=due)
    make_row(TimerJob, alias, due_date=NOW + timedelta(days=1))
    for _ in range(3):
        make_row(DeadLetterJob, alias)
    Incident.objects.using(alias).create(timestamp=NOW, job_id=make_row(DeadLetterJob, alias).pk)
    Suspension.objects.using(alias).create(scope=SuspensionScope.TENANT, value="acme", live=True)
    found = scrape()
    for state, number in (("executable", 1), ("timer", 1), ("retry", 0), ("in_progress", 0), ("suspended", 0)):
        assert found["jobexec_jobs", (state,)] == number
        assert found["jobexec_jobs_capped", (state,)] == 0
    assert found["jobexec_jobs", ("dead_letter",)] == 2
    assert found["jobexec_jobs_capped", ("dead_letter",)] == 1
    assert found["jobexec_oldest_due_age_seconds", ()] == 90
    assert found["jobexec_incidents", ()] == 1
    assert found["jobexec_suspensions", ()] == 1


def test_every_job_is_in_one_state(alias):
    for table in (*JOB_TABLES, HistoryJob):
        make_row(table, alias)
    found = scrape()
    gauges = ("jobexec_jobs", "jobexec_external_jobs")
    assert sum(number for (name, _), number in found.items() if name in gauges) == len(JOB_TABLES) + 1


def test_nodes_are_told_by_name(alias):
    for number, (name, state) in enumerate([("a", "active"), ("a", "draining"), ("b", "active"), ("c", "dead")]):
        ExecutorNode.objects.using(alias).create(
            name=name,
            lock_owner=f"{name}:{number}",
            state=NodeState(state),
            start_time=NOW,
            heartbeat_time=NOW - timedelta(seconds=number),
            lease_expiration_time=NOW + timedelta(seconds=30 if name == "a" else -1),
            threads=10,
            busy_threads=4,
            queued_jobs=7,
        )
    found = scrape()
    assert found["jobexec_node_threads", ("a",)] == 20
    assert found["jobexec_node_busy_threads", ("a",)] == 8
    assert found["jobexec_node_queued_jobs", ("b",)] == 7
    assert found["jobexec_node_heartbeat_age_seconds", ("a",)] == 1
    assert (found["jobexec_node_up", ("a",)], found["jobexec_node_up", ("b",)]) == (1, 0)
    assert ("jobexec_node_up", ("c",)) not in found


def test_the_statements_are_few_whatever_is_in_the_tables(alias):
    for number in range(30):
        meters.flush_meters(alias, "one", {(meters.JOB_SUCCESSFUL, f"h{number}"): 1})
        make_row(DeadLetterJob, alias)
    with CaptureQueriesContext(connections[alias]) as captured:
        scrape()
    assert len(captured) <= 18, [query["sql"] for query in captured]


def test_resources_are_told_by_entry_and_open_breakers_by_name(alias, settings, monkeypatch):
    monkeypatch.setattr(counts, "COUNT_LIMIT", 2)
    settings.JOBEXEC |= {"RESOURCES": {"pay.example": {"limit": 2, "breaker": "fast"}, "customer:*": {"limit": 1}}}
    for _ in range(3):
        make_row(BlockedJob, alias, resource="pay.example")
    make_row(Job, alias, resource="customer:1")
    later = NOW + timedelta(minutes=1)
    Resource.objects.using(alias).create(name="pay.example", breaker_state="open", trial_time=later)
    found = scrape()
    assert found["jobexec_resource_permits_in_use", ("customer:*",)] == 1
    assert found["jobexec_resource_permits_in_use", ("pay.example",)] == 0
    assert found["jobexec_resource_jobs_waiting", ("pay.example",)] == 2
    assert found["jobexec_resource_jobs_waiting_capped", ("pay.example",)] == 1
    breakers = {labels for name, labels in found if name == "jobexec_resource_breaker_open"}
    assert breakers == {("pay.example",)}


def test_unfinished_batches(alias, handle):
    def work():
        pass

    job = handle(work, database=alias)
    for number in range(2):
        jobexec.batch(using=alias).add_many([job.s()] * (number + 1))
    jobexec.batch(using=alias).cancel()
    Batch.objects.using(alias).create(type="requeue", state="running")
    found = scrape()
    assert (found["jobexec_batches", ("jobs",)], found["jobexec_batches", ("operations",)]) == (2, 1)
    assert found["jobexec_batch_jobs_open", ()] == 3


def test_without_resources_nothing_is_asked_about_them(alias):
    make_row(Job, alias, resource="of another release")
    with CaptureQueriesContext(connections[alias]) as captured:
        assert not [name for name, _ in scrape() if "resource" in name]
    assert not [query for query in captured if "resource" in query["sql"]]


@pytest.mark.django_db
def test_an_engine_that_does_not_answer_is_down(monkeypatch):
    def away(using):
        raise OperationalError("away")

    monkeypatch.setattr(metrics, "job_counts", away)
    assert scrape() == {("jobexec_up", ()): 0}


def test_registering_asks_no_database():
    CollectorRegistry().register(metrics.JobExecCollector(["no such engine"]))


@pytest.mark.django_db
def test_every_metric_is_in_the_reference():
    page = (ROOT / "docs/reference/metrics.md").read_text()
    names = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name, _ in scrape()}
    # Names of nodes have samples only where there are nodes, and those of handlers where some ran.
    names |= {f"jobexec_node_{name}" for name in metrics._NODE_GAUGES} | {"jobexec_node_up"}
    names |= {f"{name}_total" for name, _, _ in metrics._COUNTERS.values()}
    assert sorted(name for name in names if f"`{name}`" not in page and f"`{name}{{" not in page) == []


@pytest.mark.django_db
class TestView:
    def test_it_is_closed_by_default(self, client):
        response = client.get(reverse("jobexec:metrics"))
        assert response.status_code == 401
        assert b"jobexec_" not in response.content

    @pytest.mark.parametrize("header", ["Bearer None", "Bearer ", "Bearer", "", "Basic 0123456789abcdef"])
    def test_no_token_is_not_any_token(self, client, header):
        assert client.get(reverse("jobexec:metrics"), headers={"Authorization": header}).status_code == 401

    @pytest.mark.parametrize(("token", "status"), [(TOKEN, 200), (TOKEN[:-1], 401), ("ß", 401)])
    def test_who_has_the_token_may_read(self, client, settings, token, status):
        settings.JOBEXEC = {"METRICS_TOKEN": TOKEN}
        answer = client.get(reverse("jobexec:metrics"), headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == status

    @pytest.mark.gate
    def test_what_is_read_is_fresh_and_in_the_format_asked_for(self, client, settings):
        settings.JOBEXEC = {"METRICS_TOKEN": TOKEN}
        headers = {"Authorization": f"bearer {TOKEN}"}
        answer = client.get(reverse("jobexec:metrics"), headers=headers)
        assert answer["Content-Type"].startswith("text/plain")
        assert "no-store" in answer["Cache-Control"]
        assert b"jobexec_up{" in answer.content
        headers["Accept"] = "application/openmetrics-text; version=1.0.0"
        answer = client.get(reverse("jobexec:metrics"), headers=headers)
        assert answer["Content-Type"].startswith("application/openmetrics-text")
        assert answer.content.endswith(b"# EOF\n")
        assert client.post(reverse("jobexec:metrics"), headers=headers).status_code == 405

    @pytest.mark.parametrize(
        ("staff", "permission", "status"), [(True, True, 200), (True, False, 401), (False, True, 401)]
    )
    def test_staff_may_who_may_view_the_meter_log(self, client, staff, permission, status):
        user = User.objects.create_user("ada", is_staff=staff)
        if permission:
            user.user_permissions.add(Permission.objects.get(codename="view_meterlog"))
        client.force_login(user)
        assert client.get(reverse("jobexec:metrics")).status_code == status

    def test_a_project_without_users_can_use_a_token_only(self, rf):
        assert metrics.view(rf.get("/")).status_code == 401
        request = rf.get("/")
        request.user = AnonymousUser()
        assert metrics.view(request).status_code == 401
        request.user = SimpleNamespace(is_active=True, is_staff=False)
        assert metrics.view(request).status_code == 401
