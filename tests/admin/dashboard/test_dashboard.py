"""The dashboard above the list of tables: what it says in each situation, to whom, and with how many statements."""

import re
from datetime import timedelta
from html.parser import HTMLParser

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.db.utils import OperationalError
from django.test.utils import CaptureQueriesContext
from django.urls import NoReverseMatch, reverse

from jobexec import clock
from jobexec.admin.dashboard import view, visible_tables
from jobexec.identifiers import uuid7
from jobexec.models import (
    Batch,
    BatchState,
    BlockedJob,
    FailureGroup,
    Incident,
    Job,
    NodeState,
    SuspendedJob,
    TimerJob,
)
from jobexec.operations import suspend
from jobexec.operations.reports import counts, meters
from tests.support.suite import databases

from .. import data
from ..conftest import Staff

PAGE = "/admin/jobexec/"
FRAGMENT = "/admin/jobexec/executornode/dashboard/"


def text_of(content, **attributes):
    """The text of the first element with these attributes, with single spaces."""
    reader = _Text(attributes)
    reader.feed(content.decode())
    return " ".join(" ".join(reader.text).split())


class _Text(HTMLParser):
    def __init__(self, attributes):
        super().__init__()
        self.wanted, self.depth, self.text, self.stack = attributes, 0, [], []

    def handle_starttag(self, tag, attrs):
        given = {name.replace("-", "_"): value for name, value in attrs}
        found = all(given.get(name) == value for name, value in self.wanted.items())
        if tag not in ("meta", "link", "input", "br", "wbr", "img", "rect", "path", "hr"):
            self.stack.append(tag)
            if self.depth == 0 and found and not self.text:
                self.depth = len(self.stack)

    def handle_endtag(self, tag):
        if tag in self.stack:
            if self.depth == len(self.stack):
                self.depth = 0
            self.stack.pop()

    def handle_data(self, data):
        if self.depth and self.stack and self.stack[-1] not in ("title", "desc", "script"):
            self.text.append(data.strip())


def board(client, **parameters):
    """What the dashboard says."""
    response = client.get(PAGE, parameters)
    assert response.status_code == 200
    return text_of(response.content, id="jobexec-dashboard-body")


def section(client, name, **parameters):
    return text_of(client.get(PAGE, parameters).content, aria_labelledby=name)


def traffic(*, succeeded=0, failed=0, wait=None, run=None, ago=timedelta(minutes=3), using="default"):
    names = {meters.JOB_SUCCESSFUL: succeeded, meters.JOB_FAILED: failed}
    counted = {(name, "shop.jobs.charge_card"): value for name, value in names.items()}
    counted |= {(meters.JOB_WAIT_TIME, key): value for key, value in (wait or {}).items()}
    counted |= {(meters.JOB_RUN_TIME, key): value for key, value in (run or {}).items()}
    meters.flush_meters(using, "worker-1", counted, clock.now(using) - ago)


def group(fingerprint="f" * 32, **columns):
    now = clock.now()
    return FailureGroup.objects.create(
        **{
            "fingerprint": fingerprint,
            "handler_type": "shop.jobs.charge_card",
            "exception": "GatewayTimeout",
            "message": "GatewayTimeout: no answer",
            "first_time": now - timedelta(days=2),
            "last_time": now - timedelta(minutes=5),
            "count": 4711,
            **columns,
        }
    )


def incident(**columns):
    values = {"timestamp": clock.now(), "job_id": uuid7(), "handler_type": "shop.pay", "category": "default"}
    return Incident.objects.create(**{**values, **columns})


