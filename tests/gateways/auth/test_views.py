"""Views that only clients may ask: what they are answered who may not, users of the site, rates, what is written."""

import asyncio
import base64
import json
import logging
import threading
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser, Permission
from django.db import OperationalError, connection
from django.http import HttpResponse, JsonResponse
from django.test import AsyncRequestFactory, RequestFactory
from django.test.utils import CaptureQueriesContext

from jobexec.clock import FrozenClock
from jobexec.gateways import auth
from jobexec.gateways.auth import credential_cache, limits, rejected_log, tokens, users, verify, views
from jobexec.gateways.auth.limits import Buckets, buckets
from jobexec.operations.manage.gateway_clients import change_client, create_client
from tests.support.threads import together
from tests.support.waiting import passed

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def frozen():
    """Time stands still, nobody is remembered, and nobody has asked yet."""
    auth.forget()
    buckets.clear()
    users._tries.clear()
    with FrozenClock(datetime(2026, 3, 1, 12, tzinfo=UTC)) as clock:
        yield clock
    auth.forget()


@auth.protected("work")
def work(request, what="jobs"):
    return HttpResponse(f"{auth.client_of(request).name}: {what}")


@auth.protected("work", counts=auth.RESULTS)
def complete(request):
    return HttpResponse("completed")


@auth.protected("work", counts=auth.REPORTS)
def report(request):
    return HttpResponse(status=int(request.GET.get("status", 204)))


@auth.protected("work", counts=auth.RESULTS)
def result(request):
    return HttpResponse(status=int(request.GET.get("status", 204)))


@auth.protected("work")
async def work_async(request, what="jobs"):
    await asyncio.sleep(0)
    return HttpResponse(f"{auth.client_of(request).name}: {what}")


@auth.protected("update")
def update(request):
    return HttpResponse(status=int(request.GET.get("status", 204)))


@auth.protected("resolve")
async def resolve(request):
    return HttpResponse(status=204)


JSON = {"data": b"{}", "content_type": "application/json"}


def ask(view, authorization=None, *, path="/v2/x", address="127.0.0.1", **more):
    headers = {"authorization": authorization} if authorization is not None else {}
    request = RequestFactory(enforce_csrf_checks=True, REMOTE_ADDR=address).post(path, **JSON, headers=headers)
    vars(request).update(more)
    return view(request)


def ask_async(view, authorization=None):
    headers = {"authorization": authorization} if authorization is not None else {}
    return asyncio.run(view(AsyncRequestFactory().post("/v2/x", **JSON, headers=headers)))


def basic(name, secret):
    return "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()


def test_who_shows_nothing_is_asked_for_credentials():
    for response in (ask(work), ask(work, ""), ask(work, "Bearer x"), ask_async(work_async), ask_async(work_async, "")):
        assert response.status_code == 401
        assert response["WWW-Authenticate"] == 'Basic realm="jobexec", Bearer'
        assert response["Content-Type"] == "application/problem+json"
        assert json.loads(response.content) == {
            "type": "about:blank",
            "title": "UNAUTHORIZED",
            "status": 401,
            "detail": "The credentials are missing or not valid.",
            "instance": "/v2/x",
        }


def test_a_client_is_let_in():
    _row, secret = create_client("default", name="java")
    assert ask(work, f"Bearer {secret}").content == b"java: jobs"
    assert ask(work, basic("java", secret)).content == b"java: jobs"
    assert work.csrf_exempt and work_async.csrf_exempt


@pytest.mark.transactional
@pytest.mark.databases("sqlite")
def test_a_view_that_is_awaited(alias):
    _row, secret = create_client(alias, name="java")
    for _ in range(2):  # verified in a thread, then remembered
        assert ask_async(work_async, f"Bearer {secret}").content == b"java: jobs"


def test_a_permission_that_is_missing():
    _row, secret = create_client("default", name="java", permissions=["search"])
    response = ask(work, f"Bearer {secret}")
    assert response.status_code == 403
    assert json.loads(response.content)["title"] == "FORBIDDEN"
    assert "'work'" in json.loads(response.content)["detail"]


def test_each_protocol_has_its_own_answer():
    def camunda_7(request, refusal):
        return JsonResponse({"type": "RestException", "message": refusal.detail}, status=refusal.status)

    response = ask(auth.protected(problem=camunda_7)(work), "Bearer x")
    assert response.status_code == 401 and response["WWW-Authenticate"]
    assert json.loads(response.content)["message"] == "The credentials are missing or not valid."


def test_a_database_that_is_away_is_not_a_wrong_secret(monkeypatch):
    def away(*args):
        raise OperationalError("connection refused at 10.0.0.7")

    monkeypatch.setattr(verify, "_verified", away)
    response = ask(work, "Bearer jxc_x")
    assert (response.status_code, response["Retry-After"]) == (503, "1")
    assert json.loads(response.content)["title"] == "UNAVAILABLE"
    assert b"10.0.0.7" not in response.content


