"""What monitors ask a gateway."""

import json
from datetime import timedelta
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from django.db import OperationalError
from django.urls import include, path
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from jobexec.gateways import worker_registry
from jobexec.gateways.actuator import answers, serve_metrics
from jobexec.gateways.actuator.collector import GatewayCollector
from jobexec.gateways.worker_registry.workers import Registry
from jobexec.gateways.worker_registry.writing import Writing, gateway_name
from jobexec.operations.manage.gateway_clients import create_client
from tests.support.waiting import TIMEOUT

urlpatterns = [path("actuator/", include("jobexec.gateways.actuator.urls"))]

TOKEN = "0123456789abcdef"
pytestmark = [pytest.mark.urls(__name__), pytest.mark.django_db]


@pytest.fixture(autouse=True)
def nobody_yet():
    worker_registry.registry.clear()
    yield
    worker_registry.registry.clear()


@pytest.fixture
def open_gateway(settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "GATEWAY_AUTH": "none"}


def samples(registry):
    collecting = CollectorRegistry()
    collecting.register(GatewayCollector(registry))
    return samples_of(generate_latest(collecting).decode())


def samples_of(text):
    families = text_string_to_metric_families(text)
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


def test_the_names_are_those_of_zeebe():
    own = Registry()
    own.polled("grpc", "", "w", "mail")
    own.activated("mail", "w", 5, protocol="grpc")
    own.finished("completed", "mail", 3)
    own.finished("error_thrown", "mail")
    own.pushed(4)
    own.push_failed("BLOCKED")
    names = ("grpc", "", "w", "mail")
    with own.streaming(*names), own.streaming(*names), own.streaming("grpc", "", "v", "mail"), own.waiting(*names):
        found = samples(own)
    assert found["zeebe_job_events_total", "activated", "mail"] == 5
    assert found["zeebe_job_events_total", "completed", "mail"] == 3
    assert found["zeebe_job_events_total", "error_thrown", "mail"] == 1
    assert found["zeebe_gateway_job_stream_push_total", "success"] == 4
    assert found["zeebe_gateway_job_stream_push_total", "failure"] == 1
    assert found["zeebe_gateway_job_stream_push_fail_try_total", "BLOCKED"] == 1
    assert found["zeebe_broker_jobs_push_fail_try_count_total", "BLOCKED"] == 1
    assert found["zeebe_broker_jobs_pushed_count_total",] == 4
    assert found["zeebe_gateway_job_stream_clients",] == 3
    assert found["zeebe_gateway_job_stream_streams",] == 2
    assert found["zeebe_broker_open_job_stream_count",] == 2
    assert found["zeebe_gateway_job_stream_servers",] == 1
    assert found["zeebe_gateway_job_stream_aggregated_stream_clients_sum",] == 3
    assert found["zeebe_gateway_job_stream_aggregated_stream_clients_count",] == 2
    assert found["zeebe_long_polling_queued_current",] == 1
    assert found["jobexec_gateway_polls_total", "grpc"] == 1
    assert found["jobexec_gateway_workers", "grpc"] == 2


def test_before_anybody_comes_there_are_zeros():
    found = samples(Registry())
    assert found["zeebe_gateway_job_stream_clients",] == 0
    assert found["zeebe_gateway_job_stream_push_total", "success"] == 0
    assert found["zeebe_long_polling_queued_current",] == 0


def test_the_streams_of_this_gateway(client, open_gateway):
    with worker_registry.streaming(
        "grpc", "shop", "w", "mail", timeout=timedelta(seconds=30), variables=["a"]
    ) as stream:
        said = client.get("/actuator/jobstreams").json()
    metadata = {"worker": "w", "timeout": "PT30S", "fetchVariables": ["a"], "tenantIds": [], "tenantFilter": "PROVIDED"}
    assert said == {
        "remote": [
            {
                "jobType": "mail",
                "metadata": metadata,
                "consumers": [{"id": stream.id, "receiver": gateway_name()}],
            }
        ],
        "client": [{"jobType": "mail", "id": stream.id, "metadata": metadata, "connectedTo": [0]}],
    }


