"""``manage.py processes``."""

import io
import json
from datetime import UTC, datetime
from types import SimpleNamespace
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connections
from django.db.migrations.recorder import MigrationRecorder

from jobexec import clock
from jobexec.clock import FrozenClock
from jobexec.handlers.batch import get_batch
from jobexec.models import AuditLog, Batch, Incident, Suspension
from jobexec.processes.engine.exceptions import BpmnError
from jobexec.processes.flows.builder import Flow
from jobexec.processes.handlers.registry import listener
from jobexec.processes.management import changes
from jobexec.processes.management.commands.processes import Command
from jobexec.processes.models import Execution, ProcessInstance, UserTask
from jobexec.processes.operations import many
from tests.support.jobs_command import jobs

pytest.importorskip("lxml")


@listener("tests.command.protest")
def protest(context):
    raise BpmnError("TOO_MUCH")


FILE = """<?xml version="1.0"?>
<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="tests">
  <process id="approval" isExecutable="true">
    <startEvent id="s"/><userTask id="approve" name="Approve it"/><endEvent id="e"/>
    <sequenceFlow id="f1" sourceRef="s" targetRef="approve"/><sequenceFlow id="f2" sourceRef="approve" targetRef="e"/>
  </process>
</definitions>"""


@pytest.fixture
def command(alias):
    def run(*args):
        out = io.StringIO()
        call_command("processes", "--database", alias, *args, stdout=out)
        return out.getvalue()

    return run


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "approval.bpmn"
    path.write_text(FILE)
    return path


def test_deploy_start_show_and_cancel(alias, command, file):
    assert command("deploy", str(file)) == "approval: version 1\n"
    assert command("deploy", str(file)) == "Nothing has changed.\n"
    started = command("start", "approval", "--business-key", "4711", "--variables", '{"amount": 5}')
    id = started.split()[0]
    assert started.split()[1] == "active"
    assert command("list") == "approval: version 1, 1 running\n"
    shown = command("show", id)
    assert "approval 4711 active" in shown
    assert "  at approve: waiting\n  task Approve it: unassigned\n  amount = 5\n" in shown
    assert "  Approve it (approve) is an unclaimed task, created on" in shown
    assert command("cancel", id, "--reason", "no") == "Cancelled.\n"
    assert "reason: no" in command("show", id)
    with pytest.raises(CommandError, match="has ended"):
        command("cancel", id)


def test_the_list_counts_what_runs_of_each_tenant(command, file):
    for tenant in ("north", "south"):
        command("deploy", str(file), "--tenant", tenant)
        command("start", "approval", "--tenant", tenant)
    told = "approval of north: version 1, 1 running\napproval of south: version 1, 1 running\n"
    assert command("list") == told


def test_the_instances_of_a_process(alias, command, file):
    command("deploy", str(file))
    assert command("list", "approval") == "There are none.\n"
    ids = []
    for minute, key in enumerate(("A1", "A2", "A2")):
        with FrozenClock(datetime(2026, 5, 1, 12, minute, tzinfo=UTC)):
            ids.append(command("start", "approval", "--business-key", key).split()[0])
    command("cancel", ids[0])
    lines = [line.split("  ") for line in command("list", "approval").splitlines()]
    assert [(line[0], *line[1:4], line[-1]) for line in lines] == [
        (id, "approval", "A2", "active", "at approve") for id in (ids[2], ids[1])
    ]
    assert command("list", "--instances", "--limit", "1").splitlines()[1].startswith("More than 1 instances")
    found = [json.loads(line) for line in command("list", "--business-key", "A1", "--ended", "--json").splitlines()]
    assert [(each["id"], each["state"], each["waits_at"], each["incidents"]) for each in found] == [
        (ids[0], "cancelled", [], 0)
    ]
    with pytest.raises(CommandError, match="No process 'approvals' is deployed"):
        command("list", "approvals")