# Rates.


def test_too_many_requests_wait_and_what_finishes_a_job_gets_through(settings, frozen):
    settings.JOBEXEC = {"GATEWAY_REQUESTS_PER_SECOND": 2}
    _row, secret = create_client("default", name="java")
    _row, other = create_client("default", name="go")
    answers = [ask(work, f"Bearer {secret}") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 503]
    assert json.loads(answers[-1].content)["title"] == "RESOURCE_EXHAUSTED"
    assert answers[-1]["Retry-After"] == "1"
    assert ask(complete, f"Bearer {secret}").content == b"completed"
    assert ask(work, f"Bearer {other}").status_code == 200
    frozen.tick(0.5)
    assert [ask(work, f"Bearer {secret}").status_code for _ in range(2)] == [200, 503]


def test_a_client_has_its_own_rate(settings):
    settings.JOBEXEC = {"GATEWAY_REQUESTS_PER_SECOND": 1}
    _row, secret = create_client("default", name="java", max_requests_per_second=3)
    assert [ask(work, f"Bearer {secret}").status_code for _ in range(4)] == [200, 200, 200, 503]
    change_client("default", "java", max_requests_per_second=0)
    auth.forget()
    assert {ask(work, f"Bearer {secret}").status_code for _ in range(50)} == {200}


def test_without_a_rate_nothing_is_counted():
    client = auth.Client(caller=auth.ANYBODY.caller, permissions=frozenset(), key="x")
    for _ in range(1000):
        auth.limit(client)
    assert not buckets._levels


def test_what_is_said_of_jobs_has_an_allowance_of_its_own_and_what_succeeds_is_free(settings):
    settings.JOBEXEC = {"GATEWAY_REQUESTS_PER_SECOND": 2}
    _row, secret = create_client("default", name="java")

    def sent(view, status, times):
        return [ask(view, f"Bearer {secret}", path=f"/?status={status}").status_code for _ in range(times)]

    assert sent(result, 204, 300) == [204] * 300
    assert sent(result, 404, 101) == [404] * 100 + [503]
    assert sent(report, 204, 1) == [503]  # the same bucket
    buckets.clear()
    assert sent(report, 204, 101) == [204] * 100 + [503]
    settings.JOBEXEC = {"GATEWAY_REQUESTS_PER_SECOND": 20}
    buckets.clear()
    assert sent(report, 204, 201) == [204] * 200 + [503]


@pytest.mark.parametrize("rate", [1, 3, 7, 1000])
def test_a_bucket_gives_its_rate_and_no_more(rate, frozen):
    full = Buckets()
    taken = sum(not full.take("a", rate) for _ in range(rate * 2))
    assert taken == rate
    wait = full.take("a", rate)
    assert 0 < wait <= 1 / rate + 1e-6
    frozen.tick(wait + 1e-6)  # the clock has microseconds
    assert not full.take("a", rate)
    assert full.take("a", rate)
    frozen.tick(3600)  # it never holds more than what comes in a second
    assert sum(not full.take("a", rate) for _ in range(rate * 2)) == rate


# What operators do is written down.


def test_what_an_operator_changes_is_logged_with_his_name(caplog):
    _row, secret = create_client("default", name="ops", permissions=["update", "resolve"])
    _row, worker = create_client("default", name="java")
    caplog.set_level(logging.INFO, "jobexec.gateway")
    ask(update, f"Bearer {secret}", path="/v2/jobs/5\n2026 root: nothing")
    ask(update, f"Bearer {secret}", path="/v2/jobs/6?status=404")
    ask(update, f"Bearer {worker}", path="/v2/jobs/7")
    (record,) = caplog.records
    assert record.gateway_client == "ops"
    assert record.message.startswith("The client 'ops': POST '/v2/jobs/5") and "\n" not in record.message


def test_a_name_cannot_make_a_line_of_its_own(caplog):
    caplog.set_level(logging.INFO, "jobexec.gateway")
    client = auth.Client(caller=SimpleNamespace(name="a\nroot"), permissions=frozenset())
    auth.audit(client, "UpdateJobRetries", 5)
    assert caplog.records[0].message == "The client 'a\\nroot': UpdateJobRetries '5'."


# Users of the site.


@pytest.fixture
def user():
    """May use the gateways."""
    made = get_user_model().objects.create_user("ann", password="correct horse")
    made.user_permissions.add(Permission.objects.get(codename="use_gateway"))
    return made


@pytest.fixture
def let_in(settings):
    settings.JOBEXEC = {"GATEWAY_USERS": True}


def test_users_are_not_let_in_unless_the_settings_say_so(user):
    assert ask(work, basic("ann", "correct horse")).status_code == 401
    assert ask(work, user=user).status_code == 401


