"""Who is let in: secrets, access tokens, certificates; and who is not."""

import base64
import json
import logging
from datetime import UTC, datetime, timedelta

import pytest
from django.core.signing import Signer
from django.db import transaction

from jobexec import clock
from jobexec.clock import FrozenClock
from jobexec.exceptions import InvalidClient
from jobexec.gateways import auth
from jobexec.gateways.auth import credential_cache, tokens
from jobexec.models import GatewayClient
from jobexec.operations.manage.gateway_clients import create_client, retire_secret, rotate_secret, set_client_enabled


@pytest.fixture(autouse=True)
def gateway(request, settings):
    """The gateways serve the database of the test; time stands still, and nobody is remembered."""
    alias = request.getfixturevalue("alias") if "alias" in request.fixturenames else "default"
    settings.JOBEXEC = {"ENGINES": {alias: {}}, "GATEWAY_DATABASE": alias}
    auth.forget()
    with FrozenClock(datetime(2026, 3, 1, 12, tzinfo=UTC)) as frozen:
        yield frozen
    auth.forget()


def basic(name: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()


def refused(authorization, names=()):
    with pytest.raises(auth.Unauthenticated) as caught:
        auth.authenticate(authorization, names)
    # One answer for everything, so that nobody learns what was wrong.
    assert str(caught.value) == "The credentials are missing or not valid."


@pytest.mark.parametrize("name", ["java", "Zahlungen-Köln", "日本 🚚", "a+b@c"])
def test_the_secret_as_password_and_as_bearer(alias, name):
    row, secret = create_client(alias, name=name, types=["pay", "mail.*"], tenants=["", "acme"])
    for authorization in (basic(name, secret), f"Bearer {secret}", f"bearer  {secret} "):
        auth.forget()
        client = auth.authenticate(authorization)
        assert client.name == name and client.key.startswith(f"client:{row.pk}:")
        assert client.may("work") and not client.may("search")
        assert [
            client.caller.may_fetch(type) for type in ("pay", "pays", "mail.", "mail.x", "mail", "*", "mail.*")
        ] == [*(True, False, True, True, False, False, True)]
        assert [client.caller.may_see(tenant) for tenant in ("", "acme", "other")] == [True, True, False]


def test_what_is_kept_does_not_tell_the_secret(alias):
    _row, secret = create_client(alias, name="java")
    kept = str(GatewayClient.objects.using(alias).values().get())
    assert len(secret) == 47 and secret.startswith("jxc_")
    assert secret not in kept and secret[4:] not in kept


def test_whoever_is_wrong_learns_nothing(alias):
    _row, secret = create_client(alias, name="java")
    _row, other = create_client(alias, name="go")
    for authorization in (
        *(None, "", "   ", "Basic", "Basic ", "Bearer", "Bearer ", "Bearer x", "Digest x", secret),
        *(basic("java", other), basic("nobody", secret), basic("", secret), basic("java", ""), basic("JAVA", secret)),
        *(basic("java", secret + "x"), basic("java", secret[:-1]), basic("java", secret.upper()), "Basic !!!"),
        *(basic("java\0", secret), basic("java", secret + "\0"), f"Bearer {secret}\0", "Bearer \0"),
        "Basic " + base64.b64encode(b"\xff\xfe:" + secret.encode()).decode(),
        "Basic " + base64.b64encode(b"no colon").decode(),
        *(f"Bearer {secret}, Bearer {secret}", f"Bearer {secret}\r\nX-Admin: 1", "Bearer " + "x" * 1_000_000),
        *(f"Bearer {secret}é", "Bearer " + secret.replace("jxc_", "jxc\uff3f"), "Bearer eyJhbGciOiJub25lIn0.e30."),
        *("Bearer ' OR 1=1 --", "Bearer %", "Bearer " + tokens._HEADER + ".", "Bearer " + tokens._HEADER + "..."),
    ):
        refused(authorization)
    assert auth.authenticate(f"Bearer {secret}").name == "java"


def test_an_expired_client_and_a_disabled_one(alias, gateway, caplog):
    until = clock.now() + timedelta(seconds=3)
    _row, secret = create_client(alias, name="java", expiration_time=until)
    _row, off = create_client(alias, name="off", enabled=False)
    with caplog.at_level(logging.WARNING, "jobexec.gateway"):
        refused(f"Bearer {off}")
    assert "a request of the client 'off': it is disabled" in caplog.text
    auth.authenticate(f"Bearer {secret}")
    gateway.tick(2.9)
    auth.authenticate(f"Bearer {secret}")
    gateway.tick(0.1)  # within the time for which clients are remembered
    refused(f"Bearer {secret}")
    assert off not in caplog.text


def test_disabling_deleting_and_rotating_count_within_seconds(alias, gateway, django_assert_num_queries):
    def disable():
        set_client_enabled(alias, "java", False)

    def delete():
        GatewayClient.objects.using(alias).filter(name="java").delete()

    for ending in (disable, delete, lambda: rotate_secret(alias, "java")):
        GatewayClient.objects.using(alias).all().delete()
        _row, secret = create_client(alias, name="java")
        token = tokens.issue(_row)[0]
        auth.authenticate(f"Bearer {secret}")
        auth.authenticate(f"Bearer {token}")
        ending()
        gateway.tick(credential_cache.SECONDS - 0.1)
        with django_assert_num_queries(0, using=alias):
            assert auth.authenticate(f"Bearer {secret}") == auth.known(f"Bearer {secret}")
        gateway.tick(0.1)
        assert auth.known(f"Bearer {secret}") is None
        refused(f"Bearer {secret}")
        refused(f"Bearer {token}")


def test_a_thousand_requests_cost_two_queries(alias, django_assert_max_num_queries):
    _row, secret = create_client(alias, name="java")
    with django_assert_max_num_queries(2, using=alias):  # who it is, and that it was there
        for _ in range(1000):
            auth.authenticate(f"Bearer {secret}")


def test_a_failure_is_remembered_apart_from_clients_and_for_seconds(alias, gateway, django_assert_num_queries):
    refused("Bearer jxc_x")
    refused(None, ["nobody"])
    assert not credential_cache._clients
    with django_assert_num_queries(0, using=alias):
        refused("Bearer jxc_x")
        refused(None, ["nobody"])
    create_client(alias, name="nobody")
    gateway.tick(credential_cache.SECONDS)
    assert auth.authenticate(None, ["nobody"]).name == "nobody"


def test_memory_is_bounded_and_holds_no_secret(alias, monkeypatch):
    monkeypatch.setattr(credential_cache, "_MOST", 3)
    secrets = [create_client(alias, name=f"c{number}")[1] for number in range(7)]
    for secret in secrets:
        auth.authenticate(f"Bearer {secret}")
        assert auth.known(f"Bearer {secret}")
    assert len(credential_cache._clients) <= 3
    assert not any(secret in str(credential_cache._clients) for secret in secrets)


@pytest.mark.transactional
def test_the_last_use_is_written_at_most_once_a_minute(alias, gateway):
    row, secret = create_client(alias, name="java")
    start = clock.now()
    seen = []
    for _ in range(26):
        auth.authenticate(f"Bearer {secret}")
        row.refresh_from_db()
        seen.append((row.last_use - start).total_seconds())
        gateway.tick(5)
    assert sorted(set(seen)) == [0, 60, 120]


@pytest.mark.transactional
def test_the_last_use_is_no_part_of_the_request(alias):
    row, secret = create_client(alias, name="java")
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=alias):
        assert auth.authenticate(f"Bearer {secret}").name == "java"
        raise ZeroDivisionError
    row.refresh_from_db()
    assert row.last_use is None


