"""The pages of a handler, a category, a tenant and a process instance, and of what runs now."""

import re
from datetime import timedelta
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.urls import reverse

from jobexec import clock, operations
from jobexec.admin.common import display
from jobexec.models import (
    AuditLog,
    Batch,
    BlockedJob,
    DeadLetterJob,
    ExclusiveLock,
    Job,
    JobDefinition,
    JobLog,
    JobProgress,
    LogState,
    MeterLog,
    Suspension,
    TimerJob,
)
from jobexec.operations.reports import subjects
from jobexec.operations.reports.meters import flush_meters
from jobexec.operations.reports.subjects import counts_of_subjects
from jobexec.operations.values.histogram import KEYS
from tests.admin import data
from tests.admin.conftest import called, list_url, page_url, statements_of

HANDLER = "shop.jobs.charge_card"
INSTANCE = "order-4711"
CALL = {"kwargs": {"order_id": 17, "card_password": "hush"}}


def subject(kind, name, **query):
    return f"{reverse('admin:jobexec_subject', args=[kind])}?{urlencode({'name': name, **query})}"


def instance(id=INSTANCE, **query):
    return f"{reverse('admin:jobexec_instance')}?{urlencode({'id': id, **query})}"


RUNNING = "/admin/jobexec/executornode/running/"


def text_of(client, url):
    response = client.get(url)
    assert response.status_code == 200, url
    return response.content.decode()


@pytest.fixture
def meters(db):
    runs = [5 if key == "1024" else 0 for key in KEYS] + [2]
    flush_meters("default", "n1", counts_of_subjects({(HANDLER, "default", "acme"): runs}), clock.now())


