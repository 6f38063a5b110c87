"""Options of the command: what it serves, what it says, when it ends, why it does not start."""

import gc
import signal
import sys
from datetime import timedelta

import pytest
from django.conf import settings
from django.core.management import execute_from_command_line

import jobexec
from jobexec import clock
from jobexec.management.commands import runjobexecutor
from jobexec.models import Deployment, DeploymentRegistration, Job, TimerJob
from tests.support.factories import make_job, tables_of
from tests.support.machines import processes
from tests.support.waiting import until

pytestmark = pytest.mark.transactional

CATEGORIES = ["default", "mail"]


@pytest.mark.databases("sqlite", "postgresql")
def test_until_empty_waits_for_retries_and_reports_timers(alias, run, enqueue, trace):
    enqueue("fail_times", 3, retries=9)
    timer = enqueue("note", "later", due_date=clock.now(alias) + timedelta(days=1))
    executor = run("--until-empty")
    assert executor.ended() == 0, executor.text
    assert trace.lines() == ["try"] * 4
    assert tables_of(alias) == {timer.pk: [TimerJob]}
    due = f"{timer.due_date:%Y-%m-%d %H:%M:%S UTC}"
    assert executor.out[-1:] == [f"default: timers that wait: 1, the next until {due}."]
    assert len(executor.out[:5]) == 5
    assert executor.out[0].startswith(f"jobexec {jobexec.__version__}, node ")
    failures = [line for line in executor.err if "failed after" in line]
    assert len(failures) == 3, "failures are said on stderr"


#: A script of a project that runs an executor.
CALLS = """
import django
django.setup()
from django.core.management import call_command
call_command("runjobexecutor", until_empty=True)
print("It goes on.")
"""


@pytest.mark.gate
@pytest.mark.databases("sqlite")
def test_call_command_returns_when_nothing_is_left(alias, enqueue, trace):
    enqueue("note", "a")
    environment = processes.environment(alias, JOBEXEC=processes.QUICK)
    script = processes.Process([sys.executable, "-c", CALLS], environment)
    try:
        assert script.ended() == 0, script.text
    finally:
        script.close()
    assert trace.texts() == ["a"]
    assert script.out[-2:] == ["Nothing is left to do.", "It goes on."], "no SystemExit"


@pytest.mark.gate
@pytest.mark.databases("sqlite")
def test_full_garbage_collections_leave_out_what_was_loaded_at_the_start(run, enqueue, trace):
    enqueue("note_what_is_frozen")
    executor = run("--until-empty")
    assert executor.ended() == 0, executor.text
    (line,) = trace.lines()
    assert int(line) > 50
    before = gc.get_freeze_count()
    runjobexecutor.Command().keep_what_is_loaded()
    assert gc.get_freeze_count() == before  # this process is not the command's own


@pytest.mark.slow
@pytest.mark.databases("sqlite")
@pytest.mark.nightly
def test_verbosity(alias, run, enqueue, trace):
    enqueue("note", "a")
    silent = run("--until-empty", "-v", "0")
    assert (silent.ended(), silent.out, silent.err) == (0, [], [])
    enqueue("note", "b")
    normal = run("--until-empty")
    assert (normal.ended(), normal.out[5:], normal.err) == (0, ["Drained.", "Nothing is left to do."], [])
    enqueue("note", "c")
    chatty = run("--until-empty", "-v", "2")
    assert (chatty.ended(), len(chatty.out)) == (0, 7)
    (line,) = [line for line in chatty.err if "tests.process.jobs.note" in line]
    assert " done in 0." in line
    assert trace.texts() == ["a", "b", "c"]


@pytest.mark.gate
@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("option", [("--category", "mail"), ("--exclude-category", "default")])
def test_serves_only_its_categories_under_its_name(alias, run, enqueue, trace, option):
    enqueue("note", "not mine")
    enqueue("note", "mine", category="mail")
    executor = run("--until-empty", *option, "--node", "postman", CATEGORIES=CATEGORIES)
    assert executor.ended() == 0, executor.text
    assert trace.texts() == ["mine"]
    assert "node postman," in executor.out[0]
    assert "categories: mail;" in executor.out[2]
    assert Job.objects.using(alias).get().category == "default"


def _deploy(alias, name, *nodes):
    Deployment.objects.using(alias).create(id=name, name=name.split(":")[0], version=name.split(":")[1])
    for node in nodes:
        DeploymentRegistration.objects.using(alias).create(deployment_id=name, node_name=node)


