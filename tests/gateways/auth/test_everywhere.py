"""Every address of the gateways over HTTP is closed, and what a client may not see it does not get by any of them."""

import json
import re

import pytest
from django.test import Client
from django.urls import URLPattern, get_resolver

from jobexec import clock
from jobexec.gateways import auth, worker_registry
from jobexec.models import ExternalWorker, ExternalWorkerJob
from jobexec.operations.manage.gateway_clients import create_client
from tests.support.factories import make_external

URLS = "jobexec.gateways.rest.urls"
METHODS = ("get", "post", "put", "patch", "delete")
#: Which say nothing but that the gateway is well, or give tokens for secrets.
OPEN = {"/actuator/health", "/oauth/token"}

pytestmark = pytest.mark.urls(URLS)


def addresses(patterns=None, before="/"):
    """All of them, with a number in place of each part that varies."""
    for pattern in get_resolver(URLS).url_patterns if patterns is None else patterns:
        here = before + re.sub(r"\(\?:.*\)\?|[\^$]", "", re.sub(r"<\w+:\w+>", "1", str(pattern.pattern)))
        if isinstance(pattern, URLPattern):
            yield here
        else:
            yield from addresses(pattern.url_patterns, here)


ALL = sorted(set(addresses()))


@pytest.fixture(autouse=True)
def gateway(alias, settings):
    settings.JOBEXEC = {"ENGINES": {alias: {}}, "GATEWAY_DATABASE": alias}
    auth.forget()
    yield
    auth.forget()


class Caller(Client):
    """Sends JSON with an authorization."""

    def __init__(self, secret=None):
        super().__init__(headers={"authorization": f"Bearer {secret}"} if secret else {})

    def send(self, method, path, body=None):
        return getattr(self, method)(path, json.dumps(body or {}), content_type="application/json")


@pytest.mark.databases("sqlite")
def test_all_of_them_are_known_here(alias):
    assert {"/v2/jobs/activation", "/v2/jobs/1", "/engine-rest/external-task/1/complete", *OPEN} <= set(ALL)
    assert len(ALL) > 40


@pytest.mark.gate
@pytest.mark.databases("sqlite")
def test_nobody_gets_anything_without_credentials(alias):
    nobody, wrong = Caller(), Caller("jxc_wrong")
    for path in sorted(set(ALL) - OPEN):
        answers = [nobody.get(path), wrong.get(path), *(nobody.send(method, path) for method in METHODS[1:])]
        assert {answer.status_code for answer in answers} <= {401, 405}, path
        assert 401 in {answer.status_code for answer in answers}, path


@pytest.mark.databases("sqlite")
def test_whoever_may_only_work_can_neither_look_nor_change(alias):
    _row, secret = create_client(alias, name="java")
    caller, key = Caller(secret), make_external(alias).job_key
    for method, path in (
        ("post", "/v2/jobs/search"),
        ("patch", f"/v2/jobs/{key}"),
        ("post", "/v2/incidents/search"),
        ("get", "/v2/incidents/1"),
        ("post", "/v2/incidents/1/resolution"),
        ("get", "/v2/jobs/statistics/global"),
        ("post", "/v2/jobs/statistics/by-types"),
        ("post", "/v2/jobs/statistics/by-workers"),
        ("post", "/engine-rest/external-task"),
        ("get", "/engine-rest/external-task/count"),
        ("get", f"/engine-rest/external-task/{key}"),
        ("get", f"/engine-rest/external-task/{key}/errorDetails"),
        ("put", f"/engine-rest/external-task/{key}/retries"),
        ("put", f"/engine-rest/external-task/{key}/priority"),
        ("put", "/engine-rest/external-task/retries"),
        ("post", "/engine-rest/external-task/retries-async"),
        ("get", "/actuator/jobstreams"),
        ("get", "/actuator/prometheus"),
    ):
        response = (
            caller.get(path)
            if method == "get"
            else caller.send(method, path, {"retries": 9, "changeset": {"retries": 9}})
        )
        assert response.status_code == 403, (method, path, response.content)