class TestSubject:
    def test_of_a_handler(self, admin, meters):
        JobDefinition.objects.create(id=HANDLER, handler_type=HANDLER, category="default", retry_plan="R5/PT5M")
        dead = data.dead_letter_with_log()
        group = data.failure_group()
        data.incident(dead, fingerprint=group.pk)
        data.make(Job)
        data.running()
        text = text_of(admin, subject("handler", HANDLER))
        assert "<strong>5</strong> succeeded" in text
        assert "<strong>2</strong> attempts failed" in text
        assert "50 % within" in text
        assert "R5/PT5M" in text
        assert page_url(group) in text
        assert f"{list_url(DeadLetterJob)}?handler_type={HANDLER}" in text
        assert f"…{str(dead.pk)[-12:]}" in text, "its last runs"
        add = f"{list_url(Suspension)}add/?{urlencode({'scope': 'job_definition_id', 'value': HANDLER})}"
        assert add.replace("&", "&amp;") in text

    def test_without_a_plan_of_its_own_a_handler_has_the_default_one(self, admin, settings):
        settings.JOBEXEC = {"DEFAULT_RETRY_PLAN": "R7/PT3S"}
        JobDefinition.objects.create(id=HANDLER, handler_type=HANDLER, category="default")
        assert "R7/PT3S, the default" in text_of(admin, subject("handler", HANDLER))

    @pytest.mark.parametrize(("kind", "name"), [("handler", HANDLER), ("category", "default")])
    def test_its_last_runs_are_told_apart_by_their_calls(self, admin, staff, kind, name):
        there, gone = data.dead_letter(handler_configuration=CALL), data.dead_letter()
        data.log(there)
        data.log(gone)
        gone.delete()
        told = {"handler": [], "category": ["charge_card"]}[kind]
        call = "charge_card(order_id=17, card_password=●●●)"
        assert sorted(called(text_of(admin, subject(kind, name)))) == [*told, call]
        text = text_of(staff("view_joblog", view=False), subject(kind, name))
        assert called(text) == told * 2, "who may not view the job does not see its arguments"
        statements = statements_of(admin, subject(kind, name))
        data.log(data.dead_letter())
        assert statements_of(admin, subject(kind, name)) == statements

    def test_its_tiles_say_about_how_many_jobs_wait_behind_those_counted(self, admin, monkeypatch):
        monkeypatch.setattr(subjects, "COUNT_LIMIT", 1)
        monkeypatch.setattr(subjects, "estimated", lambda rows: 52_345 if rows.model is TimerJob else None)
        for table in (TimerJob, BlockedJob, DeadLetterJob):
            for handler in ("shop.other", "shop.other", HANDLER):
                data.make(table, handler_type=handler)
        text = text_of(admin, subject("handler", HANDLER))
        tiles = re.findall(r'name">([^<]+)</span> <span class="jobexec-tile-count">([^<]+)<', text)
        assert tiles[2:] == [("Timer jobs", "≈52,300"), ("Dead letter jobs", "0+")], "and none of blocked jobs"
        assert text.count("jobexec-tile-none") == 3

    def test_the_resources_of_its_jobs_and_of_its_code(self, admin, staff, settings, handle):
        def panel(client, handler=HANDLER):
            text = text_of(client, subject("handler", handler)).partition('id="jobexec-resources"')[2]
            rows = text.partition("</table>")[0].partition("<tbody>")[2].split("</tr>")[:-1]
            return [[" ".join(cell.split()) for cell in re.findall(r">([^<>]+)<", row)] for row in rows]

        pay = {"limit": 2, "rate": "100/PT1M", "breaker": "fast"}
        settings.JOBEXEC = {"RESOURCES": {"pay.example": pay, "bank": {"limit": 1}}}
        data.resource()
        data.running(resource="pay.example")
        for resource in ("pay.example", "pay.example", "bank"):
            data.make(BlockedJob, resource=resource)
        data.make(BlockedJob, resource="bank", handler_type="shop.other")
        none = display.NONE
        paying = ["pay.example", "2", "100/PT1M", "1", "2", "open"]
        assert panel(admin) == [paying, ["bank", "1", none, "0", "2", none]]
        assert [row[0] for row in panel(admin, "shop.other")] == ["bank"]
        assert panel(admin, "shop.of_none") == []

        def collect(order: int) -> None: ...

        handle(collect, "shop.collect", resource="bank", category="mail")
        assert panel(admin, "shop.collect") == [["bank", "1", none, "0", "2", none]], "none of its jobs waits"
        assert panel(staff("view_job", view=False)) == [], "it needs the permission to view resources"
        settings.JOBEXEC = {}
        assert panel(admin) == []

    @pytest.mark.parametrize(("kind", "scope"), [("category", "category"), ("tenant", "tenant_id")])
    def test_of_a_category_and_a_tenant(self, admin, meters, kind, scope):
        name = {"category": "default", "tenant": "acme"}[kind]
        data.make(TimerJob, tenant_id="acme", due_date=clock.now() + timedelta(hours=1))
        operations.suspend(**{scope: name})
        text = text_of(admin, subject(kind, name, period="day"))
        assert "<strong>5</strong> succeeded" in text
        assert ("jobexec-backlog-heading" in text) is (kind == "category")
        assert page_url(Suspension.objects.get()) in text, "where it can be lifted"
        assert "add/?scope" not in text

    def test_says_that_nodes_count_the_busiest_only(self, admin, meters, settings):
        said = "Each node counts the {} with the most runs; runs of other"
        assert said.format("50 handlers") in text_of(admin, subject("handler", HANDLER))
        assert said.format("20 tenants") in text_of(admin, subject("tenant", "acme"))
        assert "Each node counts" not in text_of(admin, subject("category", "default")), "all of a few categories"
        settings.JOBEXEC = {"CATEGORIES": ["default", *(f"c{number}" for number in range(50))]}
        assert said.format("50 categories") in text_of(admin, subject("category", "default"))

    def test_what_a_user_may_not_see_is_left_out(self, staff, meters):
        data.dead_letter_with_log()
        data.failure_group()
        assert staff(view=False).get(subject("handler", HANDLER)).status_code == 403
        text = text_of(staff("view_deadletterjob", view=False), subject("handler", HANDLER))
        assert "Dead letter" in text
        for part in ("jobexec-flow", "jobexec-groups", "jobexec-runs", "jobexec-definitions", "Suspend…"):
            assert part not in text
        assert "jobexec-flow" in text_of(staff("view_meterlog", view=False), subject("handler", HANDLER))

    @pytest.mark.parametrize("url", ["/of/handler/", "/of/nothing/?name=x", "/of/tenant/?name=%00"])
    def test_of_nothing(self, admin, url):
        assert admin.get(f"/admin/jobexec/jobdefinition{url}").status_code == 404

    @pytest.mark.gate
    def test_a_tenant_has_its_limit_on_each_node(self, admin, settings):
        settings.JOBEXEC = {**settings.JOBEXEC, "TENANT_CONCURRENCY": {"acme": 3}}
        told = "Each node holds at most 3 jobs of this tenant at the same time"
        assert told in text_of(admin, subject("tenant", "acme"))
        assert "Each node holds" not in text_of(admin, subject("tenant", "other"))

    def test_a_user_of_some_tenants_sees_theirs(self, staff, meters, settings):
        settings.JOBEXEC = {"ADMIN_TENANTS": "tests.admin.tenants.of_user"}
        data.make(Job, tenant_id="acme")
        data.make(Job, tenant_id="other")
        client = staff("view_meterlog")
        user = client.get("/admin/").wsgi_request.user
        user.last_name = "acme"
        user.save()
        assert client.get(subject("tenant", "other")).status_code == 404
        assert "<strong>5</strong> succeeded" in text_of(client, subject("tenant", "acme"))
        text = text_of(client, subject("handler", HANDLER))
        assert "jobexec-flow" not in text, "meters are of all tenants"
        assert '<span class="jobexec-tile-count">1</span>' in text
        assert client.get(instance(tenant="other")).status_code == 404
        data.make(Job, tenant_id="other", process_instance_id="theirs")
        assert client.get(instance("theirs")).status_code == 404