def test_a_user_with_a_password(user, let_in, settings):
    assert ask(work, basic("ann", "correct horse")).content == b"ann: jobs"
    assert ask(update, basic("ann", "correct horse")).status_code == 403
    for name, password in (("ann", "wrong"), ("nobody", "correct horse"), ("ann\0", "correct horse"), ("ann", "")):
        assert ask(work, basic(name, password)).status_code == 401
    assert ask(work, "Bearer correct horse").status_code == 401


def test_a_password_is_hashed_once_in_a_while(user, let_in, monkeypatch):
    calls = []
    monkeypatch.setattr(users, "authenticate", lambda **given: calls.append(given["username"]) or user)
    for _ in range(100):
        assert ask(work, basic("ann", "correct horse")).status_code == 200
    assert calls == ["ann"]


def test_what_a_user_may_do(user, let_in):
    user.user_permissions.add(Permission.objects.get(codename="operate_gateway"))
    assert ask(update, basic("ann", "correct horse")).status_code == 204
    auth.forget()
    user.user_permissions.clear()
    assert ask(work, basic("ann", "correct horse")).status_code == 403
    user.is_active = False
    user.save()
    assert ask(work, basic("ann", "correct horse")).status_code == 401


def guess(name, number, address):
    return ask(work, basic(name, f"wrong{number}"), address=address).status_code


def test_passwords_cannot_be_tried_for_long(user, let_in, frozen):
    codes = [guess("ann", number, "10.0.0.66") for number in range(9)]
    assert codes == [401] * users.TRIES_OF_ACCOUNT + [503] * (9 - users.TRIES_OF_ACCOUNT)
    codes = [guess(f"user{number}", number, "10.0.0.66") for number in range(9)]
    assert codes.count(401) == users.TRIES_OF_ADDRESS - users.TRIES_OF_ACCOUNT
    codes = [guess(f"user{number}", "again", f"10.0.1.{number}") for number in range(30)]
    assert codes.count(401) == users.TRIES - users.TRIES_OF_ADDRESS
    frozen.tick(1)
    assert ask(work, basic("ann", "correct horse"), address="10.0.0.66").status_code == 200


@pytest.mark.gate
def test_failures_of_a_stranger_keep_nobody_out_who_is_elsewhere(user, let_in, frozen):
    for number in range(95):
        guess("ann", number, "10.0.0.66")
        guess(f"user{number}", number, "10.0.0.66")
        auth.forget()  # nobody has been here before
        assert ask(work, basic("ann", "correct horse"), address="10.0.0.7").status_code == 200


def test_who_got_in_from_there_does_not_stand_behind_strangers(user, let_in, frozen):
    assert ask(work, basic("ann", "correct horse"), address="10.0.0.7").status_code == 200
    for number in range(30):
        guess(f"user{number}", number, "10.0.0.7")
        guess(f"user{number}", "again", f"10.0.1.{number}")
    credential_cache.forget()
    assert ask(work, basic("ann", "correct horse"), address="10.0.0.7").status_code == 200
    credential_cache.forget()
    assert ask(work, basic("ann", "correct horse"), address="10.0.0.8").status_code == 503


def queries_of(captured):
    return [each["sql"] for each in captured if "jobexec_gatewayclient" in each["sql"]]


def test_guesses_cost_few_queries(frozen):
    with CaptureQueriesContext(connection) as captured:
        assert {ask(work, "Bearer jxc_same").status_code for _ in range(50)} == {401}
        assert {ask_async(work_async, "Bearer jxc_same").status_code for _ in range(5)} == {401}
    assert len(queries_of(captured)) == 1
    with CaptureQueriesContext(connection) as captured:
        codes = [ask(work, f"Bearer jxc_{number}").status_code for number in range(50)]
    assert codes.count(401) == len(queries_of(captured)) == rejected_log.GUESSES - 1
    assert codes[-1] == 503
    frozen.tick(credential_cache.SECONDS)
    assert ask(work, "Bearer jxc_same").status_code == 401


def test_what_was_refused_a_moment_ago_is_refused_without_asking_also_when_that_ends_meanwhile(monkeypatch):
    monkeypatch.setattr(views, "is_refused", lambda authorization: True)  # and forgotten right afterwards
    with CaptureQueriesContext(connection) as captured:
        assert ask_async(work_async, "Bearer jxc_same").status_code == 401
    assert not queries_of(captured)


def test_guesses_at_one_address_keep_nobody_out(frozen):
    _row, secret = create_client("default", name="java")
    assert ask(work, f"Bearer {secret}").status_code == 200
    for number in range(50):
        ask(work, f"Bearer jxc_{number}")
    frozen.tick(credential_cache.SECONDS)
    for number in range(50, 100):
        ask(work, f"Bearer jxc_{number}")
    assert ask(work, f"Bearer {secret}").status_code == 200  # it is verified anew
    credential_cache.forget()
    assert ask(work, f"Bearer {secret}").status_code == 503
    assert ask(work, f"Bearer {secret}", address="10.0.0.7").status_code == 200


