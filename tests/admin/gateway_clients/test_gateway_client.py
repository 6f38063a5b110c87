"""Clients of the gateways in the admin: added, changed, given a new secret; and who may do that."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.utils import timezone

from jobexec import clock
from jobexec.gateways import auth
from jobexec.models import GatewayClient
from jobexec.operations.manage.gateway_clients import create_client, rotate_secret
from tests.support.audit import audit_log

from ..conftest import Staff, list_url, page_url

ADD = "/admin/jobexec/gatewayclient/add/"
ANSWERS = {
    "name": "java",
    "types": "payment\r\n mail.* ,\r\n\r\npayment",
    "tenants": "",
    "permissions": ["work", "update"],
    "max_requests_per_second": "",
    "expiration_time": "",
}
SECRET = re.compile(r"jxc_[\w-]{43}")


def errors(response: Any) -> dict[str, list[str]]:
    return {field: list(texts) for field, texts in response.context["adminform"].form.errors.items()}


def secret_of(response: Any) -> str:
    (found,) = SECRET.findall(response.content.decode())
    return str(found)


@pytest.fixture(autouse=True)
def nobody_is_remembered():
    auth.forget()
    yield
    auth.forget()


@pytest.fixture
def make(db):
    """A function that makes a client."""
    return lambda name="java", **values: create_client("default", name=name, **values)[0]


def test_a_person_adds_one_and_sees_its_secret_once(admin):
    response = admin.post(ADD, ANSWERS)
    assert response.status_code == 200 and "adminform" not in response.context, errors(response)
    row = GatewayClient.objects.get()
    assert (row.name, row.types, row.tenants) == ("java", ["mail.*", "payment"], [])
    assert (row.permissions, row.max_requests_per_second, row.expiration_time) == (["work", "update"], None, None)
    assert row.enabled and row.last_use is None
    secret = secret_of(response)
    assert auth.authenticate(f"Bearer {secret}").name == "java"
    assert "no-store" in response["Cache-Control"]
    (entry,) = audit_log()
    assert (entry.verb, entry.object_id, entry.new_value["types"]) == ("create_client", "java", ["mail.*", "payment"])
    # Nowhere else: neither in a message, nor in a session, a cookie, a log or any other page.
    assert admin.told(response) == []
    kept = [str(dict(admin.session)), str(admin.cookies), str(entry.__dict__), str(row.__dict__)]
    pages = [admin.get(url).content.decode() for url in (list_url(GatewayClient), page_url(row))]
    assert not any(secret in text or str(row.token_digest) in text for text in [*kept[:3], *pages])
    assert secret not in kept[3]


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("name", "", "required"),
        ("name", "a:b", "without a colon"),
        ("name", "a\u202eb", "printable characters"),
        ("name", "a\0b", "Null characters"),
        ("name", "x" * 151, "150"),
        ("types", "mail.*.x", "followed by one *"),
        ("types", "**", "followed by one *"),
        ("types", "x" * 256, "255"),
        ("types", "a\u200bb", "prefixes followed by"),
        ("tenants", "x" * 65, "64"),
        ("permissions", [], "required"),
        ("permissions", ["work", "root"], "root"),
        ("max_requests_per_second", "-1", "greater than or equal to 0"),
        ("max_requests_per_second", "fast", "whole number"),
        ("expiration_time", "2001-01-01T00:00:00", "must be in the future"),
        ("expiration_time", "soon", "valid date"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(admin, field, value, told):
    response = admin.post(ADD, {**ANSWERS, field: value})
    found = errors(response)
    assert list(found) == [field], found
    assert told.lower() in found[field][0].lower()
    assert not GatewayClient.objects.exists()
    assert not SECRET.search(response.content.decode())


def test_a_name_that_is_taken_changes_nothing(admin, make):
    before = make().token_digest
    assert list(errors(admin.post(ADD, ANSWERS))) == ["name"]
    assert GatewayClient.objects.get().token_digest == before


def test_a_name_that_is_taken_meanwhile_is_said(admin, make, monkeypatch):
    monkeypatch.setattr("jobexec.admin.gateway_clients.form.GatewayClientForm.clean_name", lambda form: "java")
    make()
    response = admin.post(ADD, ANSWERS)
    assert response.status_code == 302
    assert admin.told(response) == [("error", "name: there is a client 'java' already.")]


def test_what_is_saved_is_shown_as_it_was_written(admin, make):
    row = make(types=["payment", "mail.*"], tenants=["", "acme"])
    form = admin.get(page_url(row)).context["adminform"].form
    assert form["types"].value() == "mail.*\npayment"
    assert form["tenants"].value() == "<default>\nacme"
    listed = admin.get(list_url(GatewayClient)).content.decode()
    assert "mail.*<br>payment" in listed and "&lt;default&gt;<br>acme" in listed


def test_a_person_changes_one_and_its_secret_stays(admin, make):
    row = make(types=["payment"])
    until = (timezone.now() + timedelta(days=9)).replace(microsecond=0)
    given = {
        "types": "payment",
        "tenants": "<default>, acme",
        "permissions": ["search"],
        "max_requests_per_second": "0",
    }
    response = admin.post(page_url(row), {**given, "expiration_time": f"{until:%Y-%m-%dT%H:%M:%S}", "name": "evil"})
    assert response.status_code == 302
    before = row.token_digest
    row.refresh_from_db()
    assert (row.name, row.token_digest, row.types, row.tenants) == ("java", before, ["payment"], ["", "acme"])
    assert (row.permissions, row.max_requests_per_second, row.expiration_time) == (["search"], 0, until)
    (entry,) = audit_log()
    assert (entry.verb, entry.new_value["tenants"]) == ("change_client", ["", "acme"])
    assert "types" not in entry.new_value, "it stays as it was"


def test_one_that_has_expired_can_still_be_changed(admin, make):
    row = make(expiration_time=clock.now().replace(microsecond=0) - timedelta(days=1))
    moment = timezone.localtime(row.expiration_time)
    given = {"types": "x", "permissions": ["work"], "expiration_time": f"{moment:%Y-%m-%dT%H:%M:%S}"}
    assert admin.post(page_url(row), given).status_code == 302
    assert GatewayClient.objects.get().types == ["x"]


def test_a_new_secret_is_asked_for_and_shown_once(admin, make):
    row, secret = create_client("default", name="java")
    other = make(name="go")
    asked = admin.act(GatewayClient, "rotate_secret", [row], answered=False)
    assert b"locked out" in asked.content and not SECRET.search(asked.content.decode())
    auth.authenticate(f"Bearer {secret}")
    auth.forget()
    response = admin.act(GatewayClient, "rotate_secret", [row])
    assert auth.authenticate(f"Bearer {secret_of(response)}").name == "java"
    with pytest.raises(auth.Unauthenticated):
        auth.authenticate(f"Bearer {secret}")
    (entry,) = audit_log()
    assert (entry.verb, entry.object_id, entry.old_value) == ("rotate_secret", "java", None)
    assert not any(text in str(entry.__dict__) for text in (secret, row.token_digest))
    both = admin.act(GatewayClient, "rotate_secret", [row, other], _from_page="1")
    assert len(set(SECRET.findall(both.content.decode()))) == 2


def test_enable_disable_delete(admin, make):
    row = make()
    assert "seconds" in admin.told(admin.act(GatewayClient, "disable", [row]))[0][1]
    row.refresh_from_db()
    assert not row.enabled
    names = {action.name for action in admin.get(page_url(row)).context["row_actions"]}
    assert names == {"enable", "rotate_secret", "delete_selected"}
    admin.act(GatewayClient, "enable", [row])
    row.refresh_from_db()
    assert row.enabled
    assert admin.get(f"{page_url(row).removesuffix('change/')}delete/").url == page_url(row)
    admin.act(GatewayClient, "delete_selected", [row])
    assert not GatewayClient.objects.exists()
    assert [entry.verb for entry in audit_log()] == ["set_client_enabled", "set_client_enabled", "delete_client"]


def test_the_state_is_shown(admin, make):
    make(name="a", enabled=False)
    make(name="b", expiration_time=clock.now() - timedelta(seconds=1))
    make(name="c", expiration_time=clock.now() + timedelta(days=2, minutes=30))
    content = admin.get(list_url(GatewayClient)).content.decode()
    assert re.findall(r'jobexec-badge jobexec-\w+">([\w ]+)<', content) == ["disabled", "expired", "expires soon"]
    assert "in 2 d" in content


# Who may do what.


def logged_in(*permissions: str, last_name: str = "") -> Staff:
    user = get_user_model().objects.create_user("staff", is_staff=True, last_name=last_name)
    user.user_permissions.set(Permission.objects.filter(codename__in=[f"{name}_gatewayclient" for name in permissions]))
    client = Staff()
    client.force_login(user)
    return client


NEEDS = {
    **dict.fromkeys(("rotate_secret", "retire_secret"), "rotate"),
    **dict.fromkeys(("enable", "disable"), "enable"),
    "delete_selected": "delete",
}


@pytest.mark.parametrize("action", NEEDS)
def test_each_action_needs_its_own_permission(action, make):
    row = make(enabled=action != "enable")
    rotate_secret("default", row.name, keep_old=True)
    before = list(GatewayClient.objects.values())
    others = {"view", "add", "change", "rotate", "enable", "delete"} - {NEEDS[action]}
    response = logged_in(*others).act(GatewayClient, action, [row])
    assert list(GatewayClient.objects.values()) == before
    assert not SECRET.search(response.content.decode())
    get_user_model().objects.all().delete()
    logged_in("view", NEEDS[action]).act(GatewayClient, action, [row])
    assert list(GatewayClient.objects.values()) != before


def test_whoever_may_only_look_cannot_change_and_whoever_may_not_sees_nothing(make):
    row = make(types=["payment"])
    looking = logged_in("view")
    content = looking.get(page_url(row)).content.decode()
    assert "payment" in content and "<textarea" not in content and 'name="_save"' not in content
    assert looking.post(page_url(row), {"permissions": ["work"]}).status_code == 403
    assert looking.get(ADD).status_code == looking.post(ADD, ANSWERS).status_code == 403
    get_user_model().objects.all().delete()
    nobody = logged_in()
    assert nobody.get(list_url(GatewayClient)).status_code == nobody.get(page_url(row)).status_code == 403


@pytest.fixture
def acme(db, settings):
    """Somebody who may see only the tenant acme, and jobs of no tenant."""
    settings.JOBEXEC = {"ADMIN_TENANTS": "tests.admin.tenants.of_user"}
    return logged_in("view", "add", "change", "rotate", "enable", "delete", last_name="acme -")


@pytest.mark.gate
def test_who_sees_some_tenants_sees_and_changes_only_clients_of_theirs(acme, make):
    mine, none = make(name="mine", tenants=["acme"]), make(name="none", tenants=[""])
    others = [make(name="all"), make(name="beta", tenants=["beta"]), make(name="both", tenants=["acme", "beta"])]
    assert {row.pk for row in acme.get(list_url(GatewayClient)).context["cl"].result_list} == {mine.pk, none.pk}
    before = list(GatewayClient.objects.order_by("pk").values())
    for row in others:
        assert acme.get(page_url(row)).status_code == 404
        assert acme.post(page_url(row), {"permissions": ["work"], "tenants": "acme"}).status_code == 404
        for action in NEEDS:
            assert not SECRET.search(acme.act(GatewayClient, action, [row]).content.decode())
    assert list(GatewayClient.objects.order_by("pk").values()) == before
    assert secret_of(acme.act(GatewayClient, "rotate_secret", [mine]))


@pytest.mark.parametrize(
    ("tenants", "taken"), [("acme", True), ("acme, <default>", True), ("", False), ("beta", False)]
)
def test_who_sees_some_tenants_makes_clients_for_those(acme, make, tenants, taken):
    response = acme.post(ADD, {**ANSWERS, "tenants": tenants})
    assert bool(SECRET.search(response.content.decode())) is taken is GatewayClient.objects.exists()
    row = make(name="mine", tenants=["acme"])
    acme.post(page_url(row), {"permissions": ["work"], "tenants": tenants})
    row.refresh_from_db()
    assert (row.tenants != ["acme"]) is (tenants == "acme, <default>")


# Two secrets, and what ends soon.


@pytest.mark.gate
def test_the_old_secret_can_be_kept_and_retired(admin, make):
    row, old = create_client("default", name="java")
    until = (timezone.localtime() + timedelta(days=7)).replace(microsecond=0)
    answers = {"keep_old": "on", "old_until": f"{until:%Y-%m-%dT%H:%M:%S}"}
    new = secret_of(admin.act(GatewayClient, "rotate_secret", [row], **answers))
    for secret in (old, new):
        auth.forget()
        assert auth.authenticate(f"Bearer {secret}").name == "java"
    row.refresh_from_db()
    assert row.previous_expiration_time == until
    content = admin.get(list_url(GatewayClient)).content.decode()
    assert "expires soon" in content
    assert {action.name for action in admin.get(page_url(row)).context["row_actions"]} >= {"retire_secret"}
    assert admin.told(admin.act(GatewayClient, "retire_secret", [row])) == [
        ("success", "The old secret of 1 client is retired.")
    ]
    auth.forget()
    with pytest.raises(auth.Unauthenticated):
        auth.authenticate(f"Bearer {old}")
    assert "retire_secret" not in {action.name for action in admin.get(page_url(row)).context["row_actions"]}
    kept, retired = audit_log()
    assert (kept.verb, retired.verb) == ("rotate_secret", "retire_secret")
    assert not any(text in str([kept.__dict__, retired.__dict__]) for text in (old, new, str(row.token_digest)))


@pytest.mark.parametrize(
    "answers", [{"old_until": "2099-01-01T00:00:00"}, {"keep_old": "on", "old_until": "2000-01-01T00:00:00"}]
)
def test_a_time_for_the_old_secret_must_be_ahead_and_meant(admin, make, answers):
    row = make()
    response = admin.act(GatewayClient, "rotate_secret", [row], **answers)
    assert b"errorlist" in response.content and audit_log() == []


@pytest.mark.parametrize(("days", "soon"), [(13, True), (15, False)])
def test_what_ends_soon_is_marked(admin, make, days, soon):
    make(expiration_time=clock.now() + timedelta(days=days))
    assert ("expires soon" in admin.get(list_url(GatewayClient)).content.decode()) is soon