# Access tokens.


def claims(token: str) -> dict[str, object]:
    body = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))


def encode(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def signed(header: object, body: object) -> str:
    return tokens._signer().sign(f"{encode(header) if isinstance(header, dict) else header}.{encode(body)}")


def test_a_token_is_good_for_its_time(alias, gateway, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "GATEWAY_TOKEN_TTL": 60}
    row, _secret = create_client(alias, name="java", types=["pay"])
    token, seconds = tokens.issue(row)
    assert seconds == 60 and len(token) < 400
    gateway.tick(58)
    assert auth.authenticate(f"Bearer {token}").caller.types == {"pay"}
    gateway.tick(2)
    refused(f"Bearer {token}")


def test_a_token_tells_neither_the_secret_nor_its_digest(alias):
    row, secret = create_client(alias, name="java")
    assert set(claims(tokens.issue(row)[0])) == {"sub", "key", "iat", "exp"}
    assert not {secret, row.token_digest} & set(map(str, claims(tokens.issue(row)[0]).values()))
    assert str(claims(tokens.issue(row)[0])["key"]) not in str(row.token_digest)


def test_a_client_that_is_gone_or_has_a_new_secret_has_no_token(alias):
    row, _secret = create_client(alias, name="java")
    token = tokens.issue(row)[0]
    rotate_secret(alias, "java")
    refused(f"Bearer {token}")
    row.refresh_from_db()
    token = tokens.issue(row)[0]
    assert auth.authenticate(f"Bearer {token}").name == "java"
    auth.forget()
    set_client_enabled(alias, "java", False)
    refused(f"Bearer {token}")


def test_tokens_of_another_secret_key_and_of_a_former_one(alias, settings):
    row, _secret = create_client(alias, name="java")
    token = tokens.issue(row)[0]
    former, settings.SECRET_KEY = settings.SECRET_KEY, "another"
    refused(f"Bearer {token}")
    settings.SECRET_KEY_FALLBACKS = [former]
    auth.forget()
    # Its signature is right again; what it says of the secret was made with the former key, too.
    assert auth.authenticate(f"Bearer {token}").name == "java"


def test_what_a_token_claims_is_believed_only_if_signed_here(alias):
    row, _secret = create_client(alias, name="java")
    good = tokens.issue(row)[0]
    header, body, signature = good.split(".")
    mine = claims(good)
    other, _ = create_client(alias, name="go")
    for forged in (
        f"{header}.{encode({**mine, 'sub': str(other.pk)})}.{signature}",
        f"{header}.{encode({**mine, 'exp': 9e12})}.{signature}",
        f"{header}.{body}.",
        f"{header}.{body}",
        f"{header}.{body}.{signature[:-1]}",
        f"{header}.{body}.{signature}.{signature}",
        f"{encode({'alg': 'none'})}.{body}.",
        f"{encode({'alg': 'none', 'typ': 'JWT'})}.{body}.{signature}",
        f"{encode({'alg': 'RS256', 'typ': 'JWT'})}.{body}.{signature}",
        # Rightly signed, and yet none of ours.
        signed({"alg": "none"}, mine),
        signed({"alg": "HS256", "typ": "JWT", "kid": "../../dev/null"}, mine),
        signed(tokens._HEADER, {**mine, "exp": None}),
        signed(tokens._HEADER, {**mine, "exp": "soon"}),
        signed(tokens._HEADER, {**mine, "sub": "1e400"}),
        signed(tokens._HEADER, {**mine, "sub": str(10**30)}),
        signed(tokens._HEADER, {**mine, "sub": str(other.pk)}),
        signed(tokens._HEADER, {**mine, "key": ""}),
        signed(tokens._HEADER, {}),
        signed(tokens._HEADER, []),
        # Signed with the project's key for something else.
        Signer(sep=".").sign(f"{header}.{body}"),
        Signer(sep=".", salt="django.contrib.sessions").sign(f"{header}.{body}"),
    ):
        refused(f"Bearer {forged}")
    assert auth.authenticate(f"Bearer {good}").name == "java"


# Certificates.


def test_a_certificate_names_a_client(alias):
    create_client(alias, name="java", types=["pay"])
    create_client(alias, name="go")
    assert auth.authenticate(None, ["java"]).caller.types == {"pay"}
    assert auth.authenticate("", ["java", "java", "worker-7.example.org", "x\0"]).name == "java"
    for names in (["nobody"], ["java", "go"], ["java\0"], ["Java"], [""], ["*"], ["java "]):
        refused(None, names)
    set_client_enabled(alias, "java", False)
    auth.forget()
    refused(None, ["java"])


def test_credentials_that_are_shown_count_before_the_certificate(alias):
    _row, secret = create_client(alias, name="java")
    create_client(alias, name="go")
    assert auth.authenticate(f"Bearer {secret}", ["go"]).name == "java"
    refused("Bearer wrong", ["go"])


def test_what_grpc_tells():
    assert auth.of_metadata(None) == (None, ())
    assert auth.of_metadata([("authorization", "")]) == (None, ())
    assert auth.of_metadata([("Authorization", "Bearer x"), ("user-agent", "y")]) == ("Bearer x", ())
    assert auth.of_metadata([("authorization", b"Bearer x")], {"x509_common_name": [b"java"]})[1] == ("java",)
    context = {"x509_common_name": [b"java"], "x509_subject_alternative_name": [b"java", b"j.example.org", b"\xff"]}
    assert auth.of_metadata([], context)[1] == ("java", "j.example.org", "\ufffd")
    two, _names = auth.of_metadata([("authorization", "Bearer x"), ("authorization", "Bearer y")])
    refused(two)


# Nobody is asked.


def test_without_access_control_everybody_is_everything(settings, caplog, monkeypatch):
    monkeypatch.setattr("jobexec.gateways.auth.startup_notice._announced", False)
    settings.JOBEXEC = {"GATEWAY_AUTH": "none"}
    for authorization in (None, "", "Bearer wrong", "x" * 100_000):
        client = auth.authenticate(authorization)
        assert client is auth.known(authorization) is auth.ANYBODY
        assert client.caller.types is None and client.caller.tenants is None
        assert all(map(client.may, auth.PERMISSIONS))
    found = [record for record in caplog.records if record.name == "jobexec.gateway"]
    assert len(found) == 1 and "ANYONE" in found[0].message


@pytest.mark.parametrize(("debug", "level"), [(True, "WARNING"), (False, "CRITICAL")])
def test_it_is_said_at_the_start_and_louder_in_production(settings, caplog, debug, level):
    settings.JOBEXEC, settings.DEBUG = {"GATEWAY_AUTH": "none"}, debug
    line = auth.announce()
    assert [(record.levelname, record.message) for record in caplog.records] == [(level, line)]
    assert ("production" in line) is not debug


def test_a_guarded_gateway_says_so(settings, caplog):
    with caplog.at_level(logging.INFO, "jobexec.gateway"):
        assert auth.announce() == "Access: clients with a secret."
        settings.JOBEXEC = {"GATEWAY_USERS": True}
        assert "users of the site" in auth.announce()


def test_a_permission_that_is_missing():
    client = auth.Client(caller=auth.ANYBODY.caller, permissions=frozenset({"search"}))
    client.check("search")
    with pytest.raises(auth.NotAllowed, match="'work'"):
        client.check("work")


# Two secrets.


def lets_in(authorization):
    auth.forget()
    try:
        return auth.authenticate(authorization).name
    except auth.Unauthenticated:
        return None


@pytest.mark.every_database
def test_the_old_secret_is_good_until_a_time(alias, gateway):
    row, old = create_client(alias, name="java")
    token = tokens.issue(row)[0]
    new = rotate_secret(alias, "java", keep_old=True, old_until=clock.now() + timedelta(minutes=5))
    assert {lets_in(f"Bearer {each}") for each in (old, new, token)} == {"java"}
    row.refresh_from_db()
    assert lets_in(f"Bearer {tokens.issue(row)[0]}") == "java"
    auth.authenticate(f"Bearer {old}")
    gateway.tick(timedelta(minutes=5))
    with pytest.raises(auth.Unauthenticated):
        auth.authenticate(f"Bearer {old}")
    assert [lets_in(f"Bearer {each}") for each in (old, token, new)] == [None, None, "java"]


def test_what_was_just_verified_ends_with_the_old_secret(alias, gateway):
    _row, old = create_client(alias, name="java")
    rotate_secret(alias, "java", keep_old=True, old_until=clock.now() + timedelta(seconds=2))
    auth.forget()
    auth.authenticate(f"Bearer {old}")
    gateway.tick(timedelta(seconds=3))
    with pytest.raises(auth.Unauthenticated):
        auth.authenticate(f"Bearer {old}")


def test_the_old_secret_is_good_until_it_is_retired(alias, gateway):
    row, old = create_client(alias, name="java")
    token = tokens.issue(row)[0]
    new = rotate_secret(alias, "java", keep_old=True)
    gateway.tick(timedelta(minutes=30))
    assert {lets_in(f"Bearer {each}") for each in (old, new, token)} == {"java"}
    retire_secret(alias, "java")
    assert [lets_in(f"Bearer {each}") for each in (old, token, new)] == [None, None, "java"]
    retire_secret(alias, "java")


def test_a_secret_before_the_old_one_ends(alias):
    _row, first = create_client(alias, name="java")
    second = rotate_secret(alias, "java", keep_old=True)
    third = rotate_secret(alias, "java", keep_old=True)
    assert [lets_in(f"Bearer {each}") for each in (first, second, third)] == [None, "java", "java"]
    fourth = rotate_secret(alias, "java")
    assert [lets_in(f"Bearer {each}") for each in (second, third, fourth)] == [None, None, "java"]


def test_who_is_disabled_or_expired_is_so_with_both(alias):
    _row, old = create_client(alias, name="java")
    new = rotate_secret(alias, "java", keep_old=True)
    set_client_enabled(alias, "java", False)
    assert [lets_in(f"Bearer {each}") for each in (old, new)] == [None, None]


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"old_until": datetime(2099, 1, 1, tzinfo=UTC)}, "keep_old"),
        ({"keep_old": True, "old_until": datetime(2000, 1, 1, tzinfo=UTC)}, "in the future"),
        ({"keep_old": True, "old_until": datetime(2099, 1, 1)}, "aware"),
        ({"keep_old": "yes"}, "True or False"),
    ],
)
def test_a_time_that_cannot_be_is_refused_and_nothing_changed(alias, given, word):
    _row, old = create_client(alias, name="java")
    with pytest.raises(InvalidClient, match=word):
        rotate_secret(alias, "java", **given)
    assert lets_in(f"Bearer {old}") == "java"