def test_a_worker_may_extend_the_deadline_of_its_job_and_change_nothing_else(alias):
    row, worker = make_external(alias, "payment"), Caller(create_client(alias, name="shop")[1])
    fetch = {"type": "payment", "timeout": 9000, "maxJobsToActivate": 1, "requestTimeout": -1}
    assert len(worker.send("post", "/v2/jobs/activation", fetch).json()["jobs"]) == 1
    path = f"/v2/jobs/{row.job_key}"
    assert worker.send("patch", path, {"changeset": {"timeout": 90_000}}).status_code == 204
    for changes in ({"retries": 9}, {"priority": 9}, {"timeout": 9000, "retries": 9}):
        assert worker.send("patch", path, {"changeset": changes}).status_code == 403
    row.refresh_from_db()
    assert (row.retries, row.priority) == (3, 0)


@pytest.fixture
def world(alias):
    """Jobs of several types and tenants, and a client that may do everything with two of them."""
    permissions = ["work", "search", "update", "resolve"]
    _row, secret = create_client(
        alias, name="shop", types=["payment", "mail.*"], tenants=["acme"], permissions=permissions
    )
    mine = [make_external(alias, type, tenant_id="acme").job_key for type in ("payment", "mail.send")]
    theirs = [make_external(alias, "payment", tenant_id=tenant).job_key for tenant in ("", "beta")]
    others = [make_external(alias, type, tenant_id="acme").job_key for type in ("secret", "MAIL.secret", "mail_secret")]
    return Caller(secret), mine, [*theirs, *others]


def untouched(alias, keys):
    rows = ExternalWorkerJob.objects.using(alias).filter(job_key__in=keys)
    return list(rows.order_by("pk").values())


@pytest.mark.gate
def test_searches_show_only_what_is_ones_own(alias, world):
    caller, mine, _theirs = world
    for body in ({}, {"filter": {"tenantId": {"$neq": "acme"}}}, {"filter": {"type": {"$like": "*"}}}):
        found = caller.send("post", "/v2/jobs/search", body).json()["items"]
        assert {int(job["jobKey"]) for job in found} <= set(mine), body
    assert {int(job["jobKey"]) for job in caller.send("post", "/v2/jobs/search").json()["items"]} == set(mine)
    listed = caller.get("/engine-rest/external-task").json()
    assert {int(task["id"]) for task in listed} == set(mine)
    assert caller.get("/engine-rest/external-task/count").json() == {"count": 2}
    assert set(caller.get("/engine-rest/external-task/topic-names").json()) == {"payment", "mail.send"}
    text = caller.send(
        "post",
        "/v2/jobs/statistics/by-types",
        {"filter": {"from": "2000-01-01T00:00:00Z", "to": "2099-01-01T00:00:00Z"}},
    )
    assert b"secret" not in text.content


def test_nothing_can_be_done_to_what_is_not_ones_own(alias, world):
    caller, _mine, theirs = world
    before = untouched(alias, theirs)
    assert len(before) == 5
    worker = {"workerId": "w"}
    for key in theirs:
        for method, path, body in (
            ("post", f"/v2/jobs/{key}/completion", {}),
            ("post", f"/v2/jobs/{key}/failure", {"retries": 0}),
            ("post", f"/v2/jobs/{key}/error", {"errorCode": "X"}),
            ("patch", f"/v2/jobs/{key}", {"changeset": {"retries": 9}}),
            ("patch", f"/v2/jobs/{key}", {"changeset": {"timeout": 9000}}),
            ("patch", f"/v2/jobs/{key}", {"changeset": {"priority": 9}}),
            ("post", f"/engine-rest/external-task/{key}/complete", worker),
            ("post", f"/engine-rest/external-task/{key}/failure", {**worker, "retries": 0}),
            ("post", f"/engine-rest/external-task/{key}/bpmnError", {**worker, "errorCode": "X"}),
            ("post", f"/engine-rest/external-task/{key}/extendLock", {**worker, "newDuration": 9000}),
            ("post", f"/engine-rest/external-task/{key}/lock", {**worker, "lockDuration": 9000}),
            ("post", f"/engine-rest/external-task/{key}/unlock", {}),
            ("put", f"/engine-rest/external-task/{key}/retries", {"retries": 9}),
            ("put", f"/engine-rest/external-task/{key}/priority", {"priority": 9}),
            ("put", "/engine-rest/external-task/retries", {"retries": 9, "externalTaskIds": [str(key)]}),
        ):
            response = caller.send(method, path, body)
            assert response.status_code in (403, 404), (path, response.status_code, response.content)
    everything = {"retries": 9, "externalTaskQuery": {}}
    caller.send("put", "/engine-rest/external-task/retries", everything)
    caller.send("post", "/engine-rest/external-task/retries-async", everything)
    for key in theirs:
        assert caller.get(f"/engine-rest/external-task/{key}").status_code in (403, 404)
    assert untouched(alias, theirs) == before