class TestEmpty:
    def test_it_says_what_to_do(self, admin):
        text = board(admin)
        assert "No executor is running, so no job runs. Start one: python manage.py runjobexecutor" in text
        assert "No executor is running. Start one: python manage.py runjobexecutor" in text
        for empty in (
            "No job has run in this period.",
            "No job has failed in this period.",
            "No batch is running.",
            "No job is waiting for a date.",
            "No suspension is in force or planned.",
        ):
            assert empty in text

    def test_all_is_well(self, admin):
        data.node()
        text = board(admin)
        assert "No problems" in text
        assert "Current problems" not in text

    def test_the_tables_are_listed_below(self, admin):
        content = admin.get(PAGE).content.decode()
        assert content.index("jobexec-dashboard-body") < content.index('class="app-jobexec module')
        assert "Dead letter jobs" in content

    def test_each_table_is_in_a_named_group(self, admin, staff):
        def listed(content):
            return re.findall(r'<tr class="model-(\w+)', content)

        content = admin.get(PAGE).content.decode()
        groups = re.findall(r'class="section"[^>]*>([^<]+)<', content)
        assert groups == ["Jobs", "Failures", "Control", "Executors", "External workers", "Records"]
        everywhere = admin.get("/admin/").content.decode().partition('class="app-jobexec module')[2]
        assert sorted(listed(content)) == sorted(listed(everywhere.partition("</table>")[0]))
        few = staff("view_incident", "view_timerjob", view=False).get(PAGE).content.decode()
        assert re.findall(r'class="section"[^>]*>([^<]+)<', few) == ["Jobs", "Failures"]

    def test_other_apps_have_none(self, admin):
        assert "jobexec-dashboard" not in admin.get("/admin/auth/").content.decode()