class TestInstance:
    def test_it_has_everything(self, admin):
        dead = data.dead_letter_with_log()
        data.incident(dead, message="the card was refused")
        data.log(dead, state=LogState.SUCCESSFUL, minutes_ago=1, duration=2.0, exception_message="")
        timer = data.make(TimerJob, due_date=clock.now() + timedelta(hours=1))
        data.make(Job, process_instance_id="another")
        running = data.running()
        since = (clock.now() - timedelta(minutes=2)).isoformat()
        data.node(running=[{"job": str(running.pk), "handler": HANDLER, "since": since, "thread": "t-1"}])
        text = text_of(admin, instance())
        for row in (dead, timer, running):
            assert str(row.pk) in text
        assert "the card was refused" in text
        assert text.count("jobexec-fill-bad") == 3
        assert text.count("jobexec-fill-ok") == 1
        assert "running for 2 min" in text
        assert "without a run" in text, "the pauses between the attempts are cut"
        assert "add/?scope=process_instance_id&amp;value=order-4711" in text
        operations.suspend(process_instance_id=INSTANCE)
        assert page_url(Suspension.objects.get()) in text_of(admin, instance())

    def test_its_rows_are_told_apart_by_their_calls(self, admin, staff):
        dead = data.dead_letter_with_log()
        dead.handler_configuration = CALL
        dead.save()
        data.incident(dead)
        assert set(called(text_of(admin, instance()))) == {"charge_card(order_id=17, card_password=●●●)"}
        seen = text_of(staff("view_incident", "view_joblog", view=False), instance())
        assert set(called(seen)) == {"charge_card"}, "who may not view the job does not see its arguments"
        statements = statements_of(admin, instance())
        for number in range(5):
            data.incident(data.dead_letter(handler_configuration={"kwargs": {"order_id": number}}))
        assert statements_of(admin, instance()) == statements

    def test_lists_and_pages_lead_there(self, admin):
        job = data.dead_letter_with_log()
        data.incident(job)
        ExclusiveLock.objects.create(process_instance_id="\x1forder-4711", lock_owner="n:1", acquisition=uuid4())
        url = instance(tenant="").replace("&", "&amp;")
        incident = data.incident(job)
        for page in (list_url(DeadLetterJob), list_url(JobLog), list_url(type(incident)), page_url(job)):
            assert f'href="{url}"' in text_of(admin, page), page
        assert subject("handler", HANDLER) in text_of(admin, page_url(incident))

    def test_its_jobs_are_cancelled_after_a_question(self, admin):
        data.make(Job)
        data.make(TimerJob, due_date=clock.now() + timedelta(hours=1))
        other = data.make(Job, process_instance_id="another")
        dead = data.dead_letter()
        asked = admin.post(instance(), {})
        assert f"{HANDLER}: 2" in asked.content.decode()
        assert "Jobs of the process instance order-4711: 2" in asked.content.decode()
        assert Job.objects.count() == 2
        done = admin.post(instance(), {"_apply": "1"})
        assert done["Location"] == instance()
        assert list(Job.objects.all()) == [other]
        assert not TimerJob.objects.exists()
        assert DeadLetterJob.objects.get() == dead
        assert [(row.verb, row.operator, row.count) for row in AuditLog.objects.all()] == [("cancel", "admin", 2)]

    def test_the_instance_of_an_app_is_cancelled_by_that_app(self, admin, monkeypatch):
        monkeypatch.setattr("jobexec.admin.pages.instance.INSTANCE_PAGES", [lambda *asked: "its own page"])
        data.make(Job)
        text = text_of(admin, instance())
        assert "its own page" in text
        assert "Cancel its jobs" not in text
        response = admin.post(instance(), {"_apply": "1"})
        assert admin.told(response) == [("error", "Its jobs drive it forward: cancel it on its own page.")]
        assert Job.objects.count() == 1

    def test_a_batch_cancels_very_many(self, admin, monkeypatch):
        monkeypatch.setattr("jobexec.admin.pages.instance.BATCH_ABOVE", 2)
        for _ in range(3):
            data.make(Job)
        assert admin.post(instance(), {"_apply": "1"}).status_code == 302
        assert Batch.objects.get().type == "cancel"

    def test_cancelling_needs_its_permission(self, staff):
        data.make(Job)
        assert staff().post(instance(), {"_apply": "1"}).status_code == 403
        assert "Cancel its jobs" not in text_of(staff(), instance())
        assert staff("cancel_job", view=False).post(instance(), {"_apply": "1"}).status_code == 403
        assert Job.objects.count() == 1
        assert staff("cancel_job").post(instance(), {"_apply": "1"}).status_code == 302
        assert not Job.objects.exists()

    def test_who_may_see_it(self, staff):
        data.dead_letter_with_log()
        assert staff(view=False).get(instance()).status_code == 403
        text = text_of(staff("view_joblog", view=False), instance())
        assert "jobexec-log" in text
        assert 'id="jobexec-jobs"' not in text
        assert "add/?scope" not in text
        assert staff().get("/admin/jobexec/jobdefinition/instance/").status_code == 404