def test_nobody_fetches_what_is_not_his_own(alias, world):
    caller, mine, theirs = world
    before = untouched(alias, theirs)
    asked = {"timeout": 9000, "maxJobsToActivate": 9, "requestTimeout": -1}
    assert caller.send("post", "/v2/jobs/activation", {**asked, "type": "secret"}).status_code == 403
    refused = caller.send("post", "/v2/jobs/activation", {**asked, "type": "payment", "tenantIds": ["beta"]})
    assert refused.status_code == 403
    refused = caller.send(
        "post", "/v2/jobs/activation", {**asked, "type": "payment", "tenantIds": ["<default>", "acme"]}
    )
    assert refused.status_code == 403
    found = caller.send("post", "/v2/jobs/activation", {**asked, "type": "payment"}).json()["jobs"]
    assert [int(job["jobKey"]) for job in found] == mine[:1]
    topics = [{"topicName": type, "lockDuration": 9000} for type in ("payment", "mail.send", "secret")]
    for body in (topics, topics[:2], [{**topics[0], "tenantIdIn": ["beta"]}], [{**topics[0], "withoutTenantId": True}]):
        response = caller.send(
            "post", "/engine-rest/external-task/fetchAndLock", {"workerId": "w", "maxTasks": 9, "topics": body}
        )
        fetched = response.json() if response.status_code == 200 else []
        assert {int(task["id"]) for task in fetched} <= set(mine), body
    assert untouched(alias, theirs) == before


def test_nobody_learns_what_types_others_have(alias, world):
    """Neither of other tenants' workers, nor from jobs whose keys one makes up."""
    caller, _mine, theirs = world
    ExternalWorker.objects.using(alias).create(
        gateway="g", protocol="rest", client="beta", worker="w", type="mail.beta-only", last_seen=clock.now(alias)
    )
    span = {"from": "2000-01-01T00:00:00Z", "to": "2099-01-01T00:00:00Z"}
    shown = caller.send("post", "/v2/jobs/statistics/by-types", {"filter": span})
    assert b"payment" in shown.content
    assert b"beta-only" not in shown.content
    for key in theirs:
        for path in (f"/v2/jobs/{key}/completion", f"/engine-rest/external-task/{key}/complete"):
            refusal = caller.send("post", path, {"workerId": "w"} if "engine-rest" in path else {})
            assert refusal.status_code in (403, 404)
            assert b"secret" not in refusal.content


@pytest.mark.databases("sqlite")
def test_who_is_refused_is_no_worker_of_the_type(alias):
    """Otherwise nobody would be told that the type has none."""
    worker = Caller(create_client(alias, name="shop", types=["payment"], tenants=["acme"])[1])
    poll = {"type": "mail", "worker": "w", "timeout": 1000, "maxJobsToActivate": 1, "requestTimeout": -1}
    other = {**poll, "type": "payment", "tenantIds": ["other"]}
    topics = [{"topicName": name, "lockDuration": 1000} for name in ("payment", "mail")]
    worker_registry.registry.clear()
    assert worker.send("post", "/v2/jobs/activation", poll).status_code == 403
    assert worker.send("post", "/v2/jobs/activation", other).status_code == 403
    fetch = {"workerId": "w", "maxTasks": 1, "topics": topics}
    assert worker.send("post", "/engine-rest/external-task/fetchAndLock", fetch).status_code == 403
    assert worker_registry.registry.sights() == []
    assert worker.send("post", "/v2/jobs/activation", {**poll, "type": "payment"}).status_code == 200
    assert [sight.key.type for sight in worker_registry.registry.sights()] == ["payment"]