def test_the_list_of_instances_counts_their_incidents(alias, command, file):
    command("deploy", str(file))
    id = command("start", "approval").split()[0]
    times = {"timestamp": clock.now(alias)}
    Incident.objects.using(alias).create(process_instance_id=id, handler_type="x", category="default", **times)
    assert command("list", "approval").endswith("  at approve  incidents: 1\n")


def test_instances_are_named_by_their_business_key(command, file):
    command("deploy", str(file))
    ids = [command("start", "approval", "--business-key", key).split()[0] for key in ("A1", "A2", "A2", "abcdef")]
    assert "approval A1 active" in command("show", "A1")
    assert command("retry", "A1") == "0 dead letters were requeued.\n"
    assert "approval abcdef active" in command("show", "abcdef"), "also one that looks like the beginning of an id"
    with pytest.raises(CommandError, match="Several instances have the business key A2, or an id that") as raised:
        command("cancel", "A2")
    assert all(id in str(raised.value) for id in ids[1:3])
    assert command("cancel", ids[1]) == "Cancelled.\n"
    assert command("cancel", "A2") == "Cancelled.\n", "the only one that runs"
    assert command("cancel", "A1") == "Cancelled.\n"
    assert "approval A1 cancelled" in command("show", "A1"), "the only one that has ended"
    assert command("restart", "A1").split()[1] == "active"
    key = "9d5ed678-fe57-bcca-610b-06aa5aa65e2d"
    command("start", "approval", "--business-key", key)
    assert f"approval {key} active" in command("show", key), "an id that no instance has"
    command("start", "approval", "--business-key", ids[0][:13])
    with pytest.raises(CommandError, match="or an id that begins so"):
        command("show", ids[0][:13])


def test_a_flow_is_not_started_by_its_name(alias, command):
    flow = Flow("checkout")
    flow.sleep("PT1H")
    flow.start(using=alias)
    assert command("list") == "checkout: a flow, 1 running\n"
    with pytest.raises(CommandError, match="'checkout' is a flow: only the Python code that describes it can start it"):
        command("start", "checkout")


@pytest.mark.gate
def test_instances_are_named_by_the_beginning_of_their_id(alias, command, file):
    command("deploy", str(file))
    ids = [command("start", "approval").split()[0] for _ in range(2)]
    some = next(number for number in range(6, 36) if ids[0][:number] != ids[1][:number] and ids[0][number - 1] != "-")
    several = "Several ids begin with "
    with pytest.raises(CommandError, match=several) as raised:
        command("show", ids[0][:6])
    assert all(id in str(raised.value) for id in ids)
    with pytest.raises(CommandError, match="Nothing here has an id that begins with 000000"):
        command("cancel", "000000")
    assert command("suspend", ids[0][:some]).startswith("Suspended")
    assert "suspended" in command("show", ids[0][:some]).lower()
    assert command("activate", ids[0][:some]).startswith("Activated")
    assert command("modify", ids[0][:some], "--cancel", "approve", "--before", "approve") == "Modified.\n"
    assert command("retry", ids[0][:some]) == "0 dead letters were requeued.\n"
    assert command("cancel", ids[0][:some]) == "Cancelled.\n"
    again = command("restart", ids[0][:some], "--before", "approve").split()[0]
    assert again not in ids
    assert ProcessInstance.objects.using(alias).get(pk=ids[1]).state == "active"
    with pytest.raises(CommandError, match="No process 'approvals' is deployed"):
        command("suspend", "approvals")


def test_a_key_that_looks_like_the_beginning_of_an_id_is_a_key(alias, command, file):
    file.write_text(FILE.replace('id="approval"', 'id="facade"'))
    command("deploy", str(file))
    assert command("suspend", "facade").startswith("Suspended")
    assert Suspension.objects.using(alias).get().value.startswith("facade")


