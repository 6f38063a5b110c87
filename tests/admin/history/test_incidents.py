"""Incidents and groups of failures: what needs a person, and how often it went wrong the same way."""

import re

import pytest
from django.urls import reverse

from jobexec import operations
from jobexec.conf.resources import BreakerProfile
from jobexec.models import DeadLetterJob, FailureGroup, Incident, IncidentState, Job, JobLog, Resource
from jobexec.operations.history.incidents import open_breaker_incident
from jobexec.operations.reports import counts, failure_groups
from jobexec.operations.resources.breaker import open_breaker
from tests.support.audit import audit_log

from .. import data
from ..conftest import called, list_url, page_url, statements_of


def shown(response):
    return [row.pk for row in response.context["cl"].result_list]


@pytest.mark.gate
def test_the_list_shows_open_incidents_unless_told_otherwise(admin):
    job = data.dead_letter()
    resolved = data.incident(job, state=IncidentState.RESOLVED)
    opened = data.incident(job)
    assert shown(admin.get(list_url(Incident))) == [opened.pk]
    assert shown(admin.get(list_url(Incident), {"state__exact": "open"})) == [opened.pk]
    assert shown(admin.get(list_url(Incident), {"state__exact": "resolved"})) == [resolved.pk]
    assert shown(admin.get(list_url(Incident), {"state__exact": "all"})) == [opened.pk, resolved.pk]


def test_rows_are_told_apart_by_the_calls_of_their_jobs(admin, staff):
    job = data.dead_letter(handler_configuration={"kwargs": {"order_id": 17, "card_password": "hush"}})
    data.incident(job)
    gone = data.incident(data.dead_letter())
    DeadLetterJob.objects.get(pk=gone.job_id).delete()
    open_breaker_incident("default", "bank", "5 failures in 60 s")
    calls = ["bank", "charge_card", "charge_card(order_id=17, card_password=●●●)"]
    assert sorted(called(admin.get(list_url(Incident)).content.decode())) == calls
    seen = staff("view_incident", view=False).get(list_url(Incident)).content.decode()
    assert sorted(called(seen)) == ["bank", "charge_card", "charge_card"], "without the permission to view the job"
    statements = statements_of(admin, list_url(Incident))
    for number in range(5):
        data.incident(data.dead_letter(handler_configuration={"kwargs": {"order_id": number}}))
    assert statements_of(admin, list_url(Incident)) == statements


def test_annotate(admin):
    incident = data.incident(data.dead_letter(), annotation="old")
    asked = admin.act(Incident, "annotate", [incident], answered=False)
    assert ">\nold</textarea>" in asked.content.decode()
    response = admin.act(Incident, "annotate", [incident], annotation="The gateway is down.")
    assert admin.told(response) == [("success", "1 incident annotated.")]
    assert Incident.objects.get().annotation == "The gateway is down."
    (entry,) = audit_log()
    assert (entry.old_value, entry.new_value) == ({"annotation": "old"}, {"annotation": "The gateway is down."})
    assert b"The gateway is down." in admin.get(list_url(Incident)).content
    admin.act(Incident, "annotate", [incident], annotation="")
    assert Incident.objects.get().annotation == ""


def test_several_have_no_annotation_in_common(admin):
    job = data.dead_letter()
    incidents = [data.incident(job, annotation=text) for text in ("one", "other")]
    asked = admin.act(Incident, "annotate", incidents, answered=False)
    assert asked.context["form"].initial == {}
    assert b"errorlist" in admin.act(Incident, "annotate", incidents, annotation="x" * 4001).content


def test_requeue_the_job_of_an_incident(admin):
    job, moved = data.dead_letter(), data.dead_letter()
    incident, late = data.incident(job), data.incident(moved)
    operations.requeue(moved)
    response = admin.act(Incident, "requeue", [incident, late], retries="4")
    told = admin.told(response)
    assert told[0] == ("success", "1 job requeued with 4 retries.")
    assert told[1][0] == "warning"
    assert "it is no longer in the list" in told[1][1]
    assert Job.objects.get(pk=job.pk).retries == 4
    assert Incident.objects.get(pk=incident.pk).state == IncidentState.RESOLVED
    assert [(entry.verb, entry.object_id) for entry in audit_log()] == [("requeue", str(job.pk))]


def test_incidents_are_on_the_page_of_their_job(admin, staff):
    job = data.dead_letter()
    incident = data.incident(job, annotation="Somebody looks at it.")
    content = admin.get(page_url(job)).content.decode()
    assert page_url(incident) in content
    assert "Somebody looks at it." in content
    assert page_url(FailureGroup(fingerprint=data.FINGERPRINT)) in content
    hidden = staff("view_deadletterjob", view=False).get(page_url(job)).content.decode()
    assert page_url(incident) not in hidden
    assert "Somebody looks at it." not in hidden
    assert page_url(FailureGroup(fingerprint=data.FINGERPRINT)) not in hidden


def test_a_group_leads_to_its_dead_letters(admin):
    mine, other = data.dead_letter(), data.dead_letter(fingerprint="f" * 32)
    data.log(mine, fingerprint=data.FINGERPRINT)
    group = data.failure_group(job_id=mine.pk)
    url = f"{list_url(DeadLetterJob)}?fingerprint={data.FINGERPRINT}"
    content = admin.get(page_url(group)).content.decode()
    assert url in content
    assert url in admin.get(list_url(FailureGroup)).content.decode()
    assert "1 (<a href=" in content
    assert "raise GatewayTimeout" in content
    assert shown(admin.get(url)) == [mine.pk]
    assert shown(admin.get(list_url(DeadLetterJob))) == [other.pk, mine.pk]


