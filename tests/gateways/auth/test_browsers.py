"""A page of another site cannot let a browser use the credentials that it remembers."""

import base64
import json

import pytest
from django.test import Client

from jobexec.gateways import auth
from jobexec.models import ExternalWorkerJob
from jobexec.operations.manage.gateway_clients import create_client
from tests.support.factories import make_external

pytestmark = pytest.mark.urls("jobexec.gateways.rest.urls")

ACTIVATE = json.dumps({"type": "payment", "worker": "w", "timeout": 1000, "maxJobsToActivate": 1, "requestTimeout": -1})
FETCH = json.dumps({"workerId": "w", "maxTasks": 1, "topics": [{"topicName": "payment", "lockDuration": 1000}]})
OWN, OTHER, TRUSTED = "http://testserver", "https://evil.example", "https://ops.shop.example"


@pytest.fixture(params=[("/v2/jobs/activation", ACTIVATE), ("/engine-rest/external-task/fetchAndLock", FETCH)])
def send(request, alias, settings):
    """A function that sends a request as a browser would, and returns its status and whether a job was given out."""
    settings.JOBEXEC = {"ENGINES": {alias: {}}, "GATEWAY_DATABASE": alias}
    settings.CSRF_TRUSTED_ORIGINS = ["https://*.shop.example"]
    auth.forget()
    _row, secret = create_client(alias, name="java", permissions=["work"])
    path, body = request.param
    basic = "Basic " + base64.b64encode(f"java:{secret}".encode()).decode()

    def call(type="application/json", bearer=False, **headers):
        make_external(alias)
        authorization = f"Bearer {secret}" if bearer else basic
        answer = Client(headers={"authorization": authorization, **headers}).post(path, body, content_type=type)
        taken = ExternalWorkerJob.objects.using(alias).exclude(lock_owner=None).exists()
        return answer.status_code, taken

    yield call
    auth.forget()


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": OTHER},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": OTHER, "sec-fetch-site": "cross-site"},
        {"origin": "https://testserver"},  # another scheme is another site
        {"origin": "https://shop.example.evil.example"},
    ],
)
def test_another_site_is_refused(send, headers):
    assert send(**headers) == (403, False)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": OWN, "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
        {"origin": TRUSTED, "sec-fetch-site": "cross-site"},
    ],
)
def test_workers_our_own_pages_and_trusted_ones_are_not(send, headers):
    assert send(**headers) == (200, True)


def test_a_token_that_the_page_itself_has_to_know_is_no_remembered_one(send):
    assert send(bearer=True, origin=OTHER) == (200, True)


@pytest.mark.parametrize("type", ["text/plain", "application/x-www-form-urlencoded", "text/x; application/json", ""])
def test_what_does_not_call_itself_json_is_refused(send, type):
    """A page may send these to another site without asking it first."""
    assert send(type=type) == (415, False)


@pytest.mark.parametrize("type", ["application/json; charset=utf-8", "application/vnd.shop+json"])
def test_what_does_is_not(send, type):
    assert send(type=type) == (200, True)