def test_an_error_that_nothing_catches(alias, command, file):
    extensions = '<camunda:executionListener event="start" delegateExpression="${tests.command.protest}"/>'
    begin = '<startEvent id="s"/>'
    content = FILE.replace(begin, f"<extensionElements>{extensions}</extensionElements>{begin}")
    file.write_text(content.replace("<definitions", '<definitions xmlns:camunda="http://camunda.org/schema/1.0/bpmn"'))
    command("deploy", str(file))
    with pytest.raises(CommandError, match="approval: Nothing catches the error TOO_MUCH of a listener"):
        command("start", "approval")


@pytest.mark.parametrize("chosen", ["ID", "--process"])
def test_an_instance_whose_listener_always_fails_is_cancelled_without_it(alias, command, file, run_jobs, chosen):
    extensions = '<camunda:executionListener event="end" delegateExpression="${tests.command.protest}"/>'
    begin = '<startEvent id="s"/>'
    content = FILE.replace(begin, f"<extensionElements>{extensions}</extensionElements>{begin}")
    file.write_text(content.replace("<definitions", '<definitions xmlns:camunda="http://camunda.org/schema/1.0/bpmn"'))
    command("deploy", str(file))
    id = command("start", "approval").split()[0]
    with pytest.raises(CommandError, match="Nothing catches the error TOO_MUCH of a listener"):
        command("cancel", id)
    which = [id] if chosen == "ID" else ["--process", "approval", "--yes"]
    command("cancel", *which, "--skip-listeners", "--reason", "it always fails")
    run_jobs()
    assert ProcessInstance.objects.using(alias).get().state == "cancelled"
    entry = AuditLog.objects.using(alias).get(new_value__skip_listeners=True)
    assert (entry.new_value["reason"], entry.count) == ("it always fails", 1)


def test_what_is_wrong(alias, command, file, tmp_path):
    with pytest.raises(CommandError, match="No process 'nothing' is deployed"):
        command("start", "nothing")
    with pytest.raises(CommandError, match="JSON object"):
        command("start", "nothing", "--variables", "[1]")
    with pytest.raises(CommandError, match="--variables: expected JSON of at most 1,000,000 characters"):
        command("start", "nothing", "--variables", "[" * 100_000)
    with pytest.raises(CommandError, match="there is no such file"):
        command("deploy", str(tmp_path / "gone.bpmn"))
    told = "No instance has the business key x: expected an id, at least the first 6 digits of one, or a business key."
    with pytest.raises(CommandError, match=told):
        command("show", "x")
    with pytest.raises(CommandError, match="expected the id of an instance, its first digits, or its business key"):
        command("cancel", "")
    file.write_text(FILE.replace("userTask", "complexGateway"))
    with pytest.raises(CommandError, match="approve"):
        command("deploy", str(file))
    assert not ProcessInstance.objects.using(alias).exists()


def test_check_finds_what_does_not_fit(alias, command, file):
    assert command("check") == "No problems.\n"
    command("deploy", str(file))
    command("start", "approval")
    execution = Execution.objects.using(alias).get()
    Execution.objects.using(alias).filter(pk=execution.pk).delete()
    out = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("processes", "--database", alias, "check", stdout=out)
    assert "belongs to" in out.getvalue()
    assert "has no execution" in out.getvalue()
    execution.save(using=alias, force_insert=True)


@pytest.fixture
def started(command, file):
    command("deploy", str(file))

    def start(*args):
        return command("start", "approval", *args).split()[0]

    return start


