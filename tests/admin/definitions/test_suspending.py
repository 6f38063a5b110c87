"""A person suspends a customer, a process instance or a definition, and sees first how much that is."""

from datetime import UTC, datetime

import pytest

from jobexec.models import Job, JobDefinition, SuspendedJob, Suspension, SuspensionScope, TimerJob
from jobexec.models.suspension import columns_of
from tests.support.audit import audit_log

from .. import data
from ..conftest import list_url

URL = "/admin/jobexec/suspension/add/"
TENANT = {"scope": "tenant_id", "value": "acme", "include_jobs": "on"}


def test_it_asks_what_then_shows_how_much_then_does_it(admin):
    mine = data.make(Job, tenant_id="acme")
    data.make(TimerJob, tenant_id="acme", due_date=datetime(2099, 1, 1, tzinfo=UTC))
    data.make(Job, tenant_id="beta")
    assert b'name="value"' in admin.get(URL).content
    asked = admin.post(URL, TENANT)
    assert [int(table["count"]) for table in asked.context["affected"]] == [1, 1, 0, 0]
    assert asked.context["meant"] == ["shop.jobs.charge_card of tenant acme: 2"]
    assert not Suspension.objects.exists()
    response = admin.post(URL, {**TENANT, "_confirmed": "1"})
    assert response["Location"] == list_url(Suspension)
    assert admin.told(response)[0][1] == "Tenant acme suspended; 2 jobs moved to the suspended jobs."
    assert SuspendedJob.objects.count() == 2
    assert mine.pk in set(SuspendedJob.objects.values_list("pk", flat=True))
    (entry,) = audit_log()
    assert (entry.verb, entry.object_type, entry.object_id, entry.count) == ("suspend", "suspension", "acme", 2)
    assert (entry.scope, entry.tenant_id) == ({"tenant_id": "acme"}, "acme")


def test_with_dates_and_without_existing_jobs(admin, settings):
    settings.TIME_ZONE = "Europe/Berlin"
    data.make(Job, tenant_id="acme")
    answers = {"scope": "tenant_id", "value": "acme", "until": "2099-07-02T10:00:00"}
    asked = admin.post(URL, answers)
    assert b"Existing jobs are not affected." in asked.content
    hidden = {field.name: field.value() for field in asked.context["form"] if field.value() not in (None, "")}
    admin.post(URL, {**hidden, "_confirmed": "1"})
    suspension = Suspension.objects.get()
    assert not suspension.include_jobs
    assert suspension.activate_time == datetime(2099, 7, 2, 8, tzinfo=UTC)
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"scope": "tenant_id"},
        {"scope": "id", "value": "x"},
        {"scope": "handler_type", "value": "x"},
        {**TENANT, "until": "2001-01-01T00:00:00"},
        {**TENANT, "value": "x" * 256},
    ],
)
def test_a_wrong_answer_is_asked_again(admin, answers):
    response = admin.post(URL, {**answers, "_confirmed": "1"})
    assert response.status_code == 200
    assert b"errorlist" in response.content
    assert not Suspension.objects.exists()


@pytest.mark.parametrize("scope", [scope for scope in SuspensionScope.values if scope != "id"])
def test_every_scope(admin, scope):
    columns = dict.fromkeys(columns_of(scope), "it")
    job = data.make(Job, **{**columns, "process_instance_id": "it"})
    tenant = columns["tenant_id"] if len(columns) > 1 else ""
    answers = {"scope": scope, "value": "it", "tenant": tenant, "include_jobs": "on"}
    assert admin.post(URL, answers).context["affected"][0]["count"] == 1
    admin.post(URL, {**answers, "_confirmed": "1"})
    assert SuspendedJob.objects.get().pk == job.pk
    assert len(audit_log()) == 1 and admin.get(list_url(Suspension)).status_code == 200


def test_only_the_definition_of_a_tenant_has_a_tenant_beside_it(admin):
    admin.post(URL, {**TENANT, "tenant": "beta", "_confirmed": "1"})
    assert not Suspension.objects.exists()


def test_definitions_tell_that_they_are_suspended(admin):
    pay = JobDefinition.objects.create(id="tests.pay", handler_type="tests.pay", category="default")
    job = data.make(Job, job_definition_id="tests.pay")
    admin.act(JobDefinition, "suspend", [pay])
    assert Job.objects.get().pk == job.pk  # without "include existing jobs"
    assert "suspended</span>" in admin.get(list_url(JobDefinition)).content.decode()
    admin.act(JobDefinition, "suspend", [pay], include_jobs="on")
    assert SuspendedJob.objects.get().pk == job.pk
    response = admin.act(JobDefinition, "activate", [pay], at="2099-07-01T10:00:00")
    assert admin.told(response)[-1] == ("success", "The suspension of 1 definition ends 07/01/2099 10:00:00 UTC.")
    response = admin.act(JobDefinition, "activate", [pay])
    assert admin.told(response)[-1] == ("success", "1 definition activated.")
    assert Job.objects.get().pk == job.pk
    assert "active</span>" in admin.get(list_url(JobDefinition)).content.decode()


def test_the_question_of_a_definition_says_whose_jobs_it_means(admin):
    definition = JobDefinition.objects.create(id="pay", handler_type="pay", category="default")
    for tenant in ("acme", "acme", "beta"):
        data.make(Job, handler_type="pay", job_definition_id="pay", tenant_id=tenant)
    data.make(TimerJob, handler_type="pay", job_definition_id="pay", tenant_id="acme", due_date=datetime.now(UTC))
    data.dead_letter(handler_type="pay", job_definition_id="pay")
    data.make(Job, handler_type="ship", job_definition_id="ship")
    asked = admin.act(JobDefinition, "suspend", [definition], answered=False)
    assert asked.context["meant"] == ["pay of tenant acme: 3", "pay of tenant beta: 1"]
    asked = admin.act(JobDefinition, "set_retries", [definition], answered=False)
    assert asked.context["meant"] == ["pay: 1"]
