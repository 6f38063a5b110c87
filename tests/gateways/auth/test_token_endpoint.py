"""A client gets an access token for its secret, as OAuth 2 has it, and what it gets is taken."""

import base64
import json
import logging
from urllib.parse import quote_plus

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.test import Client
from django.urls import include, path

from jobexec.clock import FrozenClock
from jobexec.gateways import auth
from jobexec.gateways.auth import credential_cache
from jobexec.operations.manage.gateway_clients import create_client, set_client_enabled

urlpatterns = [path("oauth/", include("jobexec.gateways.auth.urls"))]
pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def frozen():
    with FrozenClock() as clock:
        yield clock


@pytest.fixture(autouse=True)
def nobody_is_remembered():
    auth.forget()
    yield
    auth.forget()


def basic(name, secret):
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()}


def ask(data=None, headers=None, **more):
    client = Client(enforce_csrf_checks=True)
    return client.post("/oauth/token", {"grant_type": "client_credentials"} | (data or {}), headers=headers, **more)


def test_what_the_form_says(settings):
    settings.JOBEXEC = {"GATEWAY_TOKEN_TTL": 300}
    _row, secret = create_client("default", name="java", permissions=["work", "search"])
    # What clients of Camunda send besides is not asked for.
    more = {"client_id": "java", "client_secret": secret, "audience": "zeebe.camunda.io"}
    response = ask(more)
    answer = response.json()
    token = answer.pop("access_token")
    assert answer == {"token_type": "Bearer", "expires_in": 300, "scope": "search work"}
    assert response["Content-Type"] == "application/json"
    assert "no-store" in response["Cache-Control"]
    assert auth.authenticate(f"Bearer {token}").name == "java"
    # oauthlib takes a scope that is not the one it has asked for for an error.
    assert ask({**more, "scope": "anything"}).json()["scope"] == "anything"


@pytest.mark.parametrize("name", ["java", "a+b@c", "50% more", "Köln"])
def test_basic_authentication_encoded_or_not(name):
    _row, secret = create_client("default", name=name)
    for spelled in (name, quote_plus(name)):
        assert auth.authenticate(f"Bearer {ask(headers=basic(spelled, secret)).json()['access_token']}").name == name


def test_json():
    _row, secret = create_client("default", name="java")
    body = {"grant_type": "client_credentials", "client_id": "java", "client_secret": secret}
    response = Client().post("/oauth/token", json.dumps(body), content_type="application/json")
    assert auth.authenticate(f"Bearer {response.json()['access_token']}").name == "java"


def test_who_is_wrong_learns_nothing():
    _row, secret = create_client("default", name="java")
    _row, off = create_client("default", name="off", enabled=False)
    _row, other = create_client("default", name="go")
    token = ask({"client_id": "java", "client_secret": secret}).json()["access_token"]
    answers = [
        ask(),
        ask({"client_id": "java"}),
        ask({"client_id": "java", "client_secret": "x"}),
        ask({"client_id": "nobody", "client_secret": "x"}),
        ask({"client_id": "java", "client_secret": other}),
        ask({"client_id": "off", "client_secret": off}),
        ask({"client_id": "java", "client_secret": token}),  # a token does not make another
        ask({"client_id": "java\0", "client_secret": secret}),
        ask(headers={"authorization": f"Bearer {secret}"}),
        ask({"client_id": "java", "client_secret": secret}, headers=basic("java", "x")),
        ask(headers={"authorization": "Basic x"}),
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1
    assert answers[0].json()["error"] == "invalid_client"
    assert answers[0]["WWW-Authenticate"] == 'Basic realm="jobexec"'


def test_a_request_that_cannot_be_understood():
    for data, error in (
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": ""}, "invalid_request"),
    ):
        response = ask(data)
        assert (response.status_code, response.json()["error"]) == (400, error)
    for body in ("[", "[" * 100_000, "[]", "1", '"x"', b"\xff"):
        response = Client().post("/oauth/token", body, content_type="application/json")
        assert (response.status_code, response.json()["error"]) == (400, "invalid_request")
    assert Client().get("/oauth/token?client_secret=x").status_code == 405


def test_where_nobody_is_asked_a_token_is_worth_nothing_later(settings):
    settings.JOBEXEC = {"GATEWAY_AUTH": "none"}
    token = ask({"client_id": "x", "client_secret": "y"}).json()["access_token"]
    assert auth.authenticate(f"Bearer {token}") is auth.ANYBODY
    settings.JOBEXEC = {}
    with pytest.raises(auth.Unauthenticated):
        auth.authenticate(f"Bearer {token}")


def test_a_client_that_is_disabled_gets_none():
    _row, secret = create_client("default", name="java")
    set_client_enabled("default", "java", False)
    assert ask({"client_id": "java", "client_secret": secret}).status_code == 401


def test_guesses_at_one_address_keep_nobody_out_who_got_a_token_from_there(frozen, caplog):
    _row, secret = create_client("default", name="java")
    _row, other = create_client("default", name="go")
    for ways in ({"data": {"client_id": "java", "client_secret": secret}}, {"headers": basic("java", secret)}):
        assert ask(**ways).status_code == 200
        codes = {ask({"client_id": "java", "client_secret": f"jxc_{number}"}).status_code for number in range(50)}
        assert codes == {401, 503}
        assert ask(**ways).status_code == 200
        assert ask({"client_id": "go", "client_secret": other}).status_code == 503
        frozen.tick(credential_cache.SECONDS)
    assert not [line for line in caplog.records if line.levelno >= logging.ERROR]  # Django would mail each


def test_a_client_that_is_refused_costs_a_query_in_a_while(frozen, django_assert_num_queries):
    _row, secret = create_client("default", name="java")
    wanted = {"client_id": "java", "client_secret": secret}
    assert ask(wanted).status_code == 200
    set_client_enabled("default", "java", False)
    with django_assert_num_queries(1):
        assert {ask(wanted).status_code for _ in range(9)} == {401}
    set_client_enabled("default", "java", True)
    frozen.tick(credential_cache.SECONDS)
    assert ask(wanted).status_code == 200


def test_a_file_is_not_read_for_who_is_not_known(settings):
    settings.FILE_UPLOAD_HANDLERS = [f"{__name__}.Refusing"]
    _row, secret = create_client("default", name="java")
    wanted = {"client_id": "java", "client_secret": secret}
    assert ask(wanted).status_code == 200
    for size in (10, 100_000):
        response = ask({**wanted, "file": SimpleUploadedFile("a", b"x" * size)})
        assert response.status_code == (200 if size == 10 else 400)


class Refusing(FileUploadHandler):
    def new_file(self, *args, **kwargs):
        raise AssertionError("A file is being read.")
