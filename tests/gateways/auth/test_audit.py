"""What operators change over REST is in the audit log, in the name of the client; what workers do is not."""

import asyncio
import json

import pytest
from django.test import AsyncClient

from jobexec.gateways import auth
from jobexec.models import Batch, Incident
from jobexec.operations.manage.gateway_clients import create_client
from tests.support.audit import audit_log
from tests.support.outside import make_external

from ..engine_rest import URLS as ENGINE_REST
from ..engine_rest import EngineRest
from ..v2 import URLS, V2


@pytest.fixture
def secret(engine):
    auth.forget()
    yield create_client(engine, name="ops", permissions=["work", "update", "resolve"])[1]
    auth.forget()


def said(entry):
    return entry.operator_type, entry.operator, entry.via, entry.origin, entry.verb


def test_camunda_8(alias, settings, secret):
    settings.ROOT_URLCONF = URLS
    v2, row = V2(f"Bearer {secret}"), make_external(alias, "pay")
    v2.activate()
    v2.call("PATCH", f"/jobs/{row.job_key}", {"changeset": {"retries": 7, "priority": 4, "timeout": 5000}})
    assert v2.status == 204, v2.body
    entries = audit_log(alias)
    assert [said(entry) for entry in entries] == [
        ("client", "ops", "REST", "127.0.0.1", "set_external_retries"),
        ("client", "ops", "REST", "127.0.0.1", "set_external_priority"),
    ]
    assert entries[0].object_id == str(row.pk) and "lease" not in str([entry.__dict__ for entry in entries])
    v2.post(f"/jobs/{row.job_key}/failure", {"retries": 0})
    v2.call("PATCH", f"/jobs/{row.job_key}", {"changeset": {"retries": 1}})
    v2.post(f"/incidents/{Incident.objects.using(alias).get().incident_key}/resolution")
    assert [entry.verb for entry in audit_log(alias)[2:]] == ["set_external_retries", "resolve_external_incident"]
    v2.activate()
    v2.post(f"/jobs/{row.job_key}/completion")
    assert len(audit_log(alias)) == 4


def test_a_change_that_is_refused_is_not_noted(alias, settings, secret):
    settings.ROOT_URLCONF = URLS
    v2, row = V2(f"Bearer {secret}"), make_external(alias, "pay")
    v2.call("PATCH", f"/jobs/{row.job_key}", {"changeset": {"retries": 7, "timeout": 5000}})
    assert v2.status == 409, "nobody holds it"
    assert audit_log(alias) == []


def test_camunda_7(alias, settings, secret):
    settings.ROOT_URLCONF = ENGINE_REST
    rest, rows = EngineRest(AUTHORIZATION=f"Bearer {secret}"), [make_external(alias) for _ in range(2)]
    keys = [str(row.job_key) for row in rows]
    assert rest.put(f"/external-task/{keys[0]}/retries", retries=5)[0] == 204
    assert rest.put("/external-task/retries", retries=6, externalTaskIds=keys)[0] == 204
    assert rest.post("/external-task/retries-async", retries=6, externalTaskIds=keys)[0] == 200
    one, many, later = audit_log(alias)
    assert said(one) == ("client", "ops", "REST", "127.0.0.1", "set_retries")
    assert (one.object_id, one.new_value) == (str(rows[0].pk), {"retries": 5})
    assert (many.count, set(many.scope["ids"])) == (2, {str(row.pk) for row in rows})
    assert (later.verb, later.object_id) == ("start_batch", str(Batch.objects.using(alias).get().pk))


async def ask(path, secret, body):
    given = {"content_type": "application/json", "headers": {"Authorization": f"Bearer {secret}"}}
    return await AsyncClient().generic("PATCH", path, json.dumps(body), **given)


@pytest.mark.transactional
def test_in_the_threads_of_an_asgi_server(alias, settings, secret):
    settings.ROOT_URLCONF = URLS
    row = make_external(alias, "pay")
    response = asyncio.run(ask(f"/v2/jobs/{row.job_key}", secret, {"changeset": {"retries": 7}}))
    assert response.status_code == 204
    assert [said(entry)[1:3] for entry in audit_log(alias)] == [("ops", "REST")]
