"""The list and the page of resources, and what operators do there."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.admin.utils import quote

from jobexec import clock
from jobexec.admin.common import display
from jobexec.admin.jobs import story
from jobexec.models import AuditLog, BlockedJob, Incident, Job, Resource
from jobexec.operations.reports import resources as reports

from .. import data
from ..conftest import called, list_url, page_url, statements_of

PATTERN = "customer:*"


@pytest.fixture(autouse=True)
def declared(settings):
    settings.TIME_ZONE = "Europe/Berlin"
    pay = {"limit": 2, "rate": "100/PT1M", "breaker": "fast"}
    settings.JOBEXEC = {"RESOURCES": {"pay.example": pay, PATTERN: {"limit": 1}}}


def cells(response):
    """The texts of the rows in a list, by column."""
    rows = re.findall(r"<tr>(.*?)</tr>", response.content.decode().split('id="result_list"')[1], re.DOTALL)
    found = []
    for row in filter(lambda each: "field-named" in each, rows):
        parts = re.findall(r'<t[dh][^>]* class="field-(\w+)[^>]*>(.*?)</t[dh]>', row, re.DOTALL)
        found.append({name: " ".join(re.sub(r"<[^>]+>", " ", text).split()) for name, text in parts})
    return found


def test_the_list(admin):
    data.resource()
    data.resource(name="customer:17", breaker_state="closed", limit=0)
    data.resource(name=PATTERN, limit=3, breaker_state="closed")
    for number in range(3):
        data.make(BlockedJob, resource="pay.example")
        data.running(resource="customer:17" if number else "pay.example")
    response = admin.get(list_url(Resource))
    pattern, customer, pay = cells(response)
    assert (pay["named"], pay["most"], pay["pace"], pay["used"]) == ("pay.example", "2", "100/PT1M", "1 / 2")
    assert (
        pay["standing"].startswith("open ")
        and pay["standing"].endswith(" s left")
        and pay["waits"] == "3"
        and pay["let_through"] == "4,711"
    )
    assert f"{list_url(BlockedJob)}?resource=pay.example" in response.content.decode()
    assert (customer["most"], customer["used"]) == ("none instead of 1", "2")
    assert customer["named"] == "customer:17 entry customer:*"
    assert (pattern["named"], pattern["most"]) == (PATTERN, "3 instead of 1")
    assert {pattern[name] for name in ("used", "waits", "standing", "let_through")} == {display.NONE}


def test_counts_in_the_list_end_early(admin, monkeypatch):
    monkeypatch.setattr(reports, "COUNTED", 2)
    data.resource()
    for _ in range(4):
        data.make(BlockedJob, resource="pay.example")
    (pay,) = cells(admin.get(list_url(Resource)))
    assert pay["waits"] == "2+"


@pytest.mark.usefixtures("stopped_time")
@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({}, "open 4"),
        ({"trial_time": datetime(2020, 1, 1, tzinfo=UTC)}, "half open"),
        ({"hold": "open"}, "held open"),
        ({"hold": "closed", "hold_until": datetime(2099, 1, 1, tzinfo=UTC)}, "held closed "),
        ({"hold": "open", "hold_until": datetime(2020, 1, 1, tzinfo=UTC), "breaker_state": "closed"}, "closed"),
    ],
)
def test_the_state_that_counts_now(admin, columns, said):
    data.resource(**columns)
    (pay,) = cells(admin.get(list_url(Resource)))
    assert pay["standing"].startswith(said)


def test_filters_by_the_state_that_counts_now(admin):
    later, before = datetime(2099, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)
    data.resource()
    data.resource(name="customer:1", breaker_state="closed", hold="open", hold_until=later)
    data.resource(name="customer:2", breaker_state="closed", hold="open", hold_until=before)
    data.resource(name="customer:3", hold="closed")
    data.resource(name="customer:4", trial_time=before)
    for state, names in (("open", ["customer:1", "pay.example"]), ("held", ["customer:1", "customer:3"])):
        assert [row["named"].split()[0] for row in cells(admin.get(list_url(Resource), {"state": state}))] == names
    assert len(cells(admin.get(list_url(Resource)))) == 5


def test_a_breaker_that_is_not_declared_is_not_shown(admin):
    data.resource(name="customer:17")
    data.resource(name="of another release")
    assert {each["standing"] for each in cells(admin.get(list_url(Resource)))} == {display.NONE}


def test_the_page(admin):
    row, holder = data.resource(breaker_state="half open", trials=1), data.running(resource="pay.example")
    content = admin.get(page_url(row)).content.decode()
    assert "12 of 20 calls failed" in content and "1 / 2" in content
    assert str(holder.pk)[-12:] in content and "worker-1" in content
    assert "There are more" not in content
    for _ in range(10):
        data.make(Job, resource="pay.example")
    assert "There are more" in admin.get(page_url(row)).content.decode()


def test_holders_are_told_apart_by_their_calls(admin):
    row, given = data.resource(), {"kwargs": {"order_id": 17, "card_password": "hush"}}
    data.running(resource="pay.example", handler_configuration=given)
    data.make(Job, resource="pay.example", handler_configuration={"kwargs": {"order_id": 18}})
    told = called(admin.get(page_url(row)).content.decode())
    assert told == ["charge_card(order_id=17, card_password=●●●)", "charge_card(order_id=18)"]
    statements = statements_of(admin, page_url(row))
    data.make(Job, resource="pay.example")
    assert statements_of(admin, page_url(row)) == statements


def field(admin, row, name):
    """The text of a field on the page of a row."""
    content = admin.get(page_url(row)).content.decode()
    (text,) = re.findall(rf'fieldBox field-{name}.*?<div class="readonly">(.*?)</div>', content, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


@pytest.mark.usefixtures("stopped_time")
def test_the_page_says_what_the_rate_allows(admin):
    row = data.resource(breaker_state="closed")
    assert field(admin, row, "allowed") == "1 of 1 now"
    Resource.objects.update(next_permit_time=clock.now() + timedelta(seconds=90))
    assert re.fullmatch(r"the next job on .* CES?T \(in 1 min 30 s\)", field(admin, row, "allowed"))
    assert field(admin, data.resource(name="customer:1"), "allowed") == display.NONE
    assert field(admin, data.resource(name=PATTERN, rate="9/PT1S"), "allowed") == display.NONE


def breaker_incident(minutes, lasted=None, **columns):
    """An incident of a breaker that opened so many minutes ago; without ``lasted`` it is still open."""
    begin = clock.now() - timedelta(minutes=minutes)
    ended = {} if lasted is None else {"state": "resolved", "end_time": begin + timedelta(minutes=lasted)}
    about = {"type": "breakerOpen", "resource": "pay.example", "message": "12 of 20 calls failed"}
    return Incident.objects.create(timestamp=begin, **{**about, **ended, **columns})


def done(minutes, verb, **columns):
    """An entry of the audit log about the resource."""
    about = {"object_type": "resource", "object_id": "pay.example", "tenant_id": None, "count": 0}
    moment = clock.now() - timedelta(minutes=minutes)
    return data.audit(timestamp=moment, verb=verb, **{**about, "old_value": None, "new_value": None, **columns})


def told(response):
    """The timeline of a page: the badges, the facts and the notes."""
    events = response.context["story"].events
    return [(re.sub(r"<[^>]+>", "", event.badge), *event.facts, *filter(None, [event.message])) for event in events]


@pytest.mark.usefixtures("stopped_time")
def test_the_timeline_shows_the_breaker_and_the_operators(admin):
    row = data.resource()
    before = breaker_incident(90, 30, message="ConnectionError: " + "x" * 200)
    now = breaker_incident(1, annotation="OPS-4711")
    admin.act(Resource, "set_limits", [row], limit="7", rate="")
    admin.act(Resource, "release", [row])  # closes the breaker, and with it its incident
    limited, released = AuditLog.objects.order_by("pk")
    AuditLog.objects.filter(pk=limited.pk).update(timestamp=clock.now() - timedelta(minutes=75))
    breaker_incident(5, resource="customer:1")
    done(3, "set_client_enabled", object_type="gatewayclient")  # has the same name
    refused = done(100, "hold_resource", object_type="", new_value={"refused": "only at night"})
    response = admin.get(page_url(row))
    assert told(response) == [
        ("closed", "it was open for 1 min"),
        (
            "admin",
            "release resource: breaker_state open → closed, trial_time "
            f"{released.old_value['trial_time']} → –, reason {row.reason} → –",  # noqa: RUF001 (nothing)
        ),
        ("open", "12 of 20 calls failed", "OPS-4711"),
        ("closed", "it was open for 30 min"),
        ("admin", "set resource limits: limit – → 7"),  # noqa: RUF001 (nothing)
        ("open", display.shortened(before.message, 160)),
        ("ann", "hold resource: refused only at night"),
    ]
    content = response.content.decode()
    places = [content.index(f'<a href="{page_url(each)}">') for each in (now, released, before, limited, refused)]
    assert places == sorted(places)
    assert f'"{list_url(AuditLog)}?q=pay.example"' in content
    incidents = admin.get(f"{list_url(Incident)}?resource=pay.example&state__exact=all")
    assert f'"{incidents.wsgi_request.get_full_path()}"'.replace("&", "&amp;") in content
    assert list(incidents.context["cl"].result_list) == [now, before]


@pytest.mark.usefixtures("stopped_time")
def test_the_timeline_shows_changes_to_the_entry_that_covers_the_resource(admin):
    row, pattern, other = (data.resource(name=name) for name in ("customer:17", PATTERN, "customer:1"))
    for changed, limit in ((pattern, "7"), (row, "8"), (other, "9")):
        admin.act(Resource, "set_limits", [changed], limit=limit, rate="")
    assert told(admin.get(page_url(row))) == [
        ("admin", f"set resource limits: limit {display.NONE} → 8"),
        ("admin", PATTERN, f"set resource limits: limit {display.NONE} → 7"),
    ]


def test_a_timeline_without_events_says_so(admin):
    assert "Nothing yet." in admin.get(page_url(data.resource())).content.decode()


@pytest.mark.usefixtures("stopped_time")
def test_the_timeline_shows_the_latest_events_only(admin, monkeypatch):
    monkeypatch.setattr(story, "SHOWN", 3)
    for minutes in (10, 20, 30, 40):
        breaker_incident(minutes, 5)
    done(14, "hold_resource")
    shown = [each[0] for each in told(admin.get(page_url(data.resource())))]
    assert shown == ["closed", "open", "ann"]


def test_each_part_of_the_timeline_needs_its_permission(staff):
    row, permissions = data.resource(), ("view_incident", "view_auditlog")
    breaker_incident(10, 5)
    done(20, "hold_resource")
    assert "jobexec-timeline" not in staff("view_resource", view=False).get(page_url(row)).content.decode()
    for permission, badges in zip(permissions, (["closed", "open"], ["ann"]), strict=True):
        assert [each[0] for each in told(staff("view_resource", permission, view=False).get(page_url(row)))] == badges


def test_the_page_costs_the_same_whatever_has_happened(admin):
    row = data.resource()
    url = page_url(row)
    statements_of(admin, url)
    few = statements_of(admin, url)
    for minutes in range(20):
        breaker_incident(minutes + 1, 0.5)
        done(minutes, "hold_resource")
    # session, user, the resource, its status (4), its incidents, what operators did, who has permits (3)
    assert statements_of(admin, url) == few <= 12


def test_who_may_not_see_jobs_does_not_see_who_has_permits(staff):
    row, holder = data.resource(), data.running(resource="pay.example")
    content = staff("view_resource", view=False).get(page_url(row)).content.decode()
    assert "pay.example" in content and "jobexec-holders" not in content and str(holder.pk) not in content


def test_a_pattern_has_limits_only(admin):
    row = data.resource(name=PATTERN)
    content = admin.get(f"{list_url(Resource)}{quote(PATTERN)}/change/").content.decode()
    assert re.findall(r'name="action" value="(\w+)"', content) == ["set_limits"]
    assert "jobexec-holders" not in content
    done(1, "set_resource_limits", object_id=PATTERN, new_value={"limit": 3})
    assert told(admin.get(page_url(row))) == [("ann", "set resource limits: limit 3")]
    response = admin.act(Resource, "hold_open", [row])
    (level, text), *_ = admin.told(response)
    assert level == "warning" and "expected a name that RESOURCES covers" in text


def test_limits_and_back_to_the_settings(admin):
    row = data.resource()
    admin.act(Resource, "set_limits", [row], limit="0", rate="5/PT1S")
    row.refresh_from_db()
    assert (row.limit, row.rate) == (0, "5/PT1S")
    asked = admin.act(Resource, "set_limits", [row], answered=False)
    assert asked.context["form"].initial == {"limit": 0, "rate": "5/PT1S"}
    response = admin.act(Resource, "set_limits", [row], limit="", rate="")
    row.refresh_from_db()
    assert (row.limit, row.rate) == (None, "")
    assert admin.told(response) == [("success", "1 resource has new limits.")]
    entry = AuditLog.objects.latest("pk")
    assert (entry.verb, entry.object_id, entry.operator) == ("set_resource_limits", "pay.example", "admin")


@pytest.mark.parametrize(
    ("action", "answers", "field"),
    [
        ("set_limits", {"limit": "-1"}, "limit"),
        ("set_limits", {"limit": "1000001"}, "limit"),
        ("set_limits", {"rate": "often"}, "rate"),
        ("hold_open", {"until": "2020-01-01T10:00:00"}, "until"),
        ("hold_closed", {"until": "soon"}, "until"),
    ],
)
def test_what_is_wrong_is_asked_again(admin, action, answers, field):
    row = data.resource()
    assert list(admin.act(Resource, action, [row], **answers).context["form"].errors) == [field]
    row.refresh_from_db()
    assert (row.limit, row.rate, row.hold) == (None, "", "")


def test_held_in_the_time_zone_of_the_site(admin):
    row = data.resource()
    response = admin.act(Resource, "hold_open", [row], until="2099-01-01T08:00:00")
    row.refresh_from_db()
    assert (row.hold, row.hold_until) == ("open", datetime(2099, 1, 1, 7, tzinfo=UTC))
    ((level, text),) = admin.told(response)
    assert level == "success" and text.startswith("1 resource is held open until ") and " 08:00:00" in text
    admin.act(Resource, "hold_closed", [row])
    row.refresh_from_db()
    assert (row.hold, row.hold_until) == ("closed", None)
    assert admin.told(admin.act(Resource, "release", [row]))[-1] == ("success", "1 resource released.")
    row.refresh_from_db()
    assert (row.hold, row.breaker_state, row.reason) == ("", "closed", "")


def test_the_form_names_the_time_zone(admin):
    asked = admin.act(Resource, "hold_open", [data.resource()], answered=False)
    assert "In the time zone Europe/Berlin." in asked.content.decode()