@pytest.mark.gate
def test_modify_restart_and_retry(alias, command, started):
    id = started("--variables", '{"password": "geheim"}')
    assert "geheim" not in command("show", id)
    assert (
        command("modify", id, "--cancel", "approve", "--before", "approve", "--variables", '{"a": 1}') == "Modified.\n"
    )
    assert "  a = 1\n" in command("show", id)
    assert command("modify", id, "--before", "approve", "--cancel", "approve", "--reason", "no") == "Modified.\n"
    assert "approval  cancelled" in command("show", id)
    again = command("restart", id, "--before", "approve", "--variables", '{"a": 2}')
    assert again.split()[1] == "active"
    assert "  a = 2\n" in command("show", again.split()[0])
    assert command("restart", id, "--after", "approve").split()[1] == "completed"
    assert command("retry", again.split()[0]) == "0 dead letters were requeued.\n"
    for args, message in (
        (("modify", id, "--before", "approve"), "has ended"),
        (("modify", again.split()[0], "--before", "nothing"), "no such element"),
        (("modify", again.split()[0]), "at least one change"),
        (("restart", again.split()[0]), "modify it instead"),
        (("restart", id, "--variables", "[]"), "a JSON object"),
    ):
        with pytest.raises(CommandError, match=message):
            command(*args)
    found = AuditLog.objects.using(alias).filter(verb="modify_instance")
    assert set(found.values_list("via", flat=True)) == {"processes modify"}


def test_suspend_and_activate(alias, command, started):
    id = started()
    assert command("suspend", id) == "Suspended. Jobs moved: 0.\n"
    assert command("suspend", "approval", "--version", "1", "--until", "+1h", "--without-instances") == (
        "Suspended. Jobs moved: 0.\n"
    )
    with pytest.raises(CommandError, match="can be started"):
        started()
    assert command("activate", "approval", "--version", "1") == "Activated. Jobs moved: 0.\n"
    started()
    assert command("activate", id) == "Activated. Jobs moved: 0.\n"
    with pytest.raises(CommandError, match="with the key of a process"):
        command("suspend", id, "--version", "1")
    with pytest.raises(CommandError, match="'nothing'"):
        command("suspend", "nothing")
    assert not Suspension.objects.using(alias).exists()


@pytest.mark.gate
@pytest.mark.every_database
def test_cancel_many(alias, command, started, run_jobs, monkeypatch):
    monkeypatch.setattr(many, "_PAGE", 2)
    others, kept = [started("--business-key", "a") for _ in range(5)], started("--business-key", "b")
    ended = started("--business-key", "a")
    command("cancel", ended)
    which = ("--process", "approval", "--business-key", "a", "--reason", "sold out")
    with pytest.raises(CommandError, match="no terminal to ask for confirmation: use --yes"):
        command("cancel", *which)
    asked = []
    monkeypatch.setattr(changes, "ask", lambda question: asked.append(question))
    with pytest.raises(CommandError, match="Nothing has been cancelled"):
        command("cancel", *which)
    assert asked == ["Cancel 5 running instances? This cannot be undone."]
    assert not Batch.objects.using(alias).exists()
    told = command("cancel", *which, "--yes")
    assert told.endswith(" cancels 5 instances.\n")
    command("cancel", others[0], "--reason", "alone")
    run_jobs()
    rows = ProcessInstance.objects.using(alias)
    assert [str(pk) for pk in rows.filter(state="active").values_list("pk", flat=True)] == [kept]
    assert rows.filter(delete_reason="sold out").count() == 4
    progress = get_batch(Batch.objects.using(alias).get().pk, using=alias).progress()
    assert (progress.total, progress.completed) == (3, 3)
    assert command("cancel", "--process", "approval", "--business-key", "c") == "No running instance matches.\n"
    with pytest.raises(CommandError, match=r"No process 'aproval' is deployed. Did you mean 'approval'\?"):
        command("cancel", "--process", "aproval", "--yes")
    for option in ("--process", "--definition", "--business-key", "--tenant"):
        with pytest.raises(CommandError, match=f"{option}: expected a value that is not empty"):
            command("cancel", option, "", "--yes")
    assert Batch.objects.using(alias).count() == 1
    with pytest.raises(CommandError, match="There is no process instance 00000000-"):
        command("show", str(UUID(int=0)))
    for args in ((), (kept, "--process", "approval")):
        with pytest.raises(CommandError, match="id of an instance, or options"):
            command("cancel", *args)


