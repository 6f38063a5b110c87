"""The system checks of processes, and what is deployed after migrate."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.db import connections, router
from django.db.models.signals import post_migrate

from jobexec.processes import checks
from jobexec.processes.definition import InvalidProcess
from jobexec.processes.handlers.registry import standing_in
from jobexec.processes.models import ProcessDefinition, ProcessDeployment
from jobexec.processes.operations import deploy as deploying
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.store import definitions
from tests.processes.support.bpmn import around, process

pytest.importorskip("lxml")

SERVICE = around('<serviceTask id="x" camunda:delegateExpression="${tests.checks.pay}"/>')
PAY = {"tests.checks.pay": print}


@pytest.fixture
def found(alias):
    definitions.forget()
    return lambda: [
        (message.id, message.msg)
        for message in run_checks(tags=["database"], databases=[alias])
        if message.id.startswith("jobexec.")
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch, alias):
    """The folder of an app on the database of the test."""
    (tmp_path / "processes").mkdir()
    monkeypatch.setattr(deploying, "apps", SimpleNamespace(get_app_configs=lambda: [SimpleNamespace(path=tmp_path)]))
    monkeypatch.setattr(router, "db_for_write", lambda model, **hints: alias)
    return tmp_path / "processes"


def test_what_the_latest_version_names_is_registered(alias, found, folder):
    with standing_in(PAY):
        deploy(("p.bpmn", process(SERVICE)), using=alias)
        assert found() == []
    ((id, message),) = found()
    assert id == "jobexec.W019"
    assert "The process 'p' (version 1," in message
    assert "x: No service task 'tests.checks.pay' is registered" in message
    deploy(("p.bpmn", process(around('<task id="x"/>'))), using=alias)
    assert found() == []


def in_a_row(*options):
    """A process of service tasks, one after the other, with a gateway before the last."""
    tasks = [
        f'<serviceTask id="t{number}" camunda:delegateExpression="${{tests.checks.pay}}" {option}/>'
        for number, option in enumerate(options)
    ]
    ids = ["s", *(f"t{number}" for number in range(len(options))), "e"]
    ids.insert(-2, "g")
    flows = [f'<sequenceFlow id="{a}-{b}" sourceRef="{a}" targetRef="{b}"/>' for a, b in pairwise(ids)]
    return process('<startEvent id="s"/><exclusiveGateway id="g"/><endEvent id="e"/>' + "".join(tasks + flows))


BEFORE, AFTER, OUTSIDE = 'camunda:asyncBefore="true"', 'camunda:asyncAfter="true"', 'jobexec:transaction="outside"'


@pytest.mark.parametrize(
    ("options", "row"),
    [
        (["", "", "", ""], "t0, t1, t2, t3"),
        (["", "", ""], None),
        ([BEFORE, "", "", ""], None),
        ([BEFORE, "", "", "", "", ""], "t1, t2, t3, t4"),
        (["", "", BEFORE, "", ""], None),
        (["", "", AFTER, "", ""], None),
        (["", "", AFTER, "", "", "", ""], "t3, t4, t5, t6"),
        (["", "", OUTSIDE, "", "", ""], None),
    ],
)
def test_a_step_that_locks_its_instance_for_many_tasks(alias, found, folder, options, row):
    with standing_in(PAY):
        deploy(("p.bpmn", in_a_row(*options)), using=alias)
        said = f"The process 'p' (version 1, database {alias!r}) runs the service tasks {row} in one step."
        messages = [("jobexec.W022", f"{said} Its instance is locked from the first one to the commit.")]
        assert found() == (messages if row else [])


def test_files_of_apps_are_deployed(alias, found, folder):
    assert found() == []
    (folder / "order.bpmn").write_bytes(process(SERVICE))
    ((id, message),) = found()
    assert id == "jobexec.W020"
    assert f"{folder / 'order.bpmn'} is not deployed as it is now" in message
    with standing_in(PAY):
        deploy(*deploying.files_of_apps(), using=alias)
        assert found() == []
    (folder / "order.bpmn").write_bytes(process("<complexGateway id='g'/>"))
    assert {id for id, _ in found()} == {"jobexec.W019", "jobexec.E024"}


def test_a_file_that_is_deployed_is_not_read_again(alias, found, folder, monkeypatch):
    first, second = (process(around(f'<task id="x" name="{name}"/>')) for name in "ab")
    (folder / "order.bpmn").write_bytes(first)
    deploy(*deploying.files_of_apps(), using=alias)
    with monkeypatch.context() as without:
        without.setattr("jobexec.processes.xml.read", None)
        assert found() == []
    deploy(("order.bpmn", second), using=alias)
    assert [id for id, _ in found()] == ["jobexec.W020"]  # the content was deployed, and is not the latest
    deploy(*deploying.files_of_apps(), using=alias)
    assert found() == []


def test_without_a_database_or_its_tables_there_is_nothing_to_check(alias, monkeypatch, folder):
    (folder / "order.bpmn").write_bytes(process(SERVICE))
    assert checks.check_files(databases=None) == checks.check_definitions(databases=[]) == []
    monkeypatch.setattr(connections[alias].introspection, "table_names", lambda cursor: [])
    assert checks.check_files(databases=[alias]) == []


def migrated(alias):
    config = apps.get_app_config("jobexec_processes")
    post_migrate.send(config, app_config=config, using=alias, verbosity=0, interactive=False, plan=[], apps=apps)


@pytest.mark.every_database
def test_auto_deploy(alias, folder, settings):
    (folder / "order.bpmn").write_bytes(process(SERVICE))
    migrated(alias)
    assert not ProcessDeployment.objects.using(alias).exists()
    settings.JOBEXEC = {**settings.JOBEXEC, "PROCESSES": {"AUTO_DEPLOY": True}}
    with pytest.raises(InvalidProcess, match=r"tests\.checks\.pay"):
        migrated(alias)
    with standing_in(PAY):
        migrated(alias)
        migrated(alias)
    assert ProcessDefinition.objects.using(alias).get().key == "p"
    assert ProcessDeployment.objects.using(alias).get().source == "AUTO_DEPLOY"
