"""What is counted of a handler, a category and a tenant."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from jobexec.models import DeadLetterJob, ExecutorNode, ExternalWorkerJob, Incident, Job, JobLog, MeterLog, TimerJob
from jobexec.operations.reports import held, running, subjects
from jobexec.operations.reports.meter_roll_up import BEGINNING, roll_up
from jobexec.operations.reports.meters import flush_meters
from jobexec.operations.values.histogram import KEYS
from tests.support.factories import make_row

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def a_run(bucket, count=1, failed=0):
    return [count if key == bucket else 0 for key in KEYS] + [failed]


def flush(alias, runs, ago=5 * MINUTE, node="n1"):
    flush_meters(alias, node, subjects.counts_of_subjects(runs), NOW - ago)


@pytest.mark.every_database
def test_runs_are_those_of_the_subject_alone(alias, frozen):
    flush(alias, {("pay", "default", "acme"): a_run("8", 3, failed=1), ("ship", "default", "acme"): a_run("1024")})
    flush(alias, {("pay", "mail", ""): a_run("2048", 2)}, ago=50 * MINUTE)
    pay = subjects.runs_of(alias, "handler", "pay", NOW, HOUR)
    assert (pay.all_succeeded, pay.all_failed) == (5, 1)
    assert [at for at, count in enumerate(pay.succeeded) if count] == [10, 55]
    assert 0.004 <= pay.run.overall[0.5] <= 0.008
    assert 1 <= pay.run.overall[0.95] <= 2.048
    assert subjects.runs_of(alias, "category", "mail", NOW, HOUR).all_succeeded == 2
    assert subjects.runs_of(alias, "tenant", "acme", NOW, HOUR).all_succeeded == 4
    assert subjects.runs_of(alias, "tenant", "", NOW, HOUR).all_succeeded == 0
    assert subjects.runs_of(alias, "handler", "nobody", NOW, HOUR).per_second == 0


def test_traffic_is_split_and_the_rest_added_up(alias, frozen):
    counts = {("job-successful", f"h{number}"): 10 - number for number in range(8)}
    flush_meters(alias, "n1", {**counts, ("job-failed", "h0"): 5}, NOW - MINUTE)
    flush(alias, {("h0", "mail", ""): a_run("8", 3, failed=1)}, ago=MINUTE)
    by_handler = subjects.split_by(alias, "handler", NOW, HOUR)
    assert {name: sum(values) for name, values in by_handler.values.items()} == {
        "h0": 15, "h1": 9, "h2": 8, "h3": 7, "h4": 6, "": 5 + 4 + 3,
    }  # fmt: skip
    by_category = subjects.split_by(alias, "category", NOW, HOUR, ["default", "mail"])
    assert {name: sum(values) for name, values in by_category.values.items()} == {"mail": 4, "": 53}
    by_node = subjects.split_by(alias, "node", NOW, HOUR)
    assert {name: sum(values) for name, values in by_node.values.items()} == {"n1": 57}


@pytest.mark.every_database
def test_runs_of_categories_that_a_node_did_not_count_are_among_the_others(alias, frozen, monkeypatch):
    monkeypatch.setitem(subjects.MOST, "category", 2)
    runs = {("pay", name, ""): a_run("8", count, failed=1) for name, count in (("a", 9), ("b", 8), ("c", 7), ("d", 6))}
    every = {("job-successful", "pay"): 9 + 8 + 7 + 6, ("job-failed", "pay"): 4}
    flush_meters(alias, "n1", {**subjects.counts_of_subjects(runs), **every}, NOW - 5 * MINUTE)
    found = subjects.split_by(alias, "category", NOW, HOUR, ["a", "b", "c", "d"]).values
    assert {name: sum(values) for name, values in found.items()} == {"a": 10, "b": 9, "": 8 + 7}
    assert [at for at, count in enumerate(found[""]) if count] == [55], "in the minute in which they ran"
    found = subjects.split_by(alias, "category", NOW, HOUR, ["a"]).values
    assert {name: sum(values) for name, values in found.items()} == {"a": 10, "": 9 + 8 + 7}, "nor those of other nodes"


@pytest.mark.every_database
def test_the_backlog_is_the_average_of_its_samples(alias, frozen):
    for _ in range(3):
        make_row(Job, alias)
    make_row(Job, alias, lock_owner="n1")
    sample = subjects.backlog(alias, ["default", "mail"])
    assert sample == {("job-backlog", "default"): 3, ("job-backlog-samples", ""): 1}
    flush_meters(alias, "n1", sample, NOW - 2 * MINUTE)
    flush_meters(alias, "n2", {**sample, ("job-backlog", "default"): 5, ("job-backlog", "mail"): 1}, NOW - 2 * MINUTE)
    steps = dict(subjects.backlog_over_time(alias, NOW, HOUR))
    assert (steps[NOW - 2 * MINUTE], steps[NOW - MINUTE], sum(steps.values())) == (4.5, 4.5, 9)
    assert max(value for _moment, value in subjects.backlog_over_time(alias, NOW, HOUR, "mail")) == 0.5
    Job.objects.using(alias).all().delete()
    assert subjects.backlog(alias, ["default"]) == {}, "an idle node writes nothing"


@pytest.mark.every_database
def test_jobs_are_counted_in_all_tables(alias, frozen):
    make_row(Job, alias, handler_type="pay", tenant_id="acme")
    make_row(Job, alias, handler_type="pay", lock_owner="n1")
    make_row(TimerJob, alias, handler_type="pay", due_date=NOW + HOUR)
    make_row(DeadLetterJob, alias, handler_type="ship")
    found = subjects.standing_of(alias, "handler", "pay")
    assert {table.state: int(count) for table, count in found.tables.items() if count} == {"executable": 1, "timer": 1}
    assert int(found.running) == 1
    assert int(subjects.standing_of(alias, "handler", "pay", ["acme"]).tables[TimerJob]) == 0
    assert int(subjects.standing_of(alias, "tenant", "acme").tables[Job]) == 1


def hold(alias):
    """Old free jobs of three tables, and jobs in progress that are newer than all that are counted."""
    for table in (Job, ExternalWorkerJob, DeadLetterJob):
        make_row(table, alias, handler_type="ship", rank=9)
        make_row(table, alias, handler_type="pay", rank=9)
    for category in ("a", "a", "b"):
        make_row(Job, alias, handler_type="pay", category=category, lock_owner="n1")
    make_row(Job, alias, handler_type="ship", category="a", deployment_id="shop:2", lock_owner="n1")
    until = NOW + MINUTE
    make_row(ExternalWorkerJob, alias, handler_type="pay", lock_owner="w", lock_expiration_time=until)
    make_row(ExternalWorkerJob, alias, handler_type="pay", lock_owner="w", lock_expiration_time=NOW - MINUTE)


@pytest.mark.every_database
def test_jobs_in_progress_are_counted_in_large_tables(alias, frozen, monkeypatch):
    monkeypatch.setattr(subjects, "COUNT_LIMIT", 1)
    hold(alias)
    assert subjects.standing_of(alias, "handler", "pay").running.text == "4"
    assert subjects.standing_of(alias, "handler", "ship").running.text == "1"
    assert subjects.standing_of(alias, "category", "b").running.text == "1"
    assert subjects.standing_of(alias, "handler", "pay", ["acme"]).running.text == "0"


@pytest.mark.every_database
@pytest.mark.parametrize(("busy", "text"), [(8, "4"), (9, "4+")])
def test_a_count_of_jobs_in_progress_is_a_lower_bound_if_nodes_report_far_more(alias, frozen, monkeypatch, busy, text):
    monkeypatch.setattr(subjects, "COUNT_LIMIT", 1)
    hold(alias)
    times = {"start_time": NOW, "heartbeat_time": NOW, "lease_expiration_time": NOW + MINUTE}
    ExecutorNode.objects.using(alias).create(name="n1", lock_owner="n1", busy_threads=busy - 3, queued_jobs=3, **times)
    assert subjects.standing_of(alias, "handler", "pay").running.text == text


@pytest.mark.parametrize(("name", "most"), [("FRONT", 2), ("MOST_RUNS", 2)])
def test_a_count_of_jobs_in_progress_is_a_lower_bound_where_reading_stops(alias, frozen, monkeypatch, name, most):
    monkeypatch.setattr(subjects, "COUNT_LIMIT", 1)
    monkeypatch.setattr(held, name, most)
    hold(alias)
    assert subjects.standing_of(alias, "handler", "pay").running.capped


@pytest.mark.every_database
def test_what_runs_is_found_in_large_tables(alias, frozen, monkeypatch):
    """Among younger jobs, too: those that are more urgent run before the oldest."""
    monkeypatch.setattr(held, "COUNT_LIMIT", 3)
    monkeypatch.setattr(held, "FRONT", 3)
    for _ in range(5):
        make_row(Job, alias, handler_type="waits", rank=9)
    for number, category in enumerate("aabb"):
        until = NOW + number * MINUTE
        columns = {"lock_owner": f"n{number}", "lock_expiration_time": until, "category": category}
        make_row(Job, alias, handler_type=f"urgent-{number}", rank=5, **columns)
    found = running.jobs_in_hand(alias, 3)
    assert [(each.handler_type, each.node) for each in found] == [(f"urgent-{at}", f"n{at}") for at in range(3)]


def test_groups_are_those_of_open_incidents(alias, frozen):
    from jobexec.models import FailureGroup

    times = {"first_time": NOW, "last_time": NOW}
    for fingerprint, handler in (("f1", "pay"), ("f2", "pay"), ("f3", "ship")):
        FailureGroup.objects.using(alias).create(fingerprint=fingerprint, handler_type=handler, **times)
    columns = {"timestamp": NOW, "handler_type": "pay", "category": "mail", "tenant_id": "acme"}
    for fingerprint in ("f2", "f2", ""):
        Incident.objects.using(alias).create(fingerprint=fingerprint, **columns)
    of_handler = subjects.groups_of(alias, "handler", "pay")
    assert [(each.group.pk, int(each.incidents)) for each in of_handler] == [("f2", 2), ("f1", 0)]
    assert [each.group.pk for each in subjects.groups_of(alias, "tenant", "acme")] == ["f2"]
    assert subjects.groups_of(alias, "category", "default") == []
    entry = {"timestamp": NOW, "job_id": uuid4(), "handler_type": "pay", "fingerprint": "f1"}
    JobLog.objects.using(alias).create(state="failed", category="default", tenant_id="acme", **entry)
    retried = subjects.groups_of(alias, "category", "default")
    assert [(each.group.pk, int(each.incidents)) for each in retried] == [("f1", 0)]
    of_tenant = subjects.groups_of(alias, "tenant", "acme", ["acme"])
    assert [(each.group.pk, int(each.incidents)) for each in of_tenant] == [("f2", 2), ("f1", 0)]
    assert subjects.groups_of(alias, "category", "default", ["other"]) == []


def test_meters_of_subjects_go_when_they_expire(alias, frozen):
    old = timedelta(days=3650)
    flush(alias, {("pay", "default", "acme"): a_run("8", 3)}, ago=old)
    flush_meters(alias, "n1", {("job-successful", "pay"): 3}, NOW - old)
    roll_up(alias)
    (row,) = MeterLog.objects.using(alias).all()
    assert (row.name, row.timestamp, row.value) == ("job-successful", BEGINNING, 3)
