"""The page of one row."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobexec import clock, operations
from jobexec.admin.common import display
from jobexec.admin.jobs.page import JobTableAdmin
from jobexec.models import (
    JOB_TABLES,
    AuditLog,
    BlockedJob,
    DeadLetterJob,
    ExclusiveLock,
    ExecutorNode,
    ExternalWorkerJob,
    GatewayClient,
    Job,
    JobLog,
    LogState,
    Schedule,
    SuspendedJob,
    TimerJob,
)
from jobexec.redaction import LONGEST_CALL

from .. import data
from ..conftest import TABLES, called, list_url, page_url

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SHOWN_BY = {
    "exception_message": "exception_text",
    "exception_stack": "stack",
    "handler_configuration": "arguments",
    "custom_headers": "headers",
    "lost_runs": "missed",
    "message": "received",
    "lease_token": "leased",  # who knows it can complete the job
}


@pytest.mark.parametrize("table", TABLES)
def test_each_page_renders(admin, table):
    row = data.some_of_everything()[table]
    response = admin.get(page_url(row))
    assert response.status_code == 200
    content = response.content.decode()
    assert "<script>" not in content.split('id="content-start"')[1]
    assert ('name="_save"' in content) is (table in (GatewayClient, Schedule))


#: What only executors write, and says nothing of jobs that workers outside do.
OF_EXECUTORS = {"conflicts", "retry_plan", "snoozes", "start_time", "unknown_since"}


@pytest.mark.parametrize("table", JOB_TABLES)
def test_every_column_is_on_the_page(rf, table):
    from django.contrib.admin import site

    page = site.get_model_admin(table)
    assert isinstance(page, JobTableAdmin)
    shown = set(flatten_fieldsets(page.get_fieldsets(rf.get("/"))))
    missing = {field.name for field in table._meta.fields} - shown
    lacking = {name for name in missing if not shown & {SHOWN_BY.get(name), f"{name}_exactly", f"{name}_in_words"}}
    assert lacking == (OF_EXECUTORS if table.__name__ == "ExternalWorkerJob" else set())


@pytest.mark.parametrize("table", TABLES)
def test_dates_have_one_format_and_flags_no_red_cross(admin, table):
    row = data.some_of_everything()[table]
    for url in (list_url(table), page_url(row)):
        content = admin.get(url).content.decode()
        assert "icon-no" not in content and "icon-yes" not in content
        assert not re.search(r"(midnight|noon|[ap]\.m\.)<", content)


def test_dates_name_their_zone(admin, settings):
    row = data.make(Job, lock_owner="n1:b", lock_expiration_time=datetime(2026, 3, 1, 12, tzinfo=UTC))
    settings.TIME_ZONE = "Europe/Berlin"
    content = admin.get(page_url(row)).content.decode()
    assert "03/01/2026 13:00:00 CET (" in content
    assert "If the job has not started by then, it is cancelled." in content


def test_the_page_of_a_dead_letter(admin):
    job = data.dead_letter_with_log()
    content = admin.get(page_url(job)).content.decode()
    assert "12345678901234567890" in content  # exactly
    assert "&quot;currency&quot;: &quot;EUR&quot;" in content
    assert content.count("raise GatewayTimeout(&quot;no answer from pay.example within 30 s&quot;)") == 4
    assert content.count("<details><summary>GatewayTimeout") == 3
    assert f"{list_url(Job)}?q=order-4711" in content


def test_what_is_hostile_is_escaped(admin):
    evil = "<script>alert(1)</script>"
    job = data.dead_letter(
        handler_type=evil,
        process_instance_id=evil,
        exception_message=evil,
        exception_stack=evil,
        handler_configuration={"args": [evil], "kwargs": {}},
        lock_owner=evil,
    )
    data.log(job, node=evil, exception_message=evil, exception_stack=evil)
    for url in (page_url(job), list_url(DeadLetterJob), list_url(JobLog), page_url(JobLog.objects.get())):
        assert evil not in admin.get(url).content.decode()


def test_a_job_that_never_failed_has_no_section_for_it(admin):
    assert b"Stack trace" not in admin.get(page_url(data.make(Job))).content


@pytest.mark.parametrize(
    ("columns", "folded"),
    [({}, True), ({"exception_message": "refused"}, False), ({"lost_runs": 1}, False), ({"unknown_since": NOW}, False)],
)
def test_attempts_and_execution_are_folded_for_a_healthy_job(admin, columns, folded):
    text = admin.get(page_url(data.make(Job, **columns))).content.decode()
    for title in ("Attempts", "Execution"):
        assert (f">{title}</h2>" in text) and bool(re.search(rf"<summary>\s*<h2[^>]*>{title}</h2>", text)) == folded


def test_the_log_needs_its_own_permission(staff):
    job = data.dead_letter_with_log()
    content = staff("view_deadletterjob", view=False).get(page_url(job)).content.decode()
    assert "waited 42 ms" not in content
    assert "shop.gateway.GatewayTimeout" in content  # on the row itself


def test_a_long_log_is_cut_and_linked(admin):
    job = data.dead_letter()
    for number in range(60):
        data.log(job, minutes_ago=number)
    response = admin.get(page_url(job))
    assert len(response.context["story"].events) == 50
    assert f"{list_url(JobLog)}?q={job.pk}" in response.content.decode()


def test_the_timeline_is_in_the_order_of_time(admin):
    job = data.dead_letter(create_time=clock.now() - timedelta(hours=2))
    data.log(job, attempt=1, retries=2, minutes_ago=60)
    admin.act(DeadLetterJob, "set_priority", [job], priority="4")
    AuditLog.objects.update(timestamp=clock.now() - timedelta(minutes=30))
    data.log(job, attempt=2, retries=1, minutes_ago=10)
    events = admin.get(page_url(job)).context["story"].events
    told = [("attempt 2",), ("set priority: priority 0 → 4",), ("attempt 1",), ()]
    assert [event.facts[:1] for event in events] == told
    assert events[0].facts == ("attempt 2", "on worker-1", "waited 42 ms", "ran 30 s", "retries left: 1")
    assert "created" in events[-1].badge


def test_the_timeline_shows_the_projects_frames_first(admin):
    job = data.dead_letter()
    library = '  File "/lib/site-packages/django/db/utils.py", line 1, in run\n    call()\n'
    own = '  File "/shop/jobs.py", line 7, in charge\n    raise Declined(402139)\n'
    data.log(job, exception_message="shop.Declined: 402139", exception_stack=f"{library}{own}shop.Declined: 402139")
    data.log(job, exception_message="x" * 200, exception_stack="the details of a worker")
    told = [str(event.details) for event in admin.get(page_url(job)).context["story"].events if event.details]
    (traced,) = [text for text in told if "Declined" in text]
    assert traced.index("raise Declined") < traced.index("site-packages")
    assert traced.count("shop.Declined: 402139") == 1
    (of_worker,) = [text for text in told if "of a worker" in text]
    assert "x" * 200 in of_worker, "which the summary shortens"


@pytest.mark.gate
@pytest.mark.usefixtures("stopped_time")
def test_a_job_that_is_held_says_by_whom_and_how_long_that_holds(admin):
    node = data.node()
    job = data.running(lock_owner=node.lock_owner)
    locked = clock.now() - timedelta(minutes=3)
    ExclusiveLock.objects.create(
        process_instance_id=job.process_instance_id, lock_owner=node.lock_owner, acquisition=job.pk, lock_time=locked
    )
    lock = admin.get(page_url(job)).context["lock"]
    assert page_url(node) in lock.owner
    assert "3 min" in lock.since
    assert "valid for 2" in lock.good  # the node's lease, and not the five minutes of the lock
    node.delete()
    good = admin.get(page_url(job)).context["lock"].good
    assert "valid for 4 min" in good or "valid for 5 min" in good
    assert admin.get(page_url(data.make(Job))).context["lock"] is None


def test_the_lock_of_a_lease_that_is_over(admin):
    node = data.node(beat=100)
    job = data.running(lock_owner=node.lock_owner, process_instance_id="")
    assert "expired 1 min 1" in admin.get(page_url(job)).context["lock"].good


def test_it_says_why_it_is_not_running(admin):
    job = data.make(TimerJob, due_date=clock.now() + timedelta(hours=1))
    operations.suspend(tenant_id="acme")
    response = admin.get(page_url(job))
    assert response.context["reasons"][0].startswith("It is not due before ")
    assert "Why is this not running?" in response.content.decode()
    job = data.make(SuspendedJob, tenant_id="acme")
    reasons = admin.get(page_url(job)).context["reasons"]
    assert reasons[0].startswith("Its tenant acme has been suspended since ")
    assert "Where is it?" in admin.get(page_url(data.running())).content.decode()


def test_siblings_are_listed_with_state_and_lock(admin, staff):
    job = data.make(Job)
    held, waiting = data.running(), data.make(TimerJob, due_date=clock.now() + timedelta(hours=1))
    data.make(Job, process_instance_id="order-4712")
    response = admin.get(page_url(job))
    assert [row["url"] for row in response.context["siblings"]] == [page_url(held), page_url(waiting)]
    assert [data.OWNER in row["lock"] for row in response.context["siblings"]] == [True, False]
    assert not response.context["more_siblings"]
    seen = staff("view_job", view=False).get(page_url(job)).context["siblings"]
    assert [row["url"] for row in seen] == [page_url(held)]
    for _ in range(20):
        data.make(Job)
    response = admin.get(page_url(job))
    assert len(response.context["siblings"]) == 10
    assert response.context["more_siblings"]


def test_siblings_are_told_apart_by_their_calls(admin):
    job = data.make(Job)
    columns = {"handler_configuration": {"kwargs": {"order_id": 17, "card_password": "hush"}}}
    data.make(Job, **columns)
    data.make(TimerJob, due_date=clock.now() + timedelta(hours=1), **columns)
    outside = data.external()
    given = {"handler_type": "payment", "handler_configuration": outside.handler_configuration}
    data.make(SuspendedJob, job_key=outside.job_key + 1, **given)
    said = [called(each["handler"])[0] for each in admin.get(page_url(job)).context["siblings"]]
    masked = "charge_card(order_id=17, card_password=●●●)"
    assert said == [masked, masked, *["payment(amount=12, card_password=●●●)"] * 2]
    long = {"kwargs": {"text": "x" * (LONGEST_CALL + 1)}}
    data.make(SuspendedJob, handler_configuration=long)
    assert "charge_card(…)" in [called(each["handler"])[0] for each in admin.get(page_url(job)).context["siblings"]]


@pytest.mark.parametrize("table", JOB_TABLES)
def test_the_heading_of_a_job_is_its_call(admin, table):
    given = {"kwargs": {"order_id": 17, "card_password": "hush", "note": "n" * 80}}
    job = data.make(table, handler_configuration=given)
    response = admin.get(page_url(job))
    content = response.content.decode()
    heading = re.search(r"<h2>(.*?)</h2>", content.split('id="content"')[1])[1]
    if table is ExternalWorkerJob:  # its variables are elsewhere
        assert heading == "charge_card()"
        return
    begin = "charge_card(order_id=17, card_password=●●●, note=&#x27;nnn"
    assert heading.startswith(begin) and heading.endswith("n…")
    assert len(unescape(heading)) == display.LONGEST_CALL
    assert f"<title>{begin}" in content


def test_few_queries(admin):
    job = data.dead_letter_with_log()
    admin.get(page_url(job))
    with CaptureQueriesContext(connection) as captured:
        admin.get(page_url(job))
    # session, user, the job (twice: is it still here?), its log, its incidents, what people did, its siblings; and
    # why it does not run, which is a dozen at most
    assert len(captured) <= 9 + 12, [query["sql"][:150] for query in captured]


def test_a_job_that_moved_is_shown_where_it_is(admin):
    job = data.dead_letter()
    operations.requeue(job.pk)
    response = admin.get(page_url(job), follow=True)
    assert response.redirect_chain[-1][0] == page_url(Job(pk=job.pk))


def test_a_job_that_is_done_leads_to_its_log(admin):
    job = data.make(Job)
    data.log(job, state=LogState.SUCCESSFUL)
    operations.delete_jobs(job.pk)
    response = admin.get(page_url(job), follow=True)
    assert response.redirect_chain[-1][0] == f"{list_url(JobLog)}?q={job.pk}"
    assert b"The job is done or deleted" in response.content
    assert {entry.state for entry in response.context["cl"].result_list} == {LogState.SUCCESSFUL, LogState.DELETED}


def test_a_job_that_is_hidden_from_the_user_does_not_exist(admin, monkeypatch):
    job = data.dead_letter()
    monkeypatch.setattr(JobTableAdmin, "get_queryset", lambda self, request: self.model.objects.none())
    response = admin.get(page_url(job), follow=True)
    assert response.redirect_chain == [("/admin/", 302)]


@pytest.mark.parametrize("key", ["x", "4711", "00000000-0000-0000-0000-000000000000"])
def test_what_never_was_is_not_an_error(admin, key):
    assert admin.get(f"{list_url(Job)}{key}/change/", follow=True).status_code == 200


@pytest.mark.usefixtures("stopped_time")
def test_nodes_tell_their_lease(admin):
    data.node("default", "fresh", beat=3)
    data.node("default", "late", beat=100)
    response = admin.get(list_url(ExecutorNode))
    content = response.content.decode()
    assert "valid for 26 s" in content or "valid for 27 s" in content
    assert "expired 1 min 1" in content
    assert "deployments: shop:2, shop:1" in content
    assert '<meter min="0" max="10" value="7">' in content
    assert "4242 on shop-vm-1" in content


def test_the_admins_log_names_who_did_it(admin):
    job = data.dead_letter()
    admin.act(DeadLetterJob, "set_priority", [job], priority="4")
    content = admin.get(page_url(job)).content.decode()
    person = f'<span class="jobexec-badge jobexec-person">{get_user_model().objects.get().username}</span>'
    assert person in content.split('id="jobexec-timeline"')[1]
    assert "set priority: priority 0 → 4" in content


class TestDisplay:
    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (None, "–"),  # noqa: RUF001
            (0, "0 ms"),
            (0.25, "250 ms"),
            (59.6, "1 min"),
            (61, "1 min 1 s"),
            (3600, "1 h"),
            (7385, "2 h 3 min"),
            (86_400 * 2 + 59, "2 d"),
            (-5, "−5 s"),  # noqa: RUF001
        ],
    )
    def test_duration(self, seconds, text):
        assert display.duration(seconds) == text

    def test_relative(self):
        now = clock.now()
        assert ">in 3 min</time>" in display.relative(now + timedelta(minutes=3), now)
        assert ">2 h ago</time>" in display.relative(now - timedelta(hours=2), now)

    def test_shortened(self):
        assert display.shortened("short") == "short"
        assert display.shortened("two\nlines") == '<span title="two\nlines">two…</span>'
        assert "a" * 79 + "…" in display.shortened("a" * 100)

    def test_huge_values_are_cut(self):
        assert len(display.pre("x" * 1_000_000)) < 101_000

    def test_json(self):
        assert "ü" in display.json_text({"name": "ü"})
        assert display.json_text({}) == display.NONE
        assert "not json" in display.json_text("{not json")


class TestWhatAHealthyJobShows:
    def names_of_buttons(self, content):
        return re.findall(r'name="action" value="(\w+)"', content)

    @pytest.mark.gate
    def test_only_the_buttons_that_apply(self, admin):
        free, running = data.make(Job), data.running()
        of_free = self.names_of_buttons(admin.get(page_url(free)).content.decode())
        of_running = self.names_of_buttons(admin.get(page_url(running)).content.decode())
        assert "unlock" not in of_free and "activate" not in of_free and "execute_now" in of_free
        assert "unlock" in of_running and "execute_now" not in of_running
        node = data.node()
        Job.objects.filter(pk=running.pk).update(lock_owner=node.lock_owner)
        assert "unlock" not in self.names_of_buttons(admin.get(page_url(running)).content.decode())
        suspended = data.make(SuspendedJob)
        assert "activate" in self.names_of_buttons(admin.get(page_url(suspended)).content.decode())
        timer = data.make(TimerJob, due_date=clock.now() + timedelta(hours=1))
        assert "recalculate_due_date" not in self.names_of_buttons(admin.get(page_url(timer)).content.decode())
        blocked = data.make(BlockedJob, resource="pay.example")
        assert "end_wait" not in self.names_of_buttons(admin.get(page_url(blocked)).content.decode())

    def test_no_red_crosses_and_internals_last(self, admin):
        content = admin.get(page_url(data.make(Job, exclusive=False))).content.decode()
        assert "icon-no" not in content
        assert content.index(">Origin<") < content.index(">Internals<") < content.index("Revision:")

    def test_frames_of_the_project_come_first(self, admin):
        stack = """Traceback (most recent call last):
  File "/srv/venv/lib/python3.13/site-packages/jobexec/executor/run/execution.py", line 9, in run
    handler.execute(context)
  File "/srv/shop/jobs.py", line 41, in charge_card
    receipt = gateway.charge(order.total)
              ~~~~~~~~~~~~~~^^^^^^^^^^^^^
  File "/srv/shop/gateway.py", line 17, in charge
    requests.post(url)
  File "/srv/venv/lib/python3.13/site-packages/requests/api.py", line 3, in post
    raise Timeout
Timeout: late"""
        content = admin.get(page_url(data.dead_letter(exception_stack=stack))).content.decode()
        assert content.count("in charge_card") == 2
        first, whole = content.split("<details><summary>Whole stack trace</summary>")
        own = first[first.rindex("<pre") :]
        assert own.index("gateway.py") < own.index("shop/jobs.py") and "~~~^" in own and "site-packages" not in own
        assert whole.index("execution.py") < whole.index("shop/jobs.py") < whole.index("requests/api.py")

    def test_a_stack_trace_of_the_project_alone_is_shown_once(self, admin):
        content = admin.get(page_url(data.dead_letter())).content.decode()
        assert content.count("in charge_card") == 1 and "Whole stack trace" not in content