def test_what_was_refused_does_not_fill_the_memory(frozen, monkeypatch):
    monkeypatch.setattr(credential_cache, "_MOST", 10)
    _row, secret = create_client("default", name="java")
    assert ask(work, f"Bearer {secret}").status_code == 200
    for number in range(50):
        ask(work, f"Bearer garbage{number}")
    assert len(credential_cache._refused) <= 10 and len(credential_cache._clients) == 1


def test_who_shows_nothing_is_not_remembered():
    assert ask(work).status_code == 401
    assert not credential_cache._refused


def test_a_disabled_client_does_not_flood_the_log(frozen, caplog):
    _row, secret = create_client("default", name="java", enabled=False)
    for _ in range(30):
        frozen.tick(10)
        assert ask(work, f"Bearer {secret}").status_code == 401
    lines = [record for record in caplog.records if "it is disabled" in record.getMessage()]
    assert len(lines) == 1


def test_buckets_of_strangers_do_not_fill_the_memory(frozen, monkeypatch):
    monkeypatch.setattr(limits, "_MOST", 10)
    many = Buckets()
    for number in range(100):
        many.take(str(number), 1)
        frozen.tick(0.2)
    assert len(many._levels) <= 11


def test_a_session_needs_a_csrf_token(user, let_in):
    response = ask(work, user=user)
    assert response.status_code == 403 and b"CSRF" in response.content
    token = "a" * 32
    request = RequestFactory(enforce_csrf_checks=True).post("/v2/x", **JSON, headers={"x-csrftoken": token})
    request.COOKIES["csrftoken"], request.user = token, user
    assert work(request).content == b"ann: jobs"
    reading = RequestFactory().get("/v2/x")
    reading.user = user
    assert work(reading).status_code == 200
    assert ask(work, user=AnonymousUser()).status_code == 401


def test_a_session_counts_only_without_other_credentials(user, let_in):
    assert ask(work, "Bearer jxc_wrong", user=user).status_code == 401


def test_a_user_sees_his_tenants_over_every_way(user, settings):
    settings.JOBEXEC = {"GATEWAY_USERS": True, "ADMIN_TENANTS": "tests.admin.tenants.of_user"}
    user.last_name = "acme -"
    user.save()

    @auth.protected()
    def seen(request):
        return HttpResponse(",".join(sorted(auth.client_of(request).caller.tenants or ["all"])))

    for _ in range(2):
        assert ask(seen, basic("ann", "correct horse")).content == b",acme"
    reading = RequestFactory().get("/v2/x")
    reading.user = user
    assert seen(reading).content == b",acme"
    # There is no request to ask about over gRPC, not even while he is remembered.
    with pytest.raises(auth.Unauthenticated):
        auth.authenticate(basic("ann", "correct horse"))
    assert auth.known(basic("ann", "correct horse")) is None


def test_a_client_that_is_forgotten_meanwhile_is_no_query_in_the_event_loop(monkeypatch):
    """Who was remembered when the request came is let in, also if that is over a moment later."""
    client = auth.Client(caller=auth.ANYBODY.caller, permissions=frozenset({"work"}), key="client:1")
    found = iter([client])
    monkeypatch.setattr(views, "known", lambda *given: next(found, None))
    monkeypatch.setattr(views, "authenticate", lambda *given, **more: pytest.fail("The database was asked."))
    assert ask_async(work_async, "Bearer jxc_x").status_code == 200


@pytest.mark.transactional
@pytest.mark.databases("sqlite")
def test_threads_with_one_password_count_as_one_try(alias, let_in, monkeypatch):
    ann = get_user_model()(pk=1, username="ann", is_superuser=True)
    looked, all_have, calls, recall = [], threading.Event(), [], credential_cache.recall

    def recalled(key):
        found = recall(key)
        looked.append(found)
        if len(looked) >= 8:
            all_have.set()
        return found

    def slow(**given):
        calls.append(given["username"])
        passed(all_have)
        return ann

    monkeypatch.setattr(credential_cache, "recall", recalled)
    monkeypatch.setattr(users, "authenticate", slow)
    codes = together(alias, *[lambda: ask(work, basic("ann", "correct horse")).status_code] * 8)
    assert (codes, calls) == ([200] * 8, ["ann"])


def test_a_token_that_was_signed_here_is_no_guess(frozen):
    row, _secret = create_client("default", name="java")
    token, _seconds = tokens.issue(row)
    assert {ask(work, f"Bearer jxc_{number}").status_code for number in range(50)} == {401, 503}
    assert ask(work, f"Bearer {token}").status_code == 200