@pytest.mark.transactional
def test_the_cleanup_of_jobs_deletes_expired_instances(alias, command, started, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "PROCESSES": {"HISTORY_TIME_TO_LIVE": 0}}
    command("cancel", started())
    assert jobs("cleanup", alias=alias) == (0, "3 rows deleted.\n")
    assert not ProcessInstance.objects.using(alias).exists()


def test_control_characters_do_not_reach_the_terminal_and_times_name_their_zone(alias, command, file, settings):
    settings.TIME_ZONE = "Europe/Berlin"
    command("deploy", str(file))
    id = command("start", "approval", "--business-key", "a\x1b[31m", "--variables", '{"b\\u001b[2J": 1}').split()[0]
    UserTask.objects.using(alias).update(assignee="ann\x1b]0;")
    with FrozenClock(datetime(2026, 3, 1, 12, tzinfo=UTC)):
        ProcessInstance.objects.using(alias).update(start_time=clock.now(alias))
        shown = command("show", id)
    assert "\x1b" not in shown
    assert "approval a [31m active, started 03/01/2026 13:00:00 CET\n" in shown


class TestErrors:
    """All end with a message: wrong usage with 2, others with 1."""

    def test_a_database_that_is_no_engine(self):
        with pytest.raises(CommandError, match=r"--database: .*nope") as refused:
            call_command("processes", "--database", "nope", "list")
        assert refused.value.returncode == 2

    def test_a_database_that_does_not_answer(self, command, monkeypatch):
        def fail(*_):
            raise OperationalError("the server is away")

        monkeypatch.setattr(Command, "_list", fail)
        with pytest.raises(CommandError, match="the server is away") as refused:
            command("list")
        assert refused.value.returncode == 1

    def test_tables_that_are_missing(self, alias, command, monkeypatch):
        def fail(*_):
            raise OperationalError("no such table")

        monkeypatch.setattr(Command, "_list", fail)
        MigrationRecorder(connections[alias]).record_unapplied("jobexec_processes", "0007_history")
        with pytest.raises(CommandError, match=f"run 'manage.py migrate jobexec_processes --database {alias}'"):
            command("list")

    def test_a_reader_that_has_closed_the_pipe(self, monkeypatch, capsys):
        replaced = []
        monkeypatch.setattr(Command, "_list", lambda *_: (_ for _ in ()).throw(BrokenPipeError()))
        monkeypatch.setattr("os.dup2", lambda *files: replaced.append(files))
        monkeypatch.setattr("sys.stdout", SimpleNamespace(fileno=lambda: 1, write=len, flush=lambda: None))
        call_command("processes", "list")
        assert [new for _, new in replaced] == [1]

    def test_an_interruption(self, command, monkeypatch):
        monkeypatch.setattr(Command, "_list", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(CommandError, match="Interrupted") as ended:
            command("list")
        assert ended.value.returncode == 130

    def test_an_instance_is_not_suspended_without_its_instances(self, alias, command, file):
        command("deploy", str(file))
        id = command("start", "approval").split()[0]
        with pytest.raises(CommandError, match="include_instances: expected with the key of a process") as refused:
            command("suspend", id, "--without-instances")
        assert refused.value.returncode == 2 and not Suspension.objects.using(alias).exists()


def test_words_that_are_none_get_those_that_are_meant(alias, command, file, capsys):
    for arguments, meant in ((["deplyo"], "deploy"), (["list", "--busines-keys", "x"], "--business-key")):
        with pytest.raises(SystemExit):
            Command().run_from_argv(["manage.py", "processes", *arguments])
        assert f"Did you mean '{meant}'?" in capsys.readouterr().err
    command("deploy", str(file))
    for action in ("start", "list"):
        with pytest.raises(CommandError, match=r"No process 'aproval' is deployed\. Did you mean 'approval'\?"):
            command(action, "aproval")
