"""Who deals with groups of failures, and for how long they are quiet."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth import get_user_model
from django.db import transaction

from jobexec import operations
from jobexec.exceptions import InvalidJob
from jobexec.models import AuditLog, FailureGroup, Incident, OperatorType
from jobexec.operations.audit import acting
from jobexec.operations.manage import failure_groups as failure_groups_module
from jobexec.operations.overview import overview
from jobexec.operations.problems import problems
from jobexec.operations.reports.failure_groups import failure_groups, quiet_groups
from jobexec.operations.values.operator import Operator

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ANNA = Operator(OperatorType.USER, "anna", "admin", "")


@pytest.fixture(autouse=True)
def users(monkeypatch):
    """Users are in another database than some of the engines."""
    monkeypatch.setattr(failure_groups_module, "_is_user", lambda name: name == "ben")


def group(alias, fingerprint="f1", **columns):
    times = {"first_time": NOW - HOUR, "last_time": NOW, "count": 10}
    return FailureGroup.objects.using(alias).create(
        fingerprint=fingerprint, handler_type="shop.pay", **{**times, **columns}
    )


def reloaded(row):
    row.refresh_from_db()
    return row


@pytest.mark.every_database
@pytest.mark.parametrize(
    ("columns", "is_quiet"),
    [
        ({}, False),
        ({"acknowledged_at": NOW - HOUR}, True),
        ({"snoozed_until": NOW + HOUR}, True),
        ({"snoozed_until": NOW}, False),
        ({"snoozed_to_count": 10}, True),
        ({"snoozed_to_count": 9}, False),
        ({"snoozed_until": NOW + HOUR, "snoozed_to_count": 9}, False),
        ({"snoozed_until": NOW - HOUR, "snoozed_to_count": 99}, False),
        ({"snoozed_until": NOW + HOUR, "snoozed_to_count": 99}, True),
    ],
)
def test_a_row_and_a_query_agree_on_what_is_quiet(alias, columns, is_quiet):
    row = group(alias, **columns)
    assert row.quiet(NOW) is is_quiet
    assert FailureGroup.objects.using(alias).filter(quiet_groups(NOW)).exists() is is_quiet
    assert bool(failure_groups(alias, loud_at=NOW)) is not is_quiet


def test_a_snooze_counts_from_the_failures_until_now(alias, frozen):
    row, other = group(alias), group(alias, "f2", count=70)
    result = operations.snooze_failure_groups(["f1", "f2", "gone"], failures=5, using=alias)
    assert (result.changed, list(result.skipped)) == (["f1", "f2"], ["gone"])
    assert (reloaded(row).snoozed_to_count, reloaded(other).snoozed_to_count) == (15, 75)
    operations.acknowledge_failure_groups(["f1"], using=alias)
    assert reloaded(row).acknowledged_at == NOW
    assert row.snoozed_to_count is None, "one decision follows the other"
    operations.reopen_failure_groups(["f1"], using=alias)
    assert not reloaded(row).quiet(NOW)


def test_a_decision_is_in_the_audit_log(alias, frozen):
    group(alias), group(alias, "f2")
    with acting(ANNA):
        operations.assign_failure_groups(["f1"], assigned_to="ben", using=alias)
        operations.snooze_failure_groups(["f1", "f2"], until=NOW + HOUR, using=alias)
    one, both = AuditLog.objects.using(alias).order_by("pk")
    assert (one.verb, one.object_id, one.operator) == ("assign_failure_groups", "f1", "anna")
    assert (one.old_value, one.new_value) == ({"assigned_to": ""}, {"assigned_to": "ben"})
    assert (both.object_id, both.count, both.scope["ids"]) == ("", 2, ["f1", "f2"])


@pytest.mark.parametrize(
    ("verb", "arguments", "said"),
    [
        ("assign", {"assigned_to": "nobody"}, "assigned_to: expected the name of an active user"),
        ("snooze", {}, "Expected until, a date, or failures, a number."),
        ("snooze", {"failures": -1}, "failures: expected a whole number from 0"),
        ("snooze", {"failures": True}, "failures: expected a whole number from 0"),
        ("snooze", {"until": NOW}, "until: expected a time in the future"),
    ],
)
def test_what_cannot_be(alias, frozen, verb, arguments, said):
    row = group(alias)
    with transaction.atomic(using=alias), pytest.raises(InvalidJob, match=said):
        getattr(operations, f"{verb}_failure_groups")(["f1"], using=alias, **arguments)
    assert not reloaded(row).quiet(NOW)


@pytest.mark.django_db
def test_users_are_those_of_the_project(monkeypatch):
    monkeypatch.undo()
    get_user_model().objects.create_user("ben")
    get_user_model().objects.create_user("gone", is_active=False)
    known = [failure_groups_module._is_user(name) for name in ("ben", "gone", "nobody")]
    assert known == [True, False, False]


def test_many_incidents_are_one_problem_until_they_are_known(alias, frozen):
    group(alias, exception="GatewayTimeout")
    rows = [
        Incident(timestamp=NOW, handler_type="shop.pay", category="default", fingerprint="f1", message=str(number))
        for number in range(30)
    ]
    Incident.objects.using(alias).bulk_create(rows)

    def told():
        seen = overview(alias, parts={"incidents"})
        return [problem.text for problem in problems(seen)], [each.group.pk for each in seen.troubling_groups]

    assert told() == (["30 incidents are open."], ["f1"])
    operations.snooze_failure_groups(["f1"], until=NOW + HOUR, using=alias)
    assert told() == ([], [])
    frozen.tick(3601)
    assert told() == (["30 incidents are open."], ["f1"])
    assert int(overview(alias, parts={"incidents"}).incidents) == 30, "the number of all is another matter"