@pytest.mark.slow
@pytest.mark.databases("postgresql")
def test_deployment_aware_takes_only_what_is_registered_for_its_name(alias, run, enqueue, trace):
    _deploy(alias, "shop:1", "here")
    _deploy(alias, "shop:2")
    enqueue("note", "none")
    enqueue("note", "registered", deployment_id="shop:1")
    enqueue("note", "not registered", deployment_id="shop:2")
    aware = run("--until-empty", "--deployment-aware", "--node", "here")
    assert aware.ended() == 0, aware.text
    assert sorted(trace.texts()) == ["none", "registered"]
    assert "deployments: shop:1" in aware.out[2]
    other = run("--until-empty", "--node", "anywhere")
    assert other.ended() == 0, other.text
    assert trace.texts()[-1] == "not registered"


@pytest.mark.gate
@pytest.mark.databases("postgresql")
def test_its_own_deployment_is_registered(alias, run, enqueue, trace):
    executor = run("--until-empty", "--deployment-aware", "--node", "here", DEPLOYMENT="shop:3")
    assert executor.ended() == 0, executor.text
    registration = DeploymentRegistration.objects.using(alias).get()
    assert (registration.deployment_id, registration.node_name) == ("shop:3", "here")
    assert "tests.process.jobs.note" in registration.deployment.handlers


@pytest.mark.gate
@pytest.mark.databases("sqlite")
def test_threads_and_queue_size_are_taken_from_the_options(alias, run, enqueue, trace):
    for number in range(5):
        enqueue("wait", str(number), str(trace.go))
    executor = run("--threads", "1", "--queue-size", "2").started()
    until(lambda: Job.objects.using(alias).exclude(lock_owner=None).count() == 3)
    until(lambda: trace.lines() == ["begun 0"])
    assert "pool:       1 threads, queue of 2;" in executor.out[3]
    executor.send(signal.SIGTERM)
    trace.go.touch()
    assert executor.ended() == 0, executor.text


@pytest.mark.gate
@pytest.mark.databases("sqlite")
def test_logging_of_the_projects_own_is_let_alone(alias, run, enqueue, trace, tmp_path):
    enqueue("note", "a")
    log = tmp_path / "log"
    logging = {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"file": {"class": "logging.FileHandler", "filename": str(log)}},
        "root": {"handlers": ["file"], "level": "INFO"},
    }
    executor = run("--until-empty", "-v", "2", env=_settings(alias, LOGGING=logging))
    assert executor.ended() == 0, executor.text
    assert executor.err == []
    assert len([line for line in log.read_text().splitlines() if "tests.process.jobs.note" in line]) == 1


def _settings(alias, **overrides):
    from tests.support.machines import processes

    return processes.environment(alias, JOBEXEC=processes.QUICK, **overrides)


@pytest.mark.databases("postgresql", "sqlite")
def test_check_says_that_it_can_start_and_starts_nothing(alias, run, enqueue, trace):
    enqueue("note", "a")
    executor = run("--check")
    assert (executor.ended(), executor.out, executor.err) == (0, ["The job executor can start."], [])
    assert trace.lines() == []


@pytest.mark.gate
@pytest.mark.databases("postgresql", "mariadb")
def test_a_server_that_takes_too_few_connections_is_told_once(alias, run):
    executor = run("--check", "--threads", "10000", "--processes", "3")
    assert (executor.ended(), executor.out) == (0, ["The job executor can start."])
    (warning,) = executor.err
    assert "3 executor processes may open 300" in warning


