"""Who may see the audit log, and what it shows."""

from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from jobexec import clock, operations
from jobexec.admin.history.audit_log import changed
from jobexec.models import AuditLog, DeadLetterJob, Job, OperatorType, Suspension
from jobexec.operations.audit import acting
from jobexec.operations.manage.gateway_clients import set_client_enabled
from jobexec.operations.schedules.manage import set_enabled
from jobexec.operations.values.operator import Operator
from tests.support.audit import audit_log

from .. import data
from ..conftest import list_url, page_url


def found(admin, **query):
    return [entry.pk for entry in admin.get(list_url(AuditLog), query).context["cl"].result_list]


@pytest.mark.gate
def test_search_and_filters(admin):
    old = data.audit(timestamp=clock.now() - timedelta(days=9), object_id="a", operator="ben")
    new = data.audit(object_id="b", operator_type="command", via="jobs retry", origin="host-1", verb="retry_now")
    assert found(admin) == [new.pk, old.pk]
    assert found(admin, q="a") == found(admin, q="ben") == found(admin, operator="ben") == [old.pk]
    assert found(admin, q="host-1") == found(admin, verb="retry_now") == [new.pk]
    assert found(admin, operator_type__exact="command") == [new.pk]
    since = clock.now() - timedelta(days=1)
    assert found(admin, timestamp__range__gte_0=f"{since:%Y-%m-%d}", timestamp__range__gte_1="00:00:00") == [new.pk]
    assert "priority 0 → 7" in admin.get(list_url(AuditLog)).content.decode()


@pytest.mark.gate
def test_a_job_is_found_among_others_that_were_changed_with_it(admin):
    jobs = [data.make(Job) for _ in range(3)]
    admin.act(Job, "set_priority", jobs, priority="8")
    (entry,) = audit_log()
    assert found(admin, q=str(jobs[1].pk)) == [entry.pk]
    events = admin.get(page_url(jobs[1])).context["story"].events
    assert ("set priority: priority 8",) in [event.facts for event in events]


def test_nobody_edits_it(admin):
    row = data.audit()
    page = admin.get(page_url(row))
    assert page.status_code == 200 and b'name="_save"' not in page.content
    assert admin.post(page_url(row), {"verb": "other"}).status_code == 403
    assert admin.get(f"{list_url(AuditLog)}add/").status_code == 403
    assert admin.post(f"{list_url(AuditLog)}{row.pk}/delete/", {"post": "yes"}).status_code == 403


def test_it_needs_a_permission_of_its_own_also_on_the_page_of_a_job(staff):
    job = data.dead_letter()
    data.audit(object_id=str(job.pk))
    looker = staff("view_deadletterjob", view=False)
    assert looker.get(list_url(AuditLog)).status_code == 403
    assert b"set priority" not in looker.get(page_url(job)).content
    auditor = staff("view_deadletterjob", "view_auditlog", view=False)
    assert auditor.get(list_url(AuditLog)).status_code == 200
    assert b"set priority" in auditor.get(page_url(job)).content


def test_the_history_of_a_row_leads_there(admin):
    job = data.dead_letter()
    assert admin.get(f"{list_url(DeadLetterJob)}{job.pk}/history/").url == f"{list_url(AuditLog)}?q={job.pk}"
    other = data.make(Job)
    assert admin.get(f"{list_url(DeadLetterJob)}{other.pk}/history/").status_code == 404


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (data.gateway_client, lambda row: set_client_enabled("default", row.name, False)),
        (data.schedule, lambda row: set_enabled("default", row.name, not row.enabled)),
        (
            lambda: Suspension.objects.create(scope="tenant_process_definition", value="acme\x1finvoice"),
            lambda row: operations.lift(row, at=clock.now() + timedelta(days=1)),
        ),
    ],
    ids=["client", "schedule", "suspension"],
)
def test_it_leads_to_the_changes_of_what_is_known_by_a_name(admin, make, change):
    row = make()
    with acting(Operator(OperatorType.USER, "ann")):
        change(row)
    (entry,) = audit_log()
    assert found(admin, **search_of(admin.get(f"{list_url(type(row))}{row.pk}/history/"))) == [entry.pk]


def search_of(redirect):
    return {name: values[0] for name, values in parse_qs(urlsplit(redirect.url).query).items()}


def test_who_sees_some_tenants_sees_what_was_done_to_them(admin, settings):
    settings.JOBEXEC = {"ADMIN_TENANTS": "tests.admin.history.test_audit_log.only_acme"}
    mine = data.audit(tenant_id="acme")
    data.audit(tenant_id="beta")
    data.audit(tenant_id=None, count=2)
    data.audit(tenant_id="")
    assert found(admin) == [mine.pk]


def only_acme(request):
    return {"acme"}


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ({"limit": None, "rate": ""}, {"limit": 7, "rate": ""}, "limit – → 7"),  # noqa: RUF001 (nothing)
        ({"rate": "5/PT1S"}, {"rate": ""}, "rate 5/PT1S → –"),  # noqa: RUF001 (nothing)
        ({"limit": 7}, {"limit": 0}, "limit 7 → 0"),
        ({"limit": 7}, {"limit": 7}, "limit 7 → 7"),
        (None, {"limit": None}, "limit –"),  # noqa: RUF001 (nothing)
        ({"enabled": True}, {"enabled": False}, "enabled true → false"),
    ],
)
def test_what_has_changed_in_one_line(old, new, text):
    assert changed(AuditLog(old_value=old, new_value=new)) == text


def test_the_address_and_the_user_of_a_change(admin):
    job = data.make(Job)
    admin.act(Job, "set_priority", [job], priority="8", REMOTE_ADDR="x")
    (entry,) = audit_log()
    assert (entry.operator_type, entry.operator, entry.via, entry.origin) == ("user", "admin", "admin", "127.0.0.1")
