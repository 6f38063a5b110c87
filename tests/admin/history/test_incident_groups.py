"""The page of the open incidents by group of failures: one line for thousands of them."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobexec import clock
from jobexec.models import Incident, IncidentState
from jobexec.operations.history.incidents import open_breaker_incident
from jobexec.operations.reports import failure_groups
from jobexec.operations.reports.failure_groups import similar_incidents

from .. import data
from ..conftest import list_url, page_url
from ..dashboard.test_dashboard import PAGE, group, incident

URL = "/admin/jobexec/jobdefinition/incidents/"


def rows(client):
    response = client.get(URL)
    assert response.status_code == 200
    return response.context["rows"]


def test_a_line_for_each_group_the_largest_first(admin):
    now = clock.now()
    failing = group(assigned_to="maria", acknowledged_at=now)
    for number in range(3):
        text = f"the {number}th"
        incident(fingerprint="f" * 32, timestamp=now - timedelta(minutes=10 * number, seconds=9), message=text)
    alone = incident(handler_type="shop.other")
    incident(state=IncidentState.RESOLVED, fingerprint="0" * 32)
    first, second = rows(admin)
    assert (first["count"], first["message"], first["assigned_to"]) == ("3", "the 0th", "maria")
    assert "20 min " in first["since"] and " min " not in first["latest"]
    assert (
        first["group_url"] == page_url(failing)
        and "acknowledged" in first["badge"]
        and first["group"] == "charge_card: GatewayTimeout"
    )
    assert (second["count"], second["url"], second["group_url"]) == ("1", page_url(alone), "")
    assert first["url"] == f"{list_url(Incident)}?fingerprint={'f' * 32}"
    assert admin.get(first["url"]).context["cl"].result_count == 3


def test_those_without_a_group_are_told_apart_by_handler_and_resource(admin):
    for handler in ("shop.pay", "shop.pay", "shop.other"):
        incident(handler_type=handler)
    open_breaker_incident("default", "pay.example", "5 failures")
    first, *others = rows(admin)
    assert (first["count"], first["url"]) == ("2", f"{list_url(Incident)}?handler=shop.pay")
    assert admin.get(first["url"]).context["cl"].result_count == 2
    assert {str(each["handler"]) for each in others} >= {"pay.example"} and len(others) == 2


def test_it_ends_and_says_so(admin, monkeypatch):
    content = admin.get(URL).content.decode()
    assert "No incidents." in content and "only the latest" not in content
    monkeypatch.setattr(failure_groups, "INCIDENTS_READ", 3)
    for _ in range(5):
        incident(fingerprint="f" * 32)
    assert [str(each["count"]) for each in rows(admin)] == ["3"]
    assert "only the latest" in admin.get(URL).content.decode()
    monkeypatch.undo()
    assert [each.count for each in similar_incidents("default", limit=1)[0]] == [5]


@pytest.mark.gate
def test_it_shows_the_largest_and_says_so(admin):
    for number in range(101):
        incident(handler_type=f"shop.{number}")
    assert len(rows(admin)) == 100
    content = admin.get(URL).content.decode()
    assert "only the first ones are shown" in content and "only the latest" not in content
    Incident.objects.filter(handler_type="shop.7").delete()
    assert "only the first ones are shown" not in admin.get(URL).content.decode()


def test_it_takes_the_same_statements_however_many_there_are(admin):
    def statements():
        with CaptureQueriesContext(connection) as captured:
            rows(admin)
        return len(captured)

    group()
    incident(fingerprint="f" * 32)
    few = statements()
    for number in range(20):
        incident(fingerprint=f"{number:032}", handler_type=f"shop.{number}")
    assert statements() == few


def test_what_is_wrong_and_the_list_lead_to_it(admin):
    data.dead_letter()
    incident()
    assert f'<a href="{URL}">1 incident is open.</a>' in admin.get(PAGE).content.decode()
    assert f'<a href="{URL}">' in admin.get(list_url(Incident)).content.decode()
    assert f'<a href="{list_url(Incident)}">' in admin.get(URL).content.decode()


@pytest.mark.parametrize(("permission", "status"), [("view_incident", 200), ("view_failuregroup", 403)])
def test_it_needs_the_view_of_incidents(staff, permission, status):
    assert staff(permission, view=False).get(URL).status_code == status


def test_groups_need_the_view_of_groups(staff):
    group(assigned_to="maria")
    incident(fingerprint="f" * 32)
    content = staff("view_incident", view=False).get(URL).content.decode()
    assert "maria" not in content and "failuregroup" not in content


class TestTenants:
    @pytest.fixture(autouse=True)
    def hook(self, settings):
        settings.JOBEXEC = {"ADMIN_TENANTS": f"{__name__}.only_acme"}

    def test_only_theirs_and_no_groups(self, admin):
        group(assigned_to="maria")
        for tenant in ("acme", "acme", "other"):
            incident(tenant_id=tenant, fingerprint="f" * 32, message=f"of {tenant}")
        (row,) = rows(admin)
        assert (row["count"], row["message"], row["group_url"]) == ("2", "of acme", "")
        assert admin.get(row["url"]).context["cl"].result_count == 2


def only_acme(request):
    return ["acme"]