@pytest.mark.parametrize(
    ("arguments", "keys", "code", "message"),
    [
        (["--engine", "elsewhere"], {}, 2, "'elsewhere'"),
        (["--category", "mial"], {"CATEGORIES": CATEGORIES}, 2, "'mial'"),
        (["--exclude-category", "mial"], {"CATEGORIES": CATEGORIES}, 2, "'mial'"),
        (["--category", "mail", "--exclude-category", "default"], {"CATEGORIES": CATEGORIES}, 2, "got both"),
        (["--backend", "elsewhere"], {}, 2, "got 'elsewhere'."),
        (["--backend", "mail", "--engine", "default"], {}, 2, "do not give them as well"),
        (["--queue-size", "many"], {}, 2, "invalid int value: 'many'"),
        (["--processes", "0"], {}, 2, "--processes: expected a number of processes, at least 1, or auto, got '0'"),
        (["--threads", "0"], {}, 2, "--threads must be a whole number from 1 to 10000; got 0."),
        (["--processes", "many"], {}, 2, "a number of processes, at least 1, or auto, got 'many'"),
        (["--processes", "2"], {}, 1, "is on SQLite, which only one executor at a time may serve"),
        (["--node", ""], {}, 2, "printable characters"),
        (
            ["--max-jobs", "-1"],
            {},
            2,
            "argument --max-jobs: expected a whole number of jobs, or 0 for no limit, got '-1'",
        ),
        (["--max-lifetime", "1h"], {}, 2, "argument --max-lifetime: expected a number of seconds or an ISO 8601"),
        (["--max-rss", "much"], {}, 2, "argument --max-rss: expected a size such as 512M or 1.5G, or 0 for no limit"),
        (["--max-rss", "1M"], {}, 1, "--max-rss 1M: a process of this project uses"),
        (["--health-port", "70000"], {}, 2, "argument --health-port: expected a port from 0 to 65535, got '70000'"),
        (["--health-port", "0", "--health-host", "x y"], {}, 1, "--health-port 0: cannot listen on 'x y': "),
        (["--nonsense"], {}, 2, "unrecognized arguments: --nonsense"),
        ([], {"THREADZ": 3}, 1, "THREADZ"),
        ([], {"LEASE_TIME": 1, "HEARTBEAT_INTERVAL": 1}, 1, "HEARTBEAT_INTERVAL"),
        ([], {"DEFAULT_RETRY_PLAN": "R3/PT5X"}, 1, "jobexec.E006"),
    ],
)
@pytest.mark.django_db(databases=list(settings.DATABASES))  # the checks look at all of them
def test_what_is_wrong_is_said_and_nothing_starts(settings, monkeypatch, capsys, arguments, keys, code, message):
    monkeypatch.setattr(runjobexecutor, "configure_logging", lambda *args: None)
    monkeypatch.setattr("django.setup", lambda: None)  # which would give Django's loggers new handlers
    settings.JOBEXEC = {"ENGINES": {"default": {}}, **keys}
    with pytest.raises(SystemExit) as ended:
        execute_from_command_line(["manage.py", "runjobexecutor", *arguments])
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (code, "")
    assert message in said.err
    assert "Traceback" not in said.err


@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_a_backend_without_a_package_of_tasks(settings, monkeypatch, capsys):
    monkeypatch.setattr(runjobexecutor, "configure_logging", lambda *args: None)
    monkeypatch.setattr("django.setup", lambda: None)
    monkeypatch.setattr(runjobexecutor, "installed", lambda: False)
    monkeypatch.setitem(sys.modules, "jobexec.backends.lookup", None)  # as if it could not be imported
    with pytest.raises(SystemExit) as ended:
        execute_from_command_line(["manage.py", "runjobexecutor", "--backend", "default", "--skip-checks"])
    assert ended.value.code == 2
    assert "--backend needs django.tasks" in capsys.readouterr().err


@pytest.mark.gate
@pytest.mark.databases("sqlite")
def test_a_process_that_cannot_start_says_why_on_stderr(alias, run):
    executor = run("--engine", "elsewhere")
    assert (executor.ended(), executor.out) == (2, [])
    assert "'elsewhere'" in "\n".join(executor.err)


@pytest.mark.gate
@pytest.mark.databases("sqlite")
def test_a_database_without_its_tables_or_that_does_not_answer(alias, run, tmp_path):
    import json

    env = _settings(alias)
    address = json.loads(env["JOBEXEC_TEST_CONNECTIONS"])
    address["default"]["NAME"] = str(tmp_path / "empty.sqlite3")
    empty = run(env=env | {"JOBEXEC_TEST_CONNECTIONS": json.dumps(address)})
    assert empty.ended() == 1
    assert "run 'manage.py migrate jobexec --database default'" in empty.text
    address["default"]["NAME"] = str(tmp_path / "no" / "such" / "folder.sqlite3")
    absent = run(env=env | {"JOBEXEC_TEST_CONNECTIONS": json.dumps(address)})
    assert absent.ended() == 1
    assert "The database 'default' does not answer" in absent.text
    assert "Traceback" not in empty.text + absent.text


@pytest.mark.gate
@pytest.mark.databases("postgresql")
@pytest.mark.nightly
def test_two_nodes_of_one_name_are_warned_and_kept_apart(alias, run, enqueue, trace):
    first = run("--node", "twin").started()
    second = run("--node", "twin").started()
    second.said("Another live node is named 'twin'")
    for number in range(20):
        enqueue("note", str(number))
    until(lambda: len(trace.lines()) == 20)
    for process in (first, second):
        process.send(signal.SIGTERM)
        assert process.ended() == 0, process.text
    assert sorted(trace.texts()) == sorted(map(str, range(20)))
    make_job(alias)
    assert Job.objects.using(alias).get().lock_owner is None
