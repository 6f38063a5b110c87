"""Executors that start afresh when their source files change."""

import os
import signal

import pytest

from jobexec.models import ExecutorNode
from tests.support.factories import make_job
from tests.support.machines.processes import alive
from tests.support.waiting import until

pytestmark = [pytest.mark.transactional, pytest.mark.slow]

JOBS = """
import time
from pathlib import Path
from jobexec import job

def write(path, text):
    with open(path, "a") as file:
        file.write(f"{{text}}\\n")

@job(name="tests.reloaded")
def reloaded(path, go=None):
    if go is not None:
        write(path, "begun by {text}")
        while not Path(go).exists():
            time.sleep(0.02)
    from .words import WORD
    write(path, f"{text} {{WORD}}")
"""


@pytest.fixture
def project(tmp_path, run, alias, trace):
    """A project of one app, whose handler imports another module only when it runs."""

    class Project:
        app = tmp_path / "reloaded_app"

        def write(self, name, text):
            (self.app / name).write_text(text)

        def write_jobs(self, text):
            self.write("jobs.py", JOBS.format(text=text))

        def start(self, *arguments, debug=True):
            python_path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", ""), os.getcwd()])
            env = {
                "PYTHONPATH": python_path,
                "PYTHONDONTWRITEBYTECODE": "1",
                "DJANGO_SETTINGS_MODULE": "reloaded_settings",
            }
            apps = '["jobexec", "django.contrib.auth", "django.contrib.contenttypes", "reloaded_app"]'
            lines = ["from tests.settings import *", f"INSTALLED_APPS = {apps}", f"DEBUG = {debug}"]
            (tmp_path / "reloaded_settings.py").write_text("\n".join(lines))
            return run(*arguments, env=env)

        def enqueue(self, *arguments):
            configuration = {"args": [str(trace.path), *arguments], "kwargs": {}}
            make_job(alias, handler_type="tests.reloaded", handler_configuration=configuration)

        def pids(self):
            return {node.pid for node in ExecutorNode.objects.using(alias).exclude(state="dead")}

        def afresh(self, count, before):
            """Wait until so many others serve."""
            until(lambda: len(self.pids()) == count and not self.pids() & before, 60)

    project = Project()
    project.app.mkdir()
    project.write("__init__.py", "")
    project.write("words.py", "WORD = 'one'\n")
    project.write_jobs("old")
    return project


@pytest.mark.databases("postgresql")
def test_all_processes_start_afresh_after_what_runs_has_ended(alias, project, trace):
    supervisor = project.start("--processes", "2", "--threads", "1", "--queue-size", "1")
    supervisor.said("Watching source files")
    until(lambda: len(project.pids()) == 2, 60)
    before = project.pids()
    project.enqueue(str(trace.go))
    until(lambda: trace.lines() == ["begun by old"])
    project.write_jobs("new")
    supervisor.said("jobs.py changed: draining and restarting.")
    supervisor.said("Draining. Running jobs: 1.")
    project.write("words.py", "WORD = 'two'\n")  # meanwhile: in what starts next, and no reason to drain again
    trace.go.touch()
    project.afresh(2, before)
    project.enqueue()
    until(lambda: len(trace.lines()) == 3)
    assert trace.lines() == ["begun by old", "old two", "new two"]
    assert "words.py changed" not in supervisor.text
    supervisor.send(signal.SIGTERM)
    assert supervisor.ended() == 0, supervisor.text
    assert project.pids() == set()


@pytest.mark.databases("sqlite")
@pytest.mark.nightly
def test_code_that_cannot_start_waits_for_the_next_change(alias, project, trace):
    supervisor = project.start()
    until(project.pids, 60)
    (old,) = project.pids()
    project.write("tasks_of_tomorrow.py", "def broken(:")  # was never loaded by anybody
    supervisor.said("tasks_of_tomorrow.py changed")
    project.afresh(1, {old})
    project.write_jobs("new")
    project.write("jobs.py", (project.app / "jobs.py").read_text() + "from . import tasks_of_tomorrow\n")
    supervisor.said("SyntaxError")
    supervisor.said("No process could start. They are started again when a source file changes.")
    assert project.pids() == set()
    project.write("tasks_of_tomorrow.py", "")
    until(project.pids, 60)
    project.enqueue()
    until(lambda: trace.lines() == ["new one"])
    supervisor.send_group(signal.SIGINT)
    assert supervisor.ended() == 0, supervisor.text
    assert not alive(old)


@pytest.mark.databases("sqlite")
@pytest.mark.nightly
def test_ctrl_c_ends_it_also_when_nothing_can_start(alias, project):
    supervisor = project.start("--reload", debug=False)
    until(project.pids, 60)
    project.write("jobs.py", "def broken(:")
    supervisor.said("No process could start.")
    supervisor.send(signal.SIGINT)
    assert supervisor.ended() == 1, supervisor.text
