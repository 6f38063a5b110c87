"""The page of the workers outside, and what the dashboard and the health view say when none comes."""

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobexec.clock import FrozenClock
from jobexec.models import ExternalWorker, ExternalWorkerJob
from jobexec.operations.values.ranking import rank
from tests.support.factories import make_node

from .. import data
from ..conftest import list_url, page_url
from ..dashboard.test_dashboard import PAGE, section, text_of

MINUTE = timedelta(minutes=1)
NO_WORKER = "Jobs of type %s have waited for 10 min, and no worker asks for them."


@pytest.fixture(autouse=True)
def frozen():
    with FrozenClock() as clock:
        yield clock


def text(response):
    return " ".join(text_of(response.content, id="content").split())


def held(worker, type, frozen, n=1, ends=MINUTE):
    for _ in range(n):
        until = frozen.now + ends
        data.make(
            ExternalWorkerJob, handler_type=type, lock_owner=worker, lock_expiration_time=until, available_at=until
        )


def test_who_is_there(admin, frozen):
    data.external_worker(tenants=["acme", ""])
    shown = text(admin.get(list_url(ExternalWorker)))
    for part in ("payments-1", "shop", "payment", "waiting", "1 / 2", "1,234", "gateway-1:17", "grpc"):
        assert part in shown


def test_since_when_a_worker_is_silent(admin, frozen):
    data.external_worker()
    frozen.tick(3 * MINUTE)
    shown = text(admin.get(list_url(ExternalWorker)))
    assert "silent for 3 min" in shown
    assert "0 / 0" in shown, "its gateway has died, or it would have been seen"
    assert "jobexec-warn" in admin.get(list_url(ExternalWorker)).content.decode()


def test_one_that_only_asks_now_and_then_is_here(admin):
    data.external_worker(streams=0, polls=0)
    assert "present" in text(admin.get(list_url(ExternalWorker)))


def test_what_it_holds_now(admin, frozen):
    row = data.external_worker()
    data.external_worker(worker="payments-2")
    held("payments-1", "payment", frozen, n=3)
    held("payments-1", "payment", frozen, ends=-MINUTE)
    held("payments-1", "mail", frozen)
    page = admin.get(list_url(ExternalWorker)).content.decode()
    url = "/admin/jobexec/externalworkerjob/?lock=held&amp;worker=payments-1&amp;handler=payment"
    assert f'<a href="{url}">3</a>' in page
    assert f'<a href="{url.replace("payments-1", "payments-2")}">0</a>' in page
    assert len(admin.get(url.replace("&amp;", "&")).context["cl"].result_list) == 3
    assert f'<a href="{url}">3</a>' in admin.get(page_url(row)).content.decode()


def test_the_jobs_of_all_workers_take_one_statement(admin, frozen):
    for number in range(10):
        data.external_worker(worker=f"payments-{number}")
        held(f"payments-{number}", "payment", frozen)
    with CaptureQueriesContext(connection) as captured:
        admin.get(list_url(ExternalWorker))
    assert len([query for query in captured if ExternalWorkerJob._meta.db_table in query["sql"]]) == 1


def test_a_page_tells_its_streams(admin):
    row = data.external_worker(tenants=["acme", ""])
    shown = text(admin.get(page_url(row)))
    assert row.open_streams[0]["id"] in shown
    assert "PT30S · order_id" in shown
    assert "acme, none" in shown


@pytest.mark.parametrize(
    ("query", "workers"),
    [
        ({"state": "here"}, ["new"]),
        ({"state": "silent"}, ["old"]),
        ({"handler": "mail"}, ["old"]),
        ({"protocol": "grpc"}, ["new", "old"]),
        ({"protocol": "rest"}, []),
        ({"q": "ol"}, ["old"]),
        ({"q": "pay"}, ["new"]),
    ],
)
def test_filters(admin, frozen, query, workers):
    data.external_worker(worker="old", type="mail")
    frozen.tick(2 * MINUTE)
    data.external_worker(worker="new")
    found = admin.get(list_url(ExternalWorker), query).context["cl"].result_list
    assert sorted(row.worker for row in found) == workers


def test_it_is_for_who_may_see_all_tenants(staff, settings):
    row = data.external_worker()
    settings.JOBEXEC = {**settings.JOBEXEC, "ADMIN_TENANTS": "tests.admin.tenants.of_user"}
    client = staff()
    get_user_model().objects.update(last_name="acme")
    assert client.get(list_url(ExternalWorker)).status_code == 403
    assert client.get(page_url(row)).status_code in (302, 403, 404)


def forgotten(frozen, type="payment"):
    """A job of a type that no worker asks for."""
    data.make(ExternalWorkerJob, handler_type=type, rank=rank("default", frozen.now - 10 * MINUTE, 0))


def test_the_dashboard_warns_of_types_without_a_worker(admin, frozen):
    data.node()
    forgotten(frozen)
    page = admin.get(PAGE).content.decode()
    url = reverse("admin:jobexec_externalworker_changelist")
    assert f'<a href="{url}">{NO_WORKER % "payment"}</a>' in page
    forgotten(frozen, "zebra")
    wrong = section(admin, "jobexec-wrong")
    assert NO_WORKER % "payment" in wrong and NO_WORKER % "zebra" in wrong


def test_the_dashboard_warns_of_no_type_while_workers_come(admin, frozen):
    forgotten(frozen)
    forgotten(frozen, "zebra")
    data.external_worker()
    wrong = section(admin, "jobexec-wrong")
    assert NO_WORKER % "zebra" in wrong and "payment" not in wrong


def test_the_health_view_names_the_types(admin, frozen, settings):
    make_node("default")
    url = reverse("jobexec:health")
    settings.JOBEXEC = {"ENGINES": {"default": {}}}
    assert admin.get(url).status_code == 200
    forgotten(frozen)
    response = admin.get(url)
    assert response.status_code == 503
    told = response.json()["engines"]["default"]
    assert told["types_without_worker"] == ["payment"]
    assert told["problems"] == ["no external worker polls for waiting jobs of the types: payment"]
    settings.JOBEXEC = {"ENGINES": {"default": {}}, "EXTERNAL_WORKER_ALERT_AFTER": "PT1H"}
    assert admin.get(url).status_code == 200
