"""System checks: what is wrong with TASKS is said by `manage.py check`, without a database."""

import sys
import types
from importlib import import_module

import pytest

from jobexec.backends import checks
from jobexec.backends.compat import PACKAGE, task, task_backends

IMMEDIATE = task.__module__.rpartition(".")[0] + ".backends.immediate.ImmediateBackend"


def found(alias="default"):
    """What the backend says, but for the tasks of the tests, which are in a module that executors do not import."""
    return [message for message in task_backends[alias].check() if "tests.support.shop" not in message.msg]


def ids(messages):
    return [message.id for message in messages]


def test_nothing_is_wrong(shop):
    assert found() == []


def test_django_runs_the_checks_of_the_backend(shop, backend):
    backend(RETRIEZ="R5/PT5M")
    assert "jobexec.E009" in ids(import_module(f"{PACKAGE}.checks").check_tasks())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"RETRIEZ": "R5/PT5M"},
            "TASKS['default']['OPTIONS']: RETRIEZ: unknown; expected one of DATABASE, CATEGORIES, ",
        ),
        ({"retries": "R5/PT5M"}, "TASKS['default']['OPTIONS']: retries: unknown; expected one of "),
        ({"retries": "R5/PT5M"}, " Did you mean 'RETRIES'?"),
        ({"RETRIES": "sometimes"}, "OPTIONS']: RETRIES: retries: Invalid retry plan 'sometimes'"),
        ({"ATOMIC": "yes"}, "OPTIONS']: ATOMIC: atomic: expected True or False, got 'yes'."),
        ({"PRIORITY": 5}, "OPTIONS']: PRIORITY: unknown"),
        ({"SENSITIVE": ["card"]}, "OPTIONS']: SENSITIVE: unknown"),
        ({"DATABASE": 5}, "OPTIONS']: DATABASE: database: expected a string"),
        ({"CATEGORIES": ["mail"]}, "OPTIONS']: CATEGORIES: expected a dict of names of queues"),
        ({"CATEGORIES": {"emails": 5}}, "OPTIONS']: CATEGORIES: category: expected a string"),
        ({"TASK_OPTIONS": []}, "OPTIONS']: TASK_OPTIONS: expected a dict of paths of tasks"),
        ({"TASK_OPTIONS": {"a.b": 5}}, "OPTIONS']: TASK_OPTIONS['a.b']: expected a dict of options, got 5."),
        ({"TASK_OPTIONS": {"a.b": {"zzz": 1}}}, "OPTIONS']: TASK_OPTIONS['a.b']: Unknown option 'zzz'."),
    ],
)
def test_wrong_options(shop, backend, options, message):
    backend(**options)
    (error,) = [each for each in found() if each.id == "jobexec.E009"]
    assert message in error.msg


def test_options_that_stand_beside_OPTIONS(shop, settings):
    backend = {"BACKEND": "jobexec.backends.JobExecutorBackend", "QUEUES": [], "RETRIES": "R1/PT0S"}
    settings.TASKS = {"default": backend}
    (warning,) = found()
    text = "TASKS['default']: the key 'RETRIES' has no effect; expected one of BACKEND, QUEUES, OPTIONS."
    assert (warning.id, warning.msg) == ("jobexec.W014", text)


def test_options_that_are_no_dict(settings):
    settings.TASKS = {"default": {"BACKEND": "jobexec.backends.JobExecutorBackend", "OPTIONS": ["x"]}}
    (error,) = found()
    assert (error.id, error.msg) == (
        "jobexec.E009",
        "TASKS['default']['OPTIONS']: OPTIONS: expected a dict, got ['x'].",
    )


def test_a_database_without_an_engine(shop, backend, configure):
    configure(only="default")
    backend(DATABASE="elsewhere")
    (error,) = found()
    assert error.id == "jobexec.E010"
    assert error.msg.startswith("TASKS['default']['OPTIONS']: DATABASE: The database 'elsewhere' is not a job engine.")


def test_categories_that_do_not_exist(shop, backend):
    backend(queues=["default", "emails", "zzz"], CATEGORIES={"emails": "post"})
    error, warning = found()
    assert (error.id, warning.id) == ("jobexec.E011", "jobexec.W008")
    assert "the queue 'emails' is in the category 'post', which does not exist" in error.msg
    assert "there is no category for the queue 'zzz'" in warning.msg


def test_jobexec_is_no_installed_app(shop, settings):
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "jobexec"]
    assert ids(task_backends["default"].check()) == ["jobexec.E012"]


def test_tasks_that_executors_do_not_import(shop, configure):
    said = [message for message in task_backends["default"].check() if message.id == "jobexec.W009"]
    assert len(said) == len([name for name in vars(shop) if hasattr(getattr(shop, name), "enqueue")])
    assert "The task tests.support.shop.greet is in a module that executors do not import" in said[1].msg
    assert "name 'tests.support.shop' in JOBEXEC['IMPORTS']" in said[1].hint
    configure(IMPORTS=["tests.support.shop"])
    assert ids(task_backends["default"].check()) == []
    configure(IMPORTS=["tests.support.sho"])
    assert "jobexec.W009" in ids(task_backends["default"].check())


@pytest.mark.parametrize("name", ["tests.support.tasks", "tests.support.tasks.mail", "tests.support.jobs"])
def test_modules_of_apps_are_imported(shop, name):
    module = sys.modules[name] = types.ModuleType(name)
    exec("from jobexec.backends.compat import task\n@task\ndef send(): pass\n", vars(module))
    try:
        assert found() == []
    finally:
        del sys.modules[name]


def test_task_options_of_no_task(shop, backend):
    backend(TASK_OPTIONS={"tests.support.shop.greet": {"exclusive": False}, "store.tasks.send": {"exclusive": False}})
    (warning,) = found()
    assert (warning.id, "'store.tasks.send'" in warning.msg) == ("jobexec.W010", True)


def test_wrong_settings_of_jobexec_are_said_once(shop, configure):
    configure(THREADS="many")
    assert ids(task_backends["default"].check()) == []


def test_tasks_without_the_setting(shop, monkeypatch):
    module = types.ModuleType("tests.support.tasks")
    module.greet = shop.greet
    monkeypatch.setitem(sys.modules, "tests.support.tasks", module)
    assert "jobexec.W011" not in ids(checks.check_project())
    assert checks._is_set("TASKS") and not checks._is_set("SECURE_SSL_HOST")
    monkeypatch.setattr(checks, "_is_set", lambda name: False)
    warning = checks.check_project()[0]
    assert (warning.id, "tests.support.shop.greet is one" in warning.msg) == ("jobexec.W011", True)


@pytest.mark.skipif(PACKAGE != "django_tasks", reason="only the backport is an app")
def test_the_backport_is_no_installed_app(shop, settings):
    assert ids(checks.check_project()) == ["jobexec.W012"]
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "django_tasks"]
    assert checks.check_project() == []
    settings.TASKS = {"default": {"BACKEND": IMMEDIATE}}
    settings.INSTALLED_APPS = settings.INSTALLED_APPS[:-1]
    assert checks.check_project() == []