@pytest.mark.usefixtures("stopped_time")
class TestContent:
    @pytest.mark.gate
    def test_what_is_wrong_comes_first_and_leads_to_the_lists(self, admin):
        data.node(stuck_threads=2)
        data.node(name="worker-2", beat=90)
        incident()
        data.make(Job, rank=int((clock.now() - timedelta(minutes=5)).timestamp() * 1000))
        text = section(admin, "jobexec-wrong")
        assert text.startswith("Current problems The oldest due job has been waiting for 5 min. 1 incident is open. ")
        assert "2 threads of worker-1 are stuck" in text
        assert re.search(r"The lease of worker-2 expired 1 min( \d s)? ago: the node does not respond\.", text)
        content = admin.get(PAGE).content.decode()
        assert '<a href="/admin/jobexec/job/?lock=free">The oldest due job' in content
        assert content.index("jobexec-wrong") < content.index("jobexec-tiles")

    def test_paused_nodes_and_resources_without_an_entry_lead_to_their_lists(self, admin):
        data.node(state=NodeState.PAUSED)
        data.make(BlockedJob, resource="pay")
        content = admin.get(PAGE).content.decode()
        assert '<a href="/admin/jobexec/executornode/">worker-1 is paused: it takes no jobs.' in content
        assert '<a href="/admin/jobexec/resource/">Jobs wait for the resource pay, which no entry of RES' in content

    def test_tiles_count_and_lead_to_the_lists(self, admin):
        data.node()
        data.some_of_everything()
        content = admin.get(PAGE).content.decode()
        tiles = re.findall(
            r'<a href="([^"]*)"><span class="jobexec-tile-name">([^<]*)</span> '
            r'<span class="jobexec-tile-count">([^<]*)</span></a>',
            content,
        )
        found = {name: (count, url) for url, name, count in tiles}
        assert found["Executable"] == ("1", "/admin/jobexec/job/?lock=free")
        assert found["In progress"] == ("1", "/admin/jobexec/job/?lock=held")
        assert found["Timers"] == ("2", "/admin/jobexec/timerjob/")
        assert found["Held back"] == ("2", "/admin/jobexec/suspendedjob/")
        assert len(found) == 6 and "Open incidents" not in found
        assert found["Dead letters"] == ("1", "/admin/jobexec/deadletterjob/")
        for count, url in found.values():
            assert admin.get(url).status_code == 200, url
            assert count.isdigit()
        text = section(admin, "jobexec-tiles")
        assert "7 of 10 threads busy" in text or "14 of 20 threads busy" in text
        assert re.search(r"next in (3 min|2 min [45]\d s)", text)  # the machine may be busy
        assert "1 wait for a retry" in text and "1 suspended, 1 blocked" in text

    def test_large_numbers_end(self, admin, monkeypatch):
        monkeypatch.setattr(counts, "COUNT_LIMIT", 3)
        for _ in range(5):
            data.dead_letter()
        assert "Dead letters 3+" in section(admin, "jobexec-tiles")

    @pytest.mark.parametrize(("rows", "text"), [(146_239, "≈146,000"), (None, "3+")])
    def test_large_numbers_are_estimated_where_the_database_can(self, admin, monkeypatch, rows, text):
        monkeypatch.setattr(counts, "COUNT_LIMIT", 3)
        monkeypatch.setattr(counts, "estimated_rows", lambda using, table: rows)
        for _ in range(5):
            data.dead_letter()
        assert f"Dead letters {text}" in section(admin, "jobexec-tiles")

    def test_jobs_in_progress_among_many_are_those_of_the_nodes(self, admin, monkeypatch):
        monkeypatch.setattr(counts, "COUNT_LIMIT", 3)
        monkeypatch.setattr(counts, "estimated_rows", lambda using, table: 1000)
        data.node()
        for _ in range(5):
            data.running()
        assert "In progress ≈19 7 of 10 threads busy" in section(admin, "jobexec-tiles")

    def test_the_rate_and_the_time_until_nothing_is_left(self, admin):
        data.make(Job)
        traffic(succeeded=150)
        text = section(admin, "jobexec-tiles")
        assert "0.50 jobs/s" in text and "empty in 2 s at this rate" in text

    def test_numbers_of_nothing_are_grey(self, admin):
        data.dead_letter()
        content = admin.get(PAGE).content.decode()
        assert content.count("jobexec-tile-none") == 5 and content.count("jobexec-tile-bad") == 1

    def test_incidents_lead_to_the_groups_of_their_failures(self, admin):
        group()
        data.dead_letter(fingerprint="f" * 32)
        incident(fingerprint="f" * 32)
        content = admin.get(PAGE).content.decode()
        wrong = content[content.index("jobexec-wrong") : content.index("jobexec-tiles")]
        assert f'<a href="/admin/jobexec/failuregroup/{"f" * 32}/change/">' in wrong
        assert "(dead letters: 1, in the last hour: 1)" in wrong

    @pytest.mark.gate
    def test_nodes(self, admin):
        node = data.node(stuck_threads=1)
        text = section(admin, "jobexec-nodes")
        assert re.search(r"worker-1 active 4 s ago valid for 2\d s 7 / 10 1 thread is stuck 12 / 100", text)
        assert f'/admin/jobexec/executornode/{node.pk}/change/"' in admin.get(PAGE).content.decode()

    @pytest.mark.gate
    def test_groups_of_failures_lead_to_their_dead_letters(self, admin):
        group()
        group("0" * 32, last_time=clock.now() - timedelta(hours=3), message="old")
        data.dead_letter(fingerprint="f" * 32)
        data.dead_letter(fingerprint="0" * 32)
        text = section(admin, "jobexec-failures")
        assert "charge_card GatewayTimeout: no answer 4,711 5 min ago 1" in text
        assert "old" not in text
        assert "old" in section(admin, "jobexec-failures", period="day")
        url = f"/admin/jobexec/deadletterjob/?fingerprint={'f' * 32}"
        assert f'<a href="{url}">1</a>' in admin.get(PAGE).content.decode()
        assert admin.get(url).context["cl"].result_count == 1

    @pytest.mark.gate
    def test_timers_suspensions_and_batches(self, admin):
        timer = data.make(TimerJob, due_date=clock.now() + timedelta(minutes=3, seconds=1), attempts=1)
        suspend(tenant_id="acme", using="default")
        suspend(tenant_id="north", at=clock.now() + timedelta(hours=2, seconds=9), using="default")
        Batch.objects.create(type="requeue", state=BatchState.RUNNING, total=10, create_user="maria")
        Batch.objects.create(type="cancel", state=BatchState.COMPLETED)
        text = board(admin)
        assert re.search(r"shop \.jobs \.charge_card waiting for a retry 1 in 3 min", text)
        assert f"/admin/jobexec/timerjob/{timer.pk}/change/" in admin.get(PAGE).content.decode()
        assert re.search(r"tenant acme in force \d+ m?s ago \S", text)
        assert "tenant north planned in 2 h" in text
        assert re.search(r"requeue running 0 / 10 .* maria", text)
        assert "cancel" not in section(admin, "jobexec-batches")

    @pytest.mark.gate
    def test_timers_of_a_handler_are_one_line(self, admin):
        for number in range(3):
            data.make(TimerJob, due_date=clock.now() + timedelta(hours=1 + number), attempts=number // 2)
        assert "charge_card 1 wait for a retry 3 in 1 h" in section(admin, "jobexec-timers")
        url = "/admin/jobexec/timerjob/?handler=shop.jobs.charge_card"
        assert f'<a href="{url}">' in admin.get(PAGE).content.decode()
        data.make(TimerJob, due_date=clock.now(), handler_type="shop.other")
        assert admin.get(url).context["cl"].result_count == 3

    def test_jobexecs_own_handlers_are_one_line_of_the_next_timers_and_of_the_split(self, admin):
        then, counted = clock.now() - timedelta(minutes=3), {(meters.JOB_SUCCESSFUL, "shop.pay"): 5}
        for handler in ("jobexec.processes.timer", "jobexec.alert"):
            data.make(TimerJob, due_date=clock.now() + timedelta(hours=1), handler_type=handler)
            counted[meters.JOB_SUCCESSFUL, handler] = 5
        meters.flush_meters("default", "n", counted, then)
        assert "jobexec's own 2 in " in section(admin, "jobexec-timers")
        content = admin.get(PAGE, {"by": "handler"}).content.decode()
        (url,) = re.findall(r'href="([^"]*timerjob/[^"]*handler=jobexec[^"]*)"', content)
        assert admin.get(url).context["cl"].result_count == 2
        legend = section(admin, "jobexec-flow-heading", by="handler")
        assert "jobexec's own 10 shop.pay 5 " in legend
        assert "name=shop.pay" in content and "name=jobexec" not in content, "it has no page"

    @pytest.mark.gate
    def test_schedules_that_fire_next(self, admin):
        row = data.schedule(next_time=clock.now() + timedelta(hours=5, seconds=9))
        assert "shop.reminders Monday to Friday at 03:00 in 5 h" in section(admin, "jobexec-schedules")
        assert f"/admin/jobexec/schedule/{row.pk}/change/" in admin.get(PAGE).content.decode()
        row.delete()
        assert "jobexec-schedules" not in admin.get(PAGE).content.decode()

    @pytest.mark.gate
    def test_charts_say_in_words_what_they_show(self, admin):
        traffic(succeeded=1200, failed=7, wait={"16": 90, "4096": 10}, run={"128": 100})
        traffic(succeeded=50, ago=timedelta(hours=5))
        content = admin.get(PAGE).content.decode()
        assert "1,200 jobs succeeded and 7 attempts failed; at most 1,207 within 1 min." in content
        assert re.search(r"<title>\d\d:\d\d to \d\d:\d\d: 1,200 succeeded, 7 failed</title>", content)
        text = section(admin, "jobexec-wait-heading")
        assert "50 % within 12 ms 95 % within 3 s" in text
        assert "1,250 jobs succeeded" in admin.get(PAGE, {"period": "day"}).content.decode()


class TestRefresh:
    def test_the_part_that_changes_comes_alone(self, admin):
        data.node()
        assert reverse("admin:jobexec_dashboard") == FRAGMENT
        content = admin.get(PAGE).content.decode()
        assert f'data-url="{FRAGMENT}?engine=default&amp;period=hour" data-seconds="10"' in content
        response = admin.get(FRAGMENT, {"engine": "default", "period": "day"})
        content = response.content.decode()
        assert "No problems" in content
        assert "<html" not in content
        assert "no-store" in response["Cache-Control"]

    def test_whoever_is_logged_out_is_led_away(self, client, db):
        response = client.get(FRAGMENT)
        assert response.status_code == 302
        assert response["Location"].startswith("/admin/login/")

    def test_without_the_page_of_the_nodes_it_stands_still(self, admin, monkeypatch):
        def without_ours(name, **options):
            if name == "admin:jobexec_dashboard":
                raise NoReverseMatch
            return reverse(name, **options)

        monkeypatch.setattr(visible_tables, "reverse", without_ours)
        assert "data-url" not in admin.get(PAGE).content.decode()


class TestPermissions:
    @pytest.mark.parametrize(
        ("permission", "shown", "hidden"),
        [
            ("view_job", ["Executable", "In progress"], ["Timers", "Dead letters", "Executors", "Next timers"]),
            ("view_timerjob", ["Timers", "Next timers"], ["Executable", "Suspended"]),
            ("view_deadletterjob", ["Dead letters"], ["Executable", "Groups of failures"]),
            ("view_executornode", ["Executors"], ["Executable", "Jobs over time"]),
            ("view_meterlog", ["Jobs over time", "Waiting time"], ["Next timers", "Groups of"]),
            ("view_incident", ["Open incidents"], ["Dead letters"]),
            ("view_batch", ["Running batches"], ["Suspensions"]),
            ("view_suspension", ["Suspensions"], ["Running batches"]),
            ("view_failuregroup", ["Groups of failures"], ["Jobs over time"]),
        ],
    )
    def test_each_part_needs_the_view_of_its_table(self, staff, permission, shown, hidden):
        data.node()
        # The meter log has no page, and who may view nothing else does not come here.
        text = board(staff(permission, *(["view_joblog"] if permission == "view_meterlog" else []), view=False))
        assert [name for name in shown if name not in text] == []
        assert [name for name in hidden if name in text] == []

    def test_what_is_late_is_not_told_who_may_not_see_jobs(self, staff):
        data.node()
        data.make(Job, rank=0)
        assert "No problems" in board(staff("view_deadletterjob", view=False))
        assert "has been waiting" in board(staff("view_job", view=False))

    def test_no_links_to_what_one_may_not_see(self, staff):
        group()
        data.dead_letter(fingerprint="f" * 32)
        content = staff("view_failuregroup", view=False).get(PAGE).content.decode()
        assert "Groups of failures" in content
        assert "deadletterjob" not in content

    def test_without_any_there_is_nothing(self, staff):
        client = staff("view_joblog", view=False)
        assert "jobexec-dashboard-body" not in client.get(PAGE).content.decode()
        assert client.get(FRAGMENT).status_code == 403


class TestTenants:
    @pytest.fixture(autouse=True)
    def hook(self, settings):
        settings.JOBEXEC = {"ADMIN_TENANTS": f"{__name__}.only_acme"}

    def test_only_their_jobs(self, admin):
        data.node(stuck_threads=1)
        group()
        traffic(succeeded=5)
        for tenant in ("acme", "acme", "other"):
            data.dead_letter(tenant_id=tenant)
            data.make(
                TimerJob, tenant_id=tenant, handler_type=f"of.{tenant}", due_date=clock.now() + timedelta(hours=1)
            )
            incident(tenant_id=tenant)
            suspend(tenant_id=tenant, at=clock.now() + timedelta(hours=1), using="default")
        text = board(admin)
        assert "Dead letters 2" in text
        assert "2 incidents are open." in text
        assert "of .acme" in text
        assert "other" not in text.replace("all tenants", "")
        assert "Only jobs of your tenants are counted (acme)." in text
        for cluster_wide in ("worker-1", "stuck", "Executors are", "Jobs over time", "GatewayTimeout"):
            assert cluster_wide not in text.replace("Executors, charts", "")


def only_acme(request):
    return ["acme"]


OTHERS = [database.alias for database in databases.covered.values() if database.alias != "default"]


@pytest.mark.django_db(databases=["default", *OTHERS])
@pytest.mark.skipif(not OTHERS, reason="needs a second database")
class TestEngines:
    @pytest.fixture(autouse=True)
    def engines(self, settings):
        settings.JOBEXEC = {"ENGINES": {"default": {}, OTHERS[0]: {}}}

    @pytest.fixture
    def admin(self):
        client = Staff()
        client.force_login(get_user_model().objects.create_superuser("admin"))
        return client

    @pytest.mark.gate
    def test_each_can_be_chosen(self, admin):
        other = OTHERS[0]
        data.node(other, "elsewhere")
        data.dead_letter(other)
        data.dead_letter(other)
        content = admin.get(PAGE).content.decode()
        assert '<a href="?engine=default&amp;period=hour" aria-current="true">default</a>' in content
        assert f'<a href="?engine={other}&amp;period=hour">{other}</a>' in content
        assert "Dead letters 0" in board(admin)
        text = board(admin, engine=other)
        assert "Dead letters 2" in text
        assert "elsewhere" in text
        assert f"Engine {other} , as of" in text

    def test_nothing_leads_to_lists_of_another_engine(self, admin):
        other = OTHERS[0]
        data.node(other)
        data.dead_letter(other)
        content = admin.get(FRAGMENT, {"engine": other}).content.decode()
        assert "<a " not in content
        assert "The lists below show the engine default" in content

    def test_what_is_no_engine_is_the_one_of_the_lists(self, admin):
        assert "Engine default" in board(admin, engine="nowhere", period="century")

    def test_a_database_that_is_away_breaks_no_page(self, admin, monkeypatch):
        def away(*args, **options):
            raise OperationalError("connection refused")

        monkeypatch.setattr(view, "overview", away)
        text = board(admin)
        assert "The database of the engine default does not answer: connection refused" in text

    def test_the_lists_decide_which_engine_is_shown_first(self, admin, settings):
        settings.DATABASE_ROUTERS = [f"{__name__}.JobsElsewhere"]
        data.node(OTHERS[0], "elsewhere")
        content = admin.get(FRAGMENT).content.decode()
        assert "elsewhere" in content
        assert 'href="/admin/jobexec/executornode/"' in content


class JobsElsewhere:
    """Lists show the other engine."""

    def db_for_read(self, model, **hints):
        return OTHERS[0] if model._meta.app_label == "jobexec" else None


def test_one_engine_needs_no_choice(admin):
    assert 'aria-label="Engine"' not in admin.get(PAGE).content.decode()


@pytest.mark.gate
def test_nothing_inline(admin):
    data.some_of_everything()
    group()
    traffic(succeeded=5, failed=1, wait={"16": 6}, run={"16": 6})
    content = admin.get(PAGE).content.decode()
    dashboard = content.split('id="jobexec-dashboard"')[1].split('id="content-main"')[0]
    assert not re.search(r"<style|<script| style=| on[a-z]+=", dashboard)
    assert "http" not in re.sub(r'data-url="[^"]*"', "", dashboard)
    assert re.findall(r"<script[^>]*>", content.split("dashboard.js")[0])[-1].startswith("<script src=")


@pytest.mark.gate
def test_it_takes_the_same_statements_however_much_there_is(admin):
    def statements():
        with CaptureQueriesContext(connection) as captured:
            admin.get(FRAGMENT)
        return [query["sql"] for query in captured if "jobexec_" in query["sql"]]

    few = statements()
    assert len(few) <= 20
    for number in range(15):
        data.dead_letter()
        incident()
        data.make(Job)
        data.make(SuspendedJob)
        data.make(TimerJob, due_date=clock.now() + timedelta(hours=number))
        data.node(name=f"worker-{number}")
    assert len(statements()) == len(few)
