"""The system checks: every id is said when it should be, and only then. No database is opened."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import ERROR, WARNING, registry, run_checks
from django.db import ConnectionHandler
from django.test import override_settings

from jobexec import checks, conf, encryption, job
from jobexec.conf import validation
from jobexec.exceptions import InvalidSettings
from jobexec.handlers import registry as handlers

pytestmark = pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")

GOOD_SQLITE = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL;"}


def sqlite(**options: Any) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": "/nowhere/db.sqlite3", "OPTIONS": options}


def postgresql(name: str = "shop", **keys: Any) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.postgresql", "NAME": name, **keys}


@pytest.fixture
def site(settings, monkeypatch):
    """Run all checks over a project with these DATABASES and this JOBEXEC; gives the messages by id."""

    def run(databases: dict[str, Any] | None = None, **jobexec: Any) -> dict[str, Any]:
        databases = databases or {"default": sqlite(**GOOD_SQLITE)}
        monkeypatch.setattr(checks, "connections", ConnectionHandler(databases))
        settings.DATABASES = databases
        settings.JOBEXEC = jobexec
        found = [
            *checks.check_settings(app_configs=None),
            *checks.check_project(app_configs=None),
            *checks.check_engines(app_configs=None),
            *checks.check_handlers(app_configs=None),
            *checks.check_schedules(app_configs=None),
            *checks.check_hooks(app_configs=None),
            *checks.check_breakers(app_configs=None),
            *checks.check_alerts(app_configs=None),
            *checks.check_encryption(app_configs=None),
            *checks.check_authorization(app_configs=None),
        ]
        by_id = {str(message.id): message for message in found}
        assert len(by_id) == len(found)
        return by_id

    with handlers.isolated(empty=True):
        yield run


@pytest.mark.parametrize("database", [sqlite(**GOOD_SQLITE), postgresql()])
def test_a_good_project_has_no_messages(site, database):
    assert site({"default": database}) == {}


def test_e001_for_each_problem(settings):
    settings.JOBEXEC = {"THRAEDS": 1, "QUEUE_SIZE": 0}
    found = checks.check_settings()
    assert [message.id for message in found] == ["jobexec.E001", "jobexec.E001"]
    assert "Did you mean 'THREADS'?" in found[0].msg
    assert "QUEUE_SIZE" in found[1].msg


def test_with_bad_settings_the_engines_are_not_looked_at(site):
    assert list(site({"default": sqlite()}, THREADS=0)) == ["jobexec.E001"]


def test_e002_without_time_zones(site, settings):
    settings.USE_TZ = False
    assert list(site()) == ["jobexec.E002"]


def test_e003_for_an_engine_that_is_no_database(site):
    found = site(ENGINES={"nowhere": {}})
    assert list(found) == ["jobexec.E003"]
    assert "'nowhere'" in found["jobexec.E003"].msg


@pytest.mark.parametrize(
    ("backend", "words"),
    [("django.db.backends.dummy", "'unknown'"), ("tests.no_such_backend", "cannot be loaded")],
)
def test_e004_for_a_database_that_cannot_be_used(site, backend, words):
    found = site({"default": {"ENGINE": backend, "NAME": "x"}})
    assert list(found) == ["jobexec.E004"]
    assert words in found["jobexec.E004"].msg


def test_only_engines_are_looked_at(site):
    found = site({"default": postgresql(), "reports": sqlite()})
    assert found == {}


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        ({"django.contrib.admin"}, ["jobexec.E005"]),
        ({"django.contrib.admin", "rangefilter"}, []),
        (set(), []),
    ],
)
def test_e005_for_the_admin_without_its_filters(site, monkeypatch, installed, expected):
    monkeypatch.setattr(checks.apps, "is_installed", lambda name: name in installed)
    assert list(site()) == expected


def test_e006_for_a_bad_default_retry_plan(site):
    found = site(DEFAULT_RETRY_PLAN="R0/PT5M")
    assert list(found) == ["jobexec.E006"]
    assert "'R0/PT5M'" in found["jobexec.E006"].msg


@pytest.mark.parametrize(("acquisition", "expected"), [("skip_locked", ["jobexec.E007"]), ("optimistic", [])])
def test_e007_for_skip_locked_on_sqlite(site, acquisition, expected):
    assert list(site(ACQUISITION=acquisition)) == expected


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("jobexec.conf.get_settings", None),
        ("jobexec.nowhere.tenants_of", "cannot be imported: No module named 'jobexec.nowhere'"),
        ("jobexec.conf.tenants_of", "cannot be imported"),
        ("jobexec.conf.MAX_NAME_LENGTH", "is not callable"),
        (None, None),
    ],
)
def test_e008_for_a_hook_that_is_none(site, path, words):
    found = site(ADMIN_TENANTS=path)
    assert list(found) == (["jobexec.E008"] if words else [])
    assert not words or words in found["jobexec.E008"].msg


@pytest.mark.parametrize(
    ("database", "missing"),
    [
        (sqlite(), ["IMMEDIATE", "journal_mode=WAL"]),
        (sqlite(transaction_mode="IMMEDIATE"), ["journal_mode=WAL"]),
        (sqlite(transaction_mode="DEFERRED", init_command="PRAGMA journal_mode=WAL"), ["IMMEDIATE"]),
        (sqlite(transaction_mode="IMMEDIATE", init_command="PRAGMA journal_mode=DELETE"), ["journal_mode=WAL"]),
        ({**sqlite(), "NAME": ":memory:"}, ["IMMEDIATE"]),
    ],
)
def test_w001_tells_the_options_that_are_missing(site, database, missing):
    found = site({"default": {**database, "OPTIONS": {**database["OPTIONS"], "timeout": 20}}})
    assert list(found) == ["jobexec.W001"]
    hint = found["jobexec.W001"].hint
    assert all(word in hint for word in missing)
    assert "'timeout': 20" in hint
    assert found["jobexec.W001"].level == WARNING


@pytest.mark.parametrize(
    "database",
    [
        sqlite(transaction_mode="immediate", init_command="pragma synchronous=normal; pragma journal_mode = 'wal'"),
        sqlite(transaction_mode="EXCLUSIVE", init_command="PRAGMA journal_mode(WAL)"),
        {**sqlite(transaction_mode="IMMEDIATE"), "NAME": "file:jobs?mode=memory&cache=shared"},
    ],
)
def test_no_w001_where_the_options_are_right(site, database):
    assert site({"default": database}) == {}


@pytest.mark.parametrize(
    ("pool", "threads", "warned"),
    [
        (True, 10, True),
        (True, 1, True),
        ({"max_size": 24}, 10, True),
        ({"max_size": 25}, 10, False),
        ({"min_size": 25}, 10, False),
        ({"min_size": 2}, 10, True),
        (False, 10, False),
    ],
)
def test_w002_for_a_pool_too_small_for_the_threads(site, pool, threads, warned):
    found = site({"default": postgresql(OPTIONS={"pool": pool})}, THREADS=threads)
    assert list(found) == (["jobexec.W002"] if warned else [])


def test_w002_says_how_many_connections_are_needed(site):
    found = site({"default": postgresql(OPTIONS={"pool": {"max_size": 5}})}, THREADS=20)
    assert "at most 5" in found["jobexec.W002"].msg
    assert "at least 35" in found["jobexec.W002"].hint


@pytest.mark.parametrize(("database", "expected"), [(sqlite(**GOOD_SQLITE), ["jobexec.W003"]), (postgresql(), [])])
def test_w003_for_atomic_jobs_on_sqlite(site, database, expected):
    assert list(site({"default": database}, ATOMIC_JOBS=True)) == expected


@pytest.mark.parametrize(
    ("databases", "notify", "words"),
    [
        ({"default": postgresql(), "direct": postgresql()}, False, "NOTIFY is False"),
        ({"default": postgresql(), "direct": sqlite()}, True, "it is not a PostgreSQL database"),
        ({"default": postgresql(), "direct": postgresql("other")}, True, "another database"),
        ({"default": sqlite(**GOOD_SQLITE), "direct": postgresql()}, True, "the engine is not on PostgreSQL"),
        (
            {"default": postgresql(), "direct": postgresql(DISABLE_SERVER_SIDE_CURSORS=True)},
            True,
            "behind a pooler, too",
        ),
    ],
)
def test_w004_for_a_listen_database_of_no_use(site, databases, notify, words):
    found = site(databases, NOTIFY=notify, LISTEN_DATABASE="direct")
    assert list(found) == ["jobexec.W004"]
    assert words in found["jobexec.W004"].msg


@pytest.mark.parametrize(
    ("jobexec", "expected"),
    [({}, ["jobexec.W005"]), ({"NOTIFY": False}, []), ({"LISTEN_DATABASE": "direct"}, [])],
)
def test_w005_for_listening_through_a_pooler(site, jobexec, expected):
    databases = {"default": postgresql(DISABLE_SERVER_SIDE_CURSORS=True), "direct": postgresql()}
    assert list(site(databases, **jobexec)) == expected


PATIENT = {"connect_timeout": 2, "keepalives_idle": 5, "tcp_user_timeout": 9000}


@pytest.mark.parametrize(
    ("database", "missing"),
    [
        (postgresql(HOST="db.example"), ["connect_timeout", "keepalives_idle", "tcp_user_timeout"]),
        (postgresql(HOST="db.example", OPTIONS={**PATIENT, "tcp_user_timeout": 1}), []),
        (postgresql(HOST="db.example", OPTIONS={"connect_timeout": 2}), ["keepalives_idle", "tcp_user_timeout"]),
        (postgresql(HOST="db.example", OPTIONS={"service": "shop"}), []),
        (postgresql(HOST="/run/postgresql"), []),
        (postgresql(HOST="127.0.0.1"), []),
        (postgresql(), []),
        (sqlite(), []),
    ],
)
def test_w007_only_with_deploy_for_a_remote_database_that_is_waited_for_without_end(site, database, missing):
    assert "jobexec.W007" not in site({"default": database})
    found = checks.check_deployment(app_configs=None)
    assert [message.id for message in found] == (["jobexec.W007"] if missing else [])
    assert all(name in found[0].msg and name in found[0].hint for name in missing)


def test_w007_is_said_by_check_deploy_alone(site, settings):
    site({"default": postgresql(HOST="db.example")})
    checks.register_checks()
    assert [message.id for message in run_checks(tags=[checks.TAG])] == []
    said = run_checks(tags=[checks.TAG], include_deployment_checks=True)
    assert [message.id for message in said] == ["jobexec.W007"]
    settings.JOBEXEC = {"THREADS": 0}
    assert checks.check_deployment(app_configs=None) == []


def test_they_are_registered_with_django_under_their_tag(settings):
    checks.register_checks()
    checks.register_checks()
    assert registry.registry.tag_exists(checks.TAG)
    settings.JOBEXEC = {"THREADS": 0}
    found = run_checks(tags=[checks.TAG])
    assert [(message.id, message.level) for message in found] == [("jobexec.E001", ERROR)]


def test_every_id_is_documented_and_no_other():
    tasks = Path(checks.__file__).parent / "backends" / "checks.py"
    processes = Path(checks.__file__).parent / "processes" / "checks.py"
    files = (Path(checks.__file__), Path(validation.__file__), tasks, processes)
    source = "".join(path.read_text() for path in files)
    page = (Path(__file__).parents[2] / "docs/reference/checks.md").read_text()
    said = set(re.findall(r'"(jobexec\.[EW]\d+)"', source))
    assert len(said) == 44
    assert set(re.findall(r"^`(jobexec\.[EW]\d+)`$", page, re.MULTILINE)) == said


def test_a_job_in_a_category_that_does_not_exist(site):
    job(name="tests.mail", category="mail")(print)
    message = site()["jobexec.W006"]
    assert "'tests.mail'" in message.msg and "'mail'" in message.msg
    assert "jobexec.W006" not in site(CATEGORIES=["default", "mail"])


def test_a_job_with_a_resource_that_no_entry_covers(site):
    job(name="tests.charge", resource="stripe:eu")(print)
    job(name="tests.each", resource=lambda *args: "any")(print)
    message = site()["jobexec.W023"]
    assert "'tests.charge'" in message.msg and "'stripe:eu'" in message.msg
    assert "jobexec.W023" not in site(RESOURCES={"stripe:*": {"limit": 2}})


@pytest.mark.parametrize("name", ["JOBEXECUTOR", "JOB_EXEC", "JOBEXEC_SETTINGS"])
def test_settings_under_another_name(site, settings, name):
    setattr(settings, name, {"THREADS": 5})
    assert name in site()["jobexec.W018"].msg
    setattr(settings, name, "x")
    assert "jobexec.W018" not in site()


@pytest.mark.parametrize("option", ["counts", "ignores"])
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("shop.errors.NoMoney", "which cannot be imported: No module named 'shop'"),
        ("json.NoMoney", "which cannot be imported: module 'json' has no attribute 'NoMoney'"),
        ("json.dumps", "which is not an exception"),
        ("json.JSONDecodeError", "which is json.decoder.JSONDecodeError"),
        ("OSError", "which is builtins.OSError"),
        ("json.decoder.JSONDecodeError", None),
        ("builtins.OSError", None),
        ("NO_MONEY", None),
    ],
)
def test_an_exception_that_a_breaker_will_not_recognise(site, option, name, problem):
    found = site(RESOURCES={"pay": {"breaker": {option: [name]}}, "mail": {"limit": 1}})
    said = f"JOBEXEC['RESOURCES']['pay']: the breaker names {name!r}, {problem}."
    assert {id: message.msg for id, message in found.items()} == ({"jobexec.W021": said} if problem else {})


def test_an_alert_of_a_category_that_does_not_exist(site):
    alerts = {"team": {"mail": "team@shop.example", "categories": ["default", "mial"]}}
    assert "'team'" in site(DEAD_LETTER_ALERTS=alerts)["jobexec.W017"].msg
    assert "jobexec.W017" not in site(DEAD_LETTER_ALERTS=alerts, CATEGORIES=["default", "mial"])


def test_a_schedule_that_no_executor_fires(site):
    job(name="tests.nightly", schedule="@daily", database="elsewhere")(lambda: None)
    job(name="tests.hourly", schedule="@hourly")(lambda: None)
    message = site()["jobexec.W013"]
    assert "'tests.nightly'" in message.msg and "'elsewhere'" in message.msg


def test_an_acquisition_that_no_engine_uses(site):
    raw = {"ACQUISITIONS": {"quick": {}, "slow": {}}, "ENGINES": {"default": {"ACQUISITIONS": ["quick"]}}}
    message = site(**raw)["jobexec.W016"]
    assert "'slow'" in message.msg and "not used by any engine" in message.msg
    raw["ENGINES"] = {"default": {"ACQUISITIONS": ["quick", "slow"]}}
    assert site(**raw) == {}


def test_a_category_that_no_acquisition_serves(site):
    named = {"quick": {"CATEGORIES": ["mail"]}}
    raw = {"CATEGORIES": ["default", "mail"], "ENGINES": {"default": {"ACQUISITIONS": ["quick"]}}}
    message = site(**raw, ACQUISITIONS=named)["jobexec.W016"]
    assert "'default' serves the category 'default'" in message.msg
    assert site(**raw, ACQUISITIONS={"quick": {}}) == {}


@pytest.mark.parametrize("debug", [True, False])
def test_gateways_that_ask_nobody(settings, debug):
    settings.DEBUG = debug
    assert checks.check_gateways() == []
    settings.JOBEXEC = {"GATEWAY_AUTH": "none"}
    (message,) = checks.check_gateways()
    assert (message.id, message.level) == ("jobexec.W015", WARNING)
    assert ("PRODUCTION" in message.msg) is not debug
    checks.register_checks()
    assert "jobexec.W015" in {found.id for found in run_checks(tags=[checks.TAG])}
    settings.JOBEXEC = {"GATEWAY_AUTH": "nobody"}
    assert checks.check_gateways() == []


def test_gateways_for_users_where_there_are_none(settings):
    settings.JOBEXEC = {"GATEWAY_USERS": True}
    assert checks.check_gateways() == []
    settings.INSTALLED_APPS = ["jobexec"]
    assert [message.id for message in checks.check_gateways()] == ["jobexec.E014"]


def test_gateways_serve_an_engine(settings):
    settings.JOBEXEC = {"ENGINES": {"default": {}}, "GATEWAY_DATABASE": "default"}
    assert checks.check_gateways() == []
    settings.JOBEXEC = {"ENGINES": {"default": {}}, "GATEWAY_DATABASE": "elsewhere"}
    (message,) = checks.check_gateways()
    assert (message.id, "'elsewhere'" in message.msg, "'default'" in message.msg) == ("jobexec.E015", True, True)


@pytest.mark.parametrize(
    "raw",
    [
        {"BROKER_URL": "amqp:/user:s3cr3t@broker"},
        {"BROKER_URL": ["amqp://user:s3cr3t@broker"]},
        {"METRICS_TOKEN": "s3cr3t\n"},
        {"METRICS_TOKEN": ["s3cr3t"]},
        [("METRICS_TOKEN", "s3cr3t")],
    ],
)
def test_no_message_shows_a_secret(raw):
    with override_settings(JOBEXEC=raw):
        found = checks.check_settings()
        assert found
        assert "s3cr3t" not in str(found)
        with pytest.raises(InvalidSettings) as raised:
            conf.get_settings()
        assert "s3cr3t" not in str(raised.value)


KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


def test_encrypted_jobs_without_a_key(site):
    assert "ENCRYPT_ARGUMENTS" in site(ENCRYPT_ARGUMENTS=True)["jobexec.E020"].msg
    assert not site(ENCRYPT_ARGUMENTS=True, ENCRYPTION_KEYS={"2026": KEY})
    job(name="tests.secret", encrypted=True)(print)
    assert "'tests.secret' is encrypted" in site()["jobexec.E020"].msg


def test_keys_without_the_package(site, monkeypatch):
    monkeypatch.setattr(encryption, "is_installed", lambda: False)
    assert "the extra 'encryption'" in site(ENCRYPTION_KEYS={"2026": KEY})["jobexec.E021"].hint
    assert not site()


@pytest.mark.parametrize("path", ["tests.nothing.of_this_name", "jobexec.checks.TAG"])
def test_a_function_of_a_key_or_a_policy_that_does_not_exist(site, path):
    assert path in site(ENCRYPTION_KEYS={"2026": KEY, "kms": path})["jobexec.E022"].msg
    assert path in site(AUTHORIZATION=path)["jobexec.E023"].msg
    assert not site(AUTHORIZATION="builtins.bool", ENCRYPTION_KEYS={"kms": "builtins.bytes"})


@pytest.mark.parametrize(
    "keys", [{"2026": KEY[:-4]}, {"2026": KEY + "AAAA"}, {KEY: "2026"}, {"": KEY}, {1: KEY}, {"2026": 5}, [KEY], KEY]
)
def test_no_message_shows_a_key(site, keys):
    message = site(ENCRYPTION_KEYS=keys)["jobexec.E001"]
    assert "ENCRYPTION_KEYS" in message.msg
    assert KEY[:20] not in message.msg
    assert KEY[:20] not in repr(conf.problems({"ENCRYPTION_KEYS": keys}))


def test_settings_do_not_show_keys(settings):
    settings.JOBEXEC = {"ENCRYPTION_KEYS": {"2026": KEY}}
    assert KEY[:20] not in repr(conf.get_settings())
