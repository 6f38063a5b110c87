"""``manage.py processes``."""

import io

import pytest
from django.core.management import CommandError, call_command

from jobexec.processes.models import Execution, ProcessInstance

pytest.importorskip("lxml")

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
    assert "  at approve: waiting\n  task Approve it: nobody has it\n  amount = 5\n" in shown
    assert "  Approve it (approve) is a task that nobody has claimed, since" in shown
    assert command("cancel", id, "--reason", "no") == "Cancelled.\n"
    assert "reason: no" in command("show", id)
    with pytest.raises(CommandError, match="has ended"):
        command("cancel", id)


def test_what_is_wrong(alias, command, file, tmp_path):
    with pytest.raises(CommandError, match="No process 'nothing' is deployed"):
        command("start", "nothing")
    with pytest.raises(CommandError, match="JSON object"):
        command("start", "nothing", "--variables", "[1]")
    with pytest.raises(CommandError, match="there is no such file"):
        command("deploy", str(tmp_path / "gone.bpmn"))
    with pytest.raises(CommandError, match="Expected the id"):
        command("show", "x")
    file.write_text(FILE.replace("userTask", "complexGateway"))
    with pytest.raises(CommandError, match="approve"):
        command("deploy", str(file))
    assert not ProcessInstance.objects.using(alias).exists()


def test_check_finds_what_does_not_fit(alias, command, file):
    assert command("check") == "Nothing is wrong.\n"
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