@pytest.mark.parametrize(
    ("columns", "title"),
    [
        ({"exception": "shop.gateway.GatewayTimeout"}, "charge_card: GatewayTimeout"),
        ({"exception": "", "message": f"no answer\nfrom {'x' * 80}"}, "charge_card: no answer"),
        ({"exception": "", "message": "m" * 80}, f"charge_card: {'m' * 60}"),
        ({"exception": "", "message": ""}, "charge_card"),
    ],
)
def test_a_group_has_the_same_title_wherever_it_is_named(admin, columns, title):
    group, dead = data.failure_group(**columns), data.dead_letter()
    data.incident(dead)
    subject = f"{reverse('admin:jobexec_subject', args=['handler'])}?name={group.handler_type}"
    board, of_incidents = "/admin/jobexec/", "/admin/jobexec/jobdefinition/incidents/"
    for url, times in ((board, 2), (subject, 1), (of_incidents, 1)):
        links = re.findall(rf'<a href="{page_url(group)}">([^<]*)</a>', admin.get(url).content.decode())
        assert [text.partition(" (dead letters")[0] for text in links] == [title] * times, url
    content = admin.get(page_url(group)).content.decode()
    assert f"<h2>{title}</h2>" in content, "the heading of its page"


@pytest.mark.parametrize("limit", [10000, 2])
def test_groups_are_listed_with_the_numbers_of_their_dead_letters(admin, monkeypatch, limit):
    for module in (failure_groups, counts):
        monkeypatch.setattr(module, "COUNT_LIMIT", limit)
    for number in range(3):
        data.failure_group(fingerprint=f"f{number}")
        for _ in range(number):
            data.dead_letter(fingerprint=f"f{number}")
    text = admin.get(list_url(FailureGroup)).content.decode()
    numbers = dict(re.findall(r'fingerprint=(\w+)">([^<]*)</a>', text))
    assert numbers == {"f1": "1", "f2": "2"}
    assert '<span class="jobexec-quiet">0</span>' in text


def test_a_group_has_its_title_in_the_list(admin):
    data.failure_group(message="no answer from pay.example")
    text = admin.get(list_url(FailureGroup)).content.decode()
    names = "shop.jobs.charge_card: shop.gateway.GatewayTimeout"
    assert f'<span title="{names}">charge_card: GatewayTimeout</span></a>' in text
    assert "no answer from pay.example" in text


@pytest.mark.parametrize("missing", ["view_joblog", "view_deadletterjob"])
def test_the_stack_of_a_group_needs_a_look_at_the_jobs(staff, missing):
    job = data.dead_letter()
    data.log(job, fingerprint=data.FINGERPRINT)
    group = data.failure_group(job_id=job.pk)
    views = {"view_failuregroup", "view_joblog", "view_deadletterjob"}
    assert "raise GatewayTimeout" in staff(*views, view=False).get(page_url(group)).content.decode()
    assert "raise GatewayTimeout" not in staff(*(views - {missing}), view=False).get(page_url(group)).content.decode()


def test_a_group_whose_jobs_are_gone(admin):
    assert admin.get(page_url(data.failure_group(job_id=None))).status_code == 200
    JobLog.objects.all().delete()
    assert admin.get(page_url(data.failure_group(fingerprint="other", job_id=Job().pk))).status_code == 200


@pytest.mark.gate
def test_filters_by_a_text_keep_the_other_parameters(admin):
    for tenant in ("acme", "beta"):
        data.dead_letter(tenant_id=tenant, process_definition_key="payment")
    response = admin.get(list_url(DeadLetterJob), {"tenant": "acme", "fingerprint": data.FINGERPRINT, "q": "shop"})
    assert len(shown(response)) == 1
    content = response.content.decode()
    assert '<input type="hidden" name="q" value="shop">' in content
    assert f'<input type="hidden" name="fingerprint" value="{data.FINGERPRINT}">' in content
    assert len(shown(admin.get(list_url(DeadLetterJob), {"process_definition": "payment"}))) == 2
    assert (
        "process definition"
        not in admin.get(list_url(DeadLetterJob)).content.decode().lower().split("changelist-filter")[1]
    )


def test_that_of_a_breaker_leads_to_its_resource(admin):
    resource = data.resource()
    open_breaker_incident("default", resource.pk, "12 of 20 calls failed")
    row = Incident.objects.get()
    for response in (admin.get(list_url(Incident)), admin.get(page_url(row))):
        text = response.content.decode()
        assert resource.pk in text and page_url(resource) in text and "12 of 20 calls failed" in text
    told = admin.told(admin.act(Incident, "requeue", [row], retries="4"))
    assert "it belongs to a circuit breaker and ends" in told[-1][1]
    assert Incident.objects.get().state == IncidentState.OPEN
    admin.act(Incident, "annotate", [row], annotation="They know.")
    assert Incident.objects.get().annotation == "They know."


def test_the_dashboard_names_an_open_breaker(admin, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "RESOURCES": {"pay.example": {"breaker": "fast"}}}
    open_breaker("default", "pay.example", BreakerProfile(), "12 of 20 calls failed")
    text = admin.get(reverse("admin:app_list", args=["jobexec"])).content.decode()
    assert "The circuit breaker of pay.example is open: 12 of 20 calls failed" in text
    assert list_url(Resource) in text


def test_the_buttons_of_a_closed_incident_are_about_it(admin):
    incident = data.incident(data.dead_letter(), state="resolved", annotation="It was the bank.")
    content = admin.get(page_url(incident)).content.decode()
    assert 'value="annotate"' in content and 'value="requeue"' not in content
    asked = admin.act(Incident, "annotate", [incident], answered=False, _from_page="1").content.decode()
    assert "It was the bank." in asked
    admin.act(Incident, "annotate", [incident], _from_page="1", annotation="It was the network.")
    assert Incident.objects.get().annotation == "It was the network."
