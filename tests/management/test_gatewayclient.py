"""``manage.py gatewayclient``: clients are made, and their secrets written once."""

import io
import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from jobexec import clock
from jobexec.gateways import auth
from jobexec.models import GatewayClient
from tests.support.audit import audit_log


@pytest.fixture(autouse=True)
def gateway(request, settings, frozen):
    alias = request.getfixturevalue("alias")
    settings.JOBEXEC = {"ENGINES": {alias: {}}, "GATEWAY_DATABASE": alias}
    auth.forget()
    yield
    auth.forget()


def run(*args):
    out = io.StringIO()
    call_command("gatewayclient", *args, stdout=out, no_color=True)
    return out.getvalue()


def clients(alias):
    return GatewayClient.objects.using(alias)


def test_one_is_made_and_may_do_what_was_said(alias):
    secret = run("add", "java", "--type", "pay", "--type", "mail.*", "--tenant", "<default>").splitlines()[-1]
    client = auth.authenticate(f"Bearer {secret}")
    assert client.caller.types == {"pay", "mail.*"} and client.caller.tenants == {""}
    assert (client.may("work"), client.may("search")) == (True, False)
    row = clients(alias).get()
    assert (row.expiration_time, row.max_requests_per_second, row.enabled) == (None, None, True)
    assert secret not in run("list") + run("list", "--json")


def test_all_options(alias):
    given = ["--permission", "search", "--permission", "resolve", "--rate", "0", "--expires", "+90d", "--disabled"]
    told = json.loads(run("add", "ops", *given, "--json"))
    assert told["name"] == "ops" and told["secret"].startswith("jxc_")
    row = clients(alias).get()
    assert (row.permissions, row.max_requests_per_second, row.enabled) == (["search", "resolve"], 0, False)
    assert row.expiration_time == clock.now() + timedelta(days=90)
    with pytest.raises(auth.Unauthenticated):
        auth.authenticate(f"Bearer {told['secret']}")
    run("enable", "ops")
    auth.forget()  # gateways do so within seconds
    assert auth.authenticate(f"Bearer {told['secret']}").name == "ops"


def test_a_new_secret_ends_the_old_one(alias):
    old = json.loads(run("add", "java", "--json"))["secret"]
    new = run("rotate", "java").splitlines()[-1]
    assert auth.authenticate(f"Bearer {new}").name == "java"
    with pytest.raises(auth.Unauthenticated):
        auth.authenticate(f"Bearer {old}")


def test_disabled_and_deleted(alias):
    run("add", "java")
    assert "is disabled" in run("disable", "java") and not clients(alias).get().enabled
    assert "is disabled" in run("disable", "java")  # again: nothing is different, and yet it is there
    assert "is enabled" in run("enable", "java") and clients(alias).get().enabled
    assert json.loads(run("delete", "java", "--json")) == {"name": "java"}
    assert not clients(alias).exists()


def test_what_is_listed(alias, frozen):
    assert run("list") == "There are no clients.\n"
    run("add", "java", "--type", "pay", "--tenant", "<default>", "--tenant", "acme", "--expires", "+1h")
    run("add", "go", "--disabled")
    frozen.tick(7200)
    lines = run("list").splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["go", "disabled"], ["java", "expired"]]
    assert "<default>, acme" in lines[2] and "1 h ago" in lines[2]
    go, java = map(json.loads, run("list", "--json").splitlines())
    assert (go["enabled"], go["types"], java["tenants"]) == (False, [], ["", "acme"])
    assert not {"token_digest", "secret"} & {*go, *java}


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        (["add", "a:b"], 2, "name: expected"),
        (["add", "java", "--type", "a*b"], 2, "types: expected"),
        (["add", "java", "--type", ""], 2, "types: expected"),
        (["add", "java", "--tenant", "x" * 65], 2, "tenants: expected"),
        (["add", "java", "--permission", "root"], 2, "permissions: expected some of work, search, update, resolve"),
        (["add", "java", "--rate", "9999999"], 2, "max_requests_per_second: expected"),
        (["add", "there"], 2, "there is a client 'there' already"),
        (["rotate", "nobody"], 3, "There is no client 'nobody'."),
        (["enable", "nobody"], 3, "There is no client"),
        (["disable", "nobody"], 3, "There is no client"),
        (["delete", "nobody"], 3, "There is no client"),
        (["list", "--database", "nowhere"], 2, "--database"),
    ],
)
@pytest.mark.databases("sqlite")
def test_what_is_wrong_is_said_and_nothing_is_done(alias, given, code, told):
    run("add", "there")
    before = list(clients(alias).values())
    with pytest.raises(CommandError) as caught:
        run(*given)
    assert caught.value.returncode == code and told in str(caught.value)
    assert list(clients(alias).values()) == before


def test_the_audit_log_has_all_but_the_secret(alias, monkeypatch):
    monkeypatch.setenv("LOGNAME", "ann")
    secret = json.loads(run("add", "java", "--json"))["secret"]
    run("disable", "java")
    assert [(entry.operator, entry.via, entry.verb) for entry in audit_log(alias)] == [
        ("ann", "gatewayclient add", "create_client"),
        ("ann", "gatewayclient disable", "set_client_enabled"),
    ]
    assert secret not in str([entry.__dict__ for entry in audit_log(alias)])


def test_the_old_secret_stays_good_for_a_while(alias):
    old = json.loads(run("add", "java", "--json"))["secret"]
    run("rotate", "java", "--old-until", "+7d")
    assert auth.authenticate(f"Bearer {old}").name == "java"
    (told,) = [json.loads(line) for line in run("list", "--json").splitlines()]
    assert (told["old_secret"], told["expires_soon"]) == (True, True) and told["old_secret_until"]
    assert "expires soon" in run("list")
    assert run("retire", "java") == "The old secret of java is retired.\n"
    auth.forget()
    with pytest.raises(auth.Unauthenticated):
        auth.authenticate(f"Bearer {old}")
    run("rotate", "java", "--keep-old")
    assert "until it is retired" in run("list") and "expires soon" not in run("list")


def test_an_expiry_that_is_near_is_marked(alias):
    run("add", "near", "--expires", "+13d")
    run("add", "far", "--expires", "+15d")
    told = {row["name"]: row["expires_soon"] for row in map(json.loads, run("list", "--json").splitlines())}
    assert told == {"near": True, "far": False}


def test_one_that_expires_soon_is_coloured_at_a_terminal(alias):
    run("add", "java", "--expires", "+1d")
    out = io.StringIO()
    call_command("gatewayclient", "list", stdout=out, force_color=True)
    assert "\x1b[33;1mexpires soon\x1b[0m" in out.getvalue() and " [33" not in out.getvalue()