def test_the_streams_of_other_gateways(client, open_gateway):
    other = Registry()
    names = ("grpc", "shop", "w", "mail")
    with other.streaming(*names) as theirs, worker_registry.streaming(*names) as ours:
        Writing(other, "default", "elsewhere").write()
        Writing(worker_registry.registry, "default").write()  # what is ours is not told twice
        client_streams = client.get("/actuator/jobstreams/client").json()
        (remote,) = client.get("/actuator/jobstreams/remote").json()
    assert sorted(each["id"] for each in client_streams) == sorted([ours.id, theirs.id])
    assert remote["consumers"] == [
        {"id": ours.id, "receiver": gateway_name()},
        {"id": theirs.id, "receiver": "elsewhere"},
    ]


def test_another_name_is_an_error(client, open_gateway):
    response = client.get("/actuator/jobstreams/all")
    assert response.status_code == 400
    assert response.json() == {"error": "expected one of client, remote, got 'all'"}


def test_without_streams_the_lists_are_empty(client, open_gateway):
    assert client.get("/actuator/jobstreams").json() == {"remote": [], "client": []}
    assert client.get("/actuator/jobstreams/remote").json() == []


def test_what_there_is(client, open_gateway):
    links = client.get("/actuator/").json()["_links"]
    assert links["jobstreams"]["href"] == "http://testserver/actuator/jobstreams"


@pytest.mark.parametrize("page", ["", "jobstreams", "jobstreams/client", "prometheus"])
def test_it_is_closed_by_default(client, page):
    assert client.get(f"/actuator/{page}").status_code == 401


def test_nothing_is_written_here(client, open_gateway):
    assert client.post("/actuator/jobstreams").status_code == 405


@pytest.mark.parametrize("limits", [{"types": ["mail"]}, {"tenants": ["acme"]}])
def test_a_client_that_may_see_a_part_sees_nothing(client, limits):
    _, secret = create_client("default", name="shop", permissions=["search"], **limits)
    for page in ("jobstreams", "prometheus"):
        response = client.get(f"/actuator/{page}", headers={"Authorization": f"Bearer {secret}"})
        assert response.status_code == 403


def test_a_client_that_may_search(client):
    _, secret = create_client("default", name="shop", permissions=["search"])
    _, other = create_client("default", name="worker", permissions=["work"])
    assert client.get("/actuator/jobstreams", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
    assert client.get("/actuator/jobstreams", headers={"Authorization": f"Bearer {other}"}).status_code == 403


def test_prometheus_has_a_token(client, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "METRICS_TOKEN": TOKEN}
    worker_registry.finished("completed", "mail")
    response = client.get("/actuator/prometheus", headers={"Authorization": f"Bearer {TOKEN}"})
    assert samples_of(response.content.decode())["zeebe_job_events_total", "completed", "mail"] == 1
    assert client.get("/actuator/prometheus", headers={"Authorization": f"Bearer {TOKEN}x"}).status_code == 401
    assert client.get("/actuator/jobstreams", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 401


def test_health(client, monkeypatch):
    response = client.get("/actuator/health")
    assert (response.status_code, response.json()) == (200, {"status": "UP"})

    class Away:
        def __getitem__(self, alias):
            raise OperationalError("away")

    monkeypatch.setattr(answers, "connections", Away())
    response = client.get("/actuator/health")
    assert (response.status_code, response.json()) == (503, {"status": "DOWN"})


class TestPort:
    """The actuator of a gateway that speaks no HTTP itself."""

    @pytest.fixture(autouse=True)
    def no_database(self, monkeypatch):
        monkeypatch.setattr(answers, "open_streams", list)

    @pytest.fixture
    def ask(self):
        server = serve_metrics(0)

        def get(page):
            try:
                with urlopen(server.url + page, timeout=TIMEOUT) as response:
                    return response.status, response.read().decode()
            except HTTPError as error:
                with error:
                    return error.code, error.read().decode()

        yield get
        assert server.stop()

    def test_metrics(self, ask):
        worker_registry.pushed(2)
        for page in ("/metrics", "/actuator/prometheus"):
            status, text = ask(page)
            assert (status, samples_of(text)["zeebe_gateway_job_stream_push_total", "success"]) == (200, 2)

    def test_streams(self, ask):
        status, text = ask("/actuator/jobstreams")
        assert (status, json.loads(text)) == (200, {"remote": [], "client": []})
        assert ask("/actuator/jobstreams/client") == (200, "[]")
        assert ask("/actuator/jobstreams/others")[0] == 400

    def test_other_pages(self, ask):
        status, text = ask("/")
        assert status == 404
        assert "/actuator/jobstreams" in text
