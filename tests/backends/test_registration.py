"""Which task a row means: one that this process has imported, and never something that the row brings."""

import subprocess
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import pytest

import jobexec
from jobexec.backends import registration
from jobexec.backends.compat import InvalidTask, task, task_backends
from jobexec.backends.function import TaskFunction
from jobexec.backends.lookup import our_backends, served_by
from jobexec.exceptions import DuplicateHandler, HandlerNotFound, InvalidSettings
from jobexec.handlers import registry
from jobexec.handlers.base import AsyncJobHandler, NamesArguments, ResultHandler
from tests.support.suite.databases import ROOT, environment
from tests.support.waiting import TIMEOUT

IMMEDIATE = task.__module__.rpartition(".")[0] + ".backends.immediate.ImmediateBackend"


@pytest.fixture
def module(shop):
    """A function that makes a module of source code, for this test; run again it is a reload."""
    made = []

    def make(name, source):
        module = sys.modules.get(name) or types.ModuleType(name)
        sys.modules[name] = module
        made.append(name)
        exec("from jobexec.backends.compat import task\nimport jobexec\n" + source, vars(module))
        return module

    yield make
    for name in made:
        sys.modules.pop(name, None)


def test_a_declared_task_is_a_handler_like_others(shop):
    handler = registry.get_handler(shop.pay.module_path)
    assert isinstance(handler, TaskFunction) and handler in registry.all_handlers()
    assert isinstance(handler, ResultHandler) and isinstance(handler, NamesArguments)
    assert handler.definition() == {
        "id": shop.pay.module_path,
        "handler_type": shop.pay.module_path,
        "process_definition_key": "",
        "category": "default",
        "priority": 0,
        "retry_plan": "R3/PT1S",
        "exclusive": False,
        "atomic": False,
        "sensitive": ["card"],
    }
    assert registry.get_handler(shop.send.module_path).definition()["category"] == "mail"


def test_async_tasks_are_for_the_lane(shop):
    assert isinstance(registry.async_handler(shop.wait.module_path), AsyncJobHandler)
    assert registry.async_handler(shop.greet.module_path) is None


def test_using_changes_no_handler(shop):
    before = registry.get_handler(shop.pay.module_path)
    shop.pay.using(retries="R9/PT9S", priority=9)
    jobexec.options(shop.pay, retries="R9/PT9S")
    assert registry.get_handler(shop.pay.module_path) is before


def test_a_task_that_is_defined_anew_takes_the_place_of_the_old_one(module):
    source = "@jobexec.options(aliases={aliases})\n@task\n{kind}def send(order): return {order}\n"
    module("shop_again", source.format(aliases=["old.send"], kind="async ", order=1))
    assert registry.async_handler("old.send") is not None
    made = module("shop_again", source.format(aliases=["older.send"], kind="", order=2))
    handler = registry.get_handler("shop_again.send")
    assert handler.function is made.send.func and handler is registry.get_handler("older.send")
    assert registry.async_handler("shop_again.send") is None
    with pytest.raises(HandlerNotFound):
        registry.get_handler("old.send")


def test_a_task_does_not_take_the_name_of_a_job(module):
    jobexec.job(name="shop_named.send")(lambda: None)
    with pytest.raises(DuplicateHandler, match=r"two handlers: <job shop_named.send> and <task shop_named.send>"):
        module("shop_named", "@task\ndef send(order): pass\n")


def test_options_above_the_decorator_are_declared(module):
    made = module("shop_above", "@jobexec.options(retries='R7/PT1S')\n@task\ndef send(order): pass\n")
    assert registry.get_handler("shop_above.send").definition()["retry_plan"] == "R7/PT1S"
    assert registry.get_handler("shop_above.send").task is made.send


def test_a_name_bound_anew_is_seen_when_all_modules_are_there(module):
    module("shop_bound", "@task\ndef send(order): pass\nsend = jobexec.options(send, retries='R7/PT1S')\n")
    assert registry.get_handler("shop_bound.send").definition()["retry_plan"] == ""
    registration.register_as_they_stand()
    assert registry.get_handler("shop_bound.send").definition()["retry_plan"] == "R7/PT1S"


