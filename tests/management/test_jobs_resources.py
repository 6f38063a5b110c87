"""`manage.py jobs resource`."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError

from jobexec.models import AuditLog, BlockedJob, Job, Resource
from jobexec.operations.history.incidents import open_breaker_incident
from tests.support.factories import make_row
from tests.support.jobs_command import jobs, objects

pytestmark = pytest.mark.usefixtures("frozen")

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def declared(engines, settings):
    pay = {"limit": 2, "rate": "100/PT1M", "breaker": "fast"}
    settings.JOBEXEC |= {"RESOURCES": {"pay.example": pay, "customer:*": {"limit": 1}}}


@pytest.fixture
def pay(alias):
    return Resource.objects.using(alias).create(
        name="pay.example",
        breaker_state="open",
        breaker_time=NOW,
        trial_time=datetime(2026, 3, 1, 12, 0, 40, tzinfo=UTC),
        reason="12 of 20 calls failed",
        promoted=7,
    )


def reload(alias, name="pay.example"):
    return Resource.objects.using(alias).get(pk=name)


def test_the_list(alias, pay):
    make_row(BlockedJob, alias, resource="customer:17")
    code, text = jobs("resource", alias=alias)
    head, customer, row = text.splitlines()
    assert code == 0 and head.split()[:3] == ["resource", "in", "use"]
    assert customer.split() == ["customer:17", "0", "1", "–", "1", "–", "–", "0", "customer:*"]  # noqa: RUF001
    assert row.split()[:7] == ["pay.example", "0", "2", "100/PT1M", "0", "open", "in"]
    assert jobs("resource", "list", alias=alias) == (code, text)
    _, (told, _) = objects("resource", "list", alias=alias)
    assert (told["name"], told["limit"], told["waiting"], told["breaker"]) == ("customer:17", 1, 1, None)


def test_there_are_none(alias, settings):
    settings.JOBEXEC |= {"RESOURCES": {}}
    assert jobs("resource", alias=alias) == (0, "No resources.\n")
    assert jobs("resource", "--json", alias=alias) == (0, "")


def test_show(alias, pay):
    job = make_row(Job, alias, resource="pay.example", lock_owner="a:1")
    code, text = jobs("resource", "show", "pay.example", alias=alias)
    assert code == 0 and "Reason: 12 of 20 calls failed" in text and "The breaker last changed: " in text
    holder = text.splitlines()[-1].split()
    assert holder[:4] == [str(job.pk), "in", "progress", "do_nothing()"] and holder[-2] == "a"  # the node a:1
    code, (told,) = objects("resource", "show", "pay.example", alias=alias)
    assert (code, told["in_use"], told["jobs"][0]["id"]) == (0, 1, str(job.pk))
    assert told["until"] == "2026-03-01T12:00:40+00:00" and told["breaker_time"] == NOW.isoformat()


def test_show_says_what_the_rate_allows(alias, pay):
    assert "The rate allows: 1 of 1 now\n" in jobs("resource", "show", "pay.example", alias=alias)[1]
    Resource.objects.using(alias).update(next_permit_time=NOW + timedelta(minutes=3))
    text = jobs("resource", "show", "pay.example", alias=alias)[1]
    assert "The rate allows: the next job on 03/01/2026 12:03:00 UTC (in 3 min)\n" in text
    _, (told,) = objects("resource", "show", "pay.example", alias=alias)
    assert (told["rate_free"], told["rate_until"]) == (0, "2026-03-01T12:03:00+00:00")
    assert "The rate" not in jobs("resource", "show", "customer:1", alias=alias)[1]


def test_show_what_nobody_has_used(alias):
    assert jobs("resource", "show", "customer:1", alias=alias)[0] == 0
    assert jobs("resource", "show", "nothing", alias=alias) == (3, "There is no such resource.\n")
    _, text = jobs("resource", "show", "pay.exampel", alias=alias)
    assert text == "There is no such resource. Did you mean pay.example?\n"
    assert jobs("resource", "show", "nothing", "--json", alias=alias) == (3, "")


def test_set_changes_what_is_given(alias):
    assert jobs("resource", "set", "pay.example", "--limit", 5, alias=alias) == (0, "1 resource has new limits.\n")
    assert jobs("resource", "set", "pay.example", "--rate", "5/PT1S", alias=alias)[0] == 0
    assert (reload(alias).limit, reload(alias).rate) == (5, "5/PT1S")
    code, (told,) = objects("resource", "set", "pay.example", "--limit", "none", alias=alias)
    assert (code, told["operation"], told["limit"], told["rate"]) == (0, "set", None, "5/PT1S")
    assert jobs("resource", "reset", "pay.example", alias=alias)[0] == 0
    assert (reload(alias).limit, reload(alias).rate) == (None, "")
    assert jobs("resource", "set", "customer:*", "--limit", 3, alias=alias)[0] == 0
    entry = AuditLog.objects.using(alias).latest("pk")
    assert (entry.verb, entry.object_id, entry.via) == ("set_resource_limits", "customer:*", "jobs resource")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["set", "pay.example"], "Expected --limit or --rate."),
        (["set", "pay.example", "--rate", "often"], "rate: expected a number of jobs"),
        (["set", "nothing", "--limit", "1"], "resource: expected an entry of RESOURCES"),
        (["hold", "customer:*"], "resource: expected a name that RESOURCES covers"),
        (["hold", "pay.example", "--until", "2h ago"], "until: expected a time in the future"),
        (["release", "nothing"], "resource: expected a name that RESOURCES covers"),
    ],
)
def test_what_is_wrong_is_named(alias, arguments, said):
    code, text = jobs("resource", *arguments, alias=alias)
    assert code == 2 and said in text
    assert not Resource.objects.using(alias).exists()


def test_a_limit_is_a_number_or_none(alias):
    with pytest.raises(CommandError, match="expected a number of jobs, or 'none', got 'many'"):
        jobs("resource", "set", "pay.example", "--limit", "many", alias=alias)


def test_hold_and_release(alias):
    code, text = jobs("resource", "hold", "pay.example", "--until", "+2h", alias=alias)
    assert (code, text.startswith("1 resource is held open until ")) == (0, True)
    assert (reload(alias).hold, reload(alias).hold_until) == ("open", NOW.replace(hour=14))
    assert jobs("resource", "hold", "pay.example", alias=alias)[1] == "1 resource is held open.\n"
    assert "held open" in jobs("resource", alias=alias)[1]
    assert jobs("resource", "hold", "pay.example", "--closed", alias=alias)[1] == "1 resource is held closed.\n"
    text = jobs("resource", "hold", "pay.example", "--closed", "--until", "+2h", alias=alias)[1]
    assert text.startswith("1 resource is held closed until ")
    code, (told,) = objects("resource", "release", "pay.example", alias=alias)
    assert (code, told["held"], reload(alias).hold) == (0, False, "")
    assert jobs("resource", "release", "pay.example", alias=alias)[1] == "1 resource released.\n"


def test_stats_list_what_waits_and_what_is_broken(alias, pay):
    make_row(BlockedJob, alias, resource="customer:17")
    _, text = jobs("stats", alias=alias)
    assert "! The circuit breaker of pay.example is open: 12 of 20 calls failed" in text
    lines = text.splitlines()
    found = [line.split() for line in lines[lines.index("Resources") + 2 :][:2]]
    assert [cells[0] for cells in found] == ["pay.example", "customer:17"]
    _, (told,) = objects("stats", alias=alias)
    assert [(each["name"], each["breaker"], each["waiting"]) for each in told["resources"]] == [
        ("pay.example", "open", 0),
        ("customer:17", None, 1),
    ]
    _, text = jobs("top", "--once", alias=alias)
    assert "customer:17" in text


def test_incidents_name_the_resource_of_a_breaker(alias):
    open_breaker_incident(alias, "pay.example", "12 of 20 calls failed")
    _, text = jobs("incidents", alias=alias)
    assert "pay.example" in text and "12 of 20 calls failed" in text
    _, (told,) = objects("incidents", alias=alias)
    assert (told["resource"], told["job_id"]) == ("pay.example", None)