class TestRunningNow:
    def test_what_nodes_have_reported(self, admin):
        job = data.running()
        JobProgress.objects.create(job_id=job.pk, attempt=1, done=30, total=120, update_time=clock.now())
        since = (clock.now() - timedelta(minutes=3)).isoformat()
        reported = {"job": str(job.pk), "handler": HANDLER, "category": "mail", "since": since, "thread": "worker_3"}
        data.node(running=[reported, {"job": "odd"}, "odd"])
        text = text_of(admin, RUNNING)
        assert "worker_3" in text
        assert "3 min" in text
        assert "30 / 120" in text
        assert subject("handler", HANDLER) in text
        assert "add/?scope=category&amp;value=default" in text

    def test_runs_are_told_apart_by_their_calls(self, admin, staff):
        job = data.running(handler_configuration=CALL)
        reported = {"handler": HANDLER, "since": clock.now().isoformat(), "thread": "t"}
        node = data.node(running=[{**reported, "job": str(job.pk)}, {**reported, "job": str(uuid4())}])
        assert called(text_of(admin, RUNNING)) == ["charge_card(order_id=17, card_password=●●●)", "charge_card"]
        statements = statements_of(admin, RUNNING)
        node.running += [{**reported, "job": str(data.running().pk)} for _ in range(5)]
        node.save()
        assert statements_of(admin, RUNNING) == statements

    def test_its_script_asks_for_the_changing_part(self, admin):
        node = data.node()
        assert 'data-url="?body=1"' in text_of(admin, RUNNING)
        text = text_of(admin, f"{RUNNING}?body=1")
        assert node.name in text
        assert "<html" not in text

    def test_a_category_is_paused_there(self, admin):
        add = f"{list_url(Suspension)}add/"
        answers = {"scope": "category", "value": "default", "include_jobs": "on", "_confirmed": "1"}
        assert admin.post(add, answers).status_code == 302
        assert page_url(Suspension.objects.get()) in text_of(admin, RUNNING)

    def test_it_needs_the_permission_to_view_nodes(self, staff):
        job = data.running()
        data.node(running=[{"job": str(job.pk), "handler": HANDLER, "since": clock.now().isoformat(), "thread": "t"}])
        assert staff(view=False).get(RUNNING).status_code == 403
        assert HANDLER not in text_of(staff("view_executornode", view=False), RUNNING)


@pytest.mark.gate
def test_the_dashboard_splits_its_traffic(admin, meters):
    flush_meters("default", "n1", {("job-successful", HANDLER): 5, ("job-backlog", "default"): 4}, clock.now())
    flush_meters("default", "n1", {("job-backlog-samples", ""): 1}, clock.now())
    assert MeterLog.objects.count() > 3
    for by, named in (("handler", subject("handler", HANDLER)), ("category", subject("category", "default"))):
        text = text_of(admin, f"/admin/jobexec/?by={by}")
        assert named in text
        assert "jobexec-part-0" in text
    assert "jobexec-part-0" in text_of(admin, "/admin/jobexec/?by=node")
    assert "at most 4, now 4" in text_of(admin, "/admin/jobexec/")


def test_the_dashboard_says_that_nodes_count_the_busiest_categories_only(admin, meters, settings):
    said = "Each node counts the 50 categories with the most runs; runs of the rest are among the others."
    assert said not in text_of(admin, "/admin/jobexec/?by=category")
    settings.JOBEXEC = {"CATEGORIES": ["default", *(f"c{number}" for number in range(50))]}
    assert said in text_of(admin, "/admin/jobexec/?by=category")
    assert said not in text_of(admin, "/admin/jobexec/?by=handler")