def test_settings_that_change_reach_the_handlers(shop, backend):
    assert registry.get_handler(shop.greet.module_path).definition()["retry_plan"] == ""
    backend(RETRIES="R6/PT1S")
    assert registry.get_handler(shop.greet.module_path).definition()["retry_plan"] == "R6/PT1S"


def test_a_callable_plan_is_that_of_the_handler(module):
    module("shop_plan", "@jobexec.options(retries=lambda attempt, error: 5)\n@task\ndef send(order): pass\n")
    assert registry.get_handler("shop_plan.send").retry_plan.function is not None


def test_a_task_of_another_backend_is_found_in_what_is_imported(module, backend):
    backend(others={"now": {"BACKEND": IMMEDIATE, "QUEUES": []}})
    made = module("shop_elsewhere", "@task(backend='now')\ndef send(order): pass\n")
    assert registry.registered("shop_elsewhere.send") is None
    handler = registry.get_handler("shop_elsewhere.send")
    assert (handler.task, handler.alias) == (made.send, "default")


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "shop_paths.function",
        "shop_paths.imported",
        "shop_paths.missing",
        "shop_paths",
        "shop_paths.send.func",
        "shop_paths.__builtins__.eval",
        "tests.support.never_imported.send",
        "",
        "...",
        "shop_paths.",
    ],
)
def test_other_paths_mean_nothing(module, name):
    source = "import tests.support.shop\nimported = tests.support.shop.greet\ndef function(): pass\n"
    module("shop_paths", source + "@task\ndef send(order): pass\n")
    with registry.isolated(empty=True), pytest.raises(HandlerNotFound):
        registry.get_handler(name)
    assert "tests.support.never_imported" not in sys.modules


def test_a_module_is_not_asked_for_what_it_does_not_have(module):
    asked = []
    made = module("shop_lazy", "")
    made.__getattr__ = asked.append
    with pytest.raises(HandlerNotFound):
        registry.get_handler("shop_lazy.send")
    assert asked == []


def test_without_a_backend_of_jobexec_no_task_is_a_handler(shop, settings):
    settings.TASKS = {"default": {"BACKEND": IMMEDIATE, "QUEUES": []}}
    with registry.isolated(empty=True), pytest.raises(HandlerNotFound):
        registry.get_handler(shop.greet.module_path)


def test_a_static_method_of_a_class_is_a_function_of_its_module(module):
    made = module("shop_class", "class Orders:\n    def send(order): pass\n    send = task(send)\n")
    with registry.isolated(empty=True):
        assert registry.get_handler("shop_class.Orders.send").task is made.Orders.send


def test_threads_that_meet_a_task_for_the_first_time_at_once(shop, module, backend):
    backend(others={"now": {"BACKEND": IMMEDIATE, "QUEUES": []}})
    module("shop_together", "@task(backend='now')\ndef send(order): pass\n")
    barrier = threading.Barrier(4)

    def look():
        barrier.wait(TIMEOUT)
        return registry.get_handler("shop_together.send").function

    with ThreadPoolExecutor(4) as pool:
        found = [future.result(TIMEOUT) for future in [pool.submit(look) for _ in range(4)]]
    assert len(set(found)) == 1


def test_backends_of_others_are_not_made(shop, settings):
    settings.TASKS = {
        "broken": {"BACKEND": "not.there.Backend"},
        "others": {"BACKEND": "tests.backends.test_registration.Unmakeable"},
        **settings.TASKS,
    }
    assert [backend.alias for backend in our_backends()] == ["default"]


class Unmakeable:
    def __init__(self, alias, params):
        raise AssertionError("made")


