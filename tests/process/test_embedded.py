"""An executor in each process of gunicorn and uvicorn, as in the how-to guide; and one that was started too early."""

import json
import os
import re
import runpy
import signal
import sys
import urllib.error
import urllib.request

import pytest

from jobexec.models import ExecutorNode, Job
from tests.support.factories import make_node
from tests.support.machines import processes
from tests.support.suite.databases import ROOT
from tests.support.waiting import TIMEOUT, until

pytestmark = [pytest.mark.transactional, pytest.mark.databases("postgresql"), pytest.mark.slow]

GUNICORN = ["gunicorn", "-c", str(ROOT / "docs" / "examples" / "gunicorn_conf.py"), "-b", "127.0.0.1:0"]
WSGI = "django.core.wsgi:get_wsgi_application()"
ASGI = "django.core.asgi:get_asgi_application"
UVICORN = ["uvicorn", "docs.examples.embedded_asgi:application", "--workers", "2", "--lifespan", "on", "--port", "0"]
#: A site that starts its executor when it is loaded, which is before gunicorn forks.
TOO_EARLY = """
from django.core.wsgi import get_wsgi_application
application = get_wsgi_application()
from docs.examples import embedded
embedded.start()
"""


@pytest.fixture
def serve(alias, tmp_path):
    """A function that starts a web server on the test's database."""
    started = []

    def start(*command, urls="docs.examples.embedded"):
        pytest.importorskip(command[0], reason=f"{command[0]} is not installed (extra test)")
        environment = processes.environment(alias, JOBEXEC=processes.QUICK, ROOT_URLCONF=urls)
        environment["PYTHONPATH"] += f"{os.pathsep}{tmp_path}"
        environment["HOME"] = str(tmp_path)  # where gunicorn puts its control socket
        started.append(processes.Process([sys.executable, "-m", *command], environment))
        return started[-1]

    yield start
    for process in started:
        process.close()


def nodes(alias):
    return set(ExecutorNode.objects.using(alias).values_list("pid", flat=True))


def ask(server, path="/executor/live/"):
    """The status and the answer of one of the processes."""
    url = []
    until(lambda: url.extend(re.findall(r"http://127\.0\.0\.1:\d+", server.text)) or url, TIMEOUT)
    return until(lambda: answer_of(f"{url[0]}{path}"), TIMEOUT)


def answer_of(url):
    """The status and the answer; None while nobody listens: uvicorn says its address and starts executors before."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
    except urllib.error.URLError as error:
        assert isinstance(error.reason, ConnectionRefusedError), error
        return None


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([*GUNICORN, WSGI], id="gunicorn"),
        pytest.param([*GUNICORN, "--preload", WSGI], id="gunicorn-preload", marks=pytest.mark.nightly),
        pytest.param(UVICORN, id="uvicorn"),
    ],
)
def test_each_process_has_an_executor_of_its_own(alias, serve, enqueue, trace, command):
    server = serve(*command)
    until(lambda: len(nodes(alias)) == 2, TIMEOUT)
    first = nodes(alias)
    assert server.pid not in first
    status, answer = ask(server)
    assert (status, answer["reasons"]) == (200, [])
    assert answer["pid"] in first
    for number in range(20):
        enqueue("note", str(number))
    until(lambda: len(trace.lines()) == 20 and not Job.objects.using(alias).exists(), TIMEOUT)
    assert {int(line.split()[1]) for line in trace.lines()} <= first
    os.kill(min(first), signal.SIGKILL)
    until(lambda: len(nodes(alias) - {min(first)}) == 2, TIMEOUT)
    server.send(signal.SIGTERM)
    assert server.ended() == 0, server.text
    assert nodes(alias) <= {min(first)}, "only the killed one has left its row to the next recovery"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["gunicorn", "-w", "2", "-b", "127.0.0.1:0", WSGI], id="gunicorn"),
        pytest.param(["uvicorn", "--factory", ASGI, "--workers", "2", "--port", "0"], id="uvicorn"),
    ],
)
def test_a_monitor_asks_the_site_whether_its_engines_are_healthy(alias, serve, command):
    server = serve(*command, urls="jobexec.urls")
    assert ask(server, "/health/") == (503, {"ok": False})
    make_node(alias)
    assert ask(server, "/health/") == (200, {"ok": True})


def test_one_that_is_started_before_the_fork_is_found_out(alias, serve, tmp_path):
    (tmp_path / "too_early.py").write_text(TOO_EARLY)
    server = serve("gunicorn", "--preload", "-w", "2", "-b", "127.0.0.1:0", "too_early:application")
    until(lambda: nodes(alias), TIMEOUT)
    status, answer = ask(server)
    assert status == 503
    assert any(re.fullmatch(r"the thread .* has ended", reason) for reason in answer["reasons"])
    assert nodes(alias) == {server.pid}
    server.send(signal.SIGTERM)
    server.ended()
    assert nodes(alias) == {server.pid}, "nothing has drained it"


def test_the_main_process_of_gunicorn_has_no_executor_to_stop():
    """gunicorn calls the hook there for a worker that was gone when it was to be stopped."""
    hooks = runpy.run_path(str(ROOT / "docs" / "examples" / "gunicorn_conf.py"))
    hooks["worker_exit"](None, object())