def test_functions_inside_functions_are_refused(shop):
    with pytest.raises(InvalidTask, match="must be defined at a module level"):
        task(lambda: None)
    assert task_backends["default"].supports_defer and task_backends["default"].supports_async_task
    assert task_backends["default"].supports_get_result and task_backends["default"].supports_priority


START = """
import django
from django.conf import settings
import tests.settings as base
settings.configure(**{{name: getattr(base, name) for name in dir(base) if name.isupper()}} | {changes!r})
django.setup()
from jobexec.handlers.registry import all_handlers
print(*[handler.name for handler in all_handlers() if not handler.name.startswith(("jobexec.", "bookings", "demo"))])
"""


def start(tmp_path, files, **changes):
    """The handlers that a process knows after it has started, and what it said otherwise."""
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    changes = {"INSTALLED_APPS": ["jobexec", "store"], "TASKS": {"default": {"BACKEND": BACKEND}}, **changes}
    changes |= {"MIDDLEWARE": [], "ROOT_URLCONF": "store", "DATABASES": {}}
    env = {**environment(), "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    command = [sys.executable, "-c", START.format(changes=changes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=env)
    return done.stdout.split(), done.stderr


BACKEND = "jobexec.backends.JobExecutorBackend"
TASK = "from jobexec.backends.compat import task\n@task\ndef {name}(): pass\n"
FILES = {
    "store/__init__.py": "",
    "store/tasks.py": TASK.format(name="send"),
    "store/elsewhere.py": TASK.format(name="pay"),
}


@pytest.mark.slow
def test_tasks_of_apps_and_imports_are_known_at_start(tmp_path):
    assert start(tmp_path, FILES, JOBEXEC={})[0] == ["store.tasks.send"]
    found = start(tmp_path, FILES, JOBEXEC={"IMPORTS": ["store.elsewhere"]})[0]
    assert found == ["store.elsewhere.pay", "store.tasks.send"]


@pytest.mark.slow
def test_a_module_in_imports_that_does_not_exist(tmp_path):
    _, said = start(tmp_path, FILES, JOBEXEC={"IMPORTS": ["store.misspelt"]})
    assert "InvalidSettings: JOBEXEC['IMPORTS'] names 'store.misspelt', but there is no such module." in said
    broken = {**FILES, "store/broken.py": "import not_there_at_all"}
    _, said = start(tmp_path, broken, JOBEXEC={"IMPORTS": ["store.broken"]})
    assert said.strip().endswith("ModuleNotFoundError: No module named 'not_there_at_all'")


@pytest.mark.slow
def test_without_a_package_of_tasks_the_backend_says_what_to_install(tmp_path):
    code = (
        "import sys\n"
        "sys.modules['django.tasks'] = sys.modules['django_tasks'] = None\n"
        "from importlib import util\n"
        "util.find_spec = lambda name, package=None: None\n"
        "from jobexec import backends\n"
        "assert not backends.installed()\n"
        "backends.JobExecutorBackend\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert "ImproperlyConfigured: jobexec.backends needs django.tasks" in done.stderr
    assert "install jobexec with the extra 'backport'" in done.stderr


def test_an_executor_serves_the_queues_of_single_backends(backend):
    backend(
        queues=["default", "emails"],
        others={
            "bulk": {
                "BACKEND": "jobexec.backends.JobExecutorBackend",
                "QUEUES": ["bulk"],
                "OPTIONS": {"DATABASE": "default"},
            },
            "any": {"BACKEND": "jobexec.backends.JobExecutorBackend", "QUEUES": [], "OPTIONS": {"DATABASE": "default"}},
            "dummy": {"BACKEND": IMMEDIATE},
        },
    )
    assert served_by(["default"]) == (["default"], ["default", "mail"])
    assert served_by(["bulk", "default"]) == (["default"], ["bulk", "default", "mail"])
    assert served_by(["bulk", "any"]) == (["default"], None)
    with pytest.raises(InvalidSettings, match="expected one of 'default', 'bulk', 'any', got 'dummy'"):
        served_by(["default", "dummy"])
