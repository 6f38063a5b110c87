"""The roles that SECURITY.md grants suffice for what they are for, and for no more."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.apps import apps
from django.db import Error, connections
from django.test.utils import override_settings

from jobexec import external_job, job, operations, publish_message
from jobexec.handlers import registry
from jobexec.models import DeadLetterJob, ExternalWorkerJob, GatewayClient, Job, JobLog, SuspendedJob, TimerJob
from jobexec.operations.external.settle import complete_external_job
from jobexec.operations.overview import overview
from jobexec.operations.why.explain import why
from jobexec.processes import chain, complete, correlate, deploy, start
from jobexec.processes.models import ProcessInstance, UserTask
from jobexec.testing import ManualExecutor
from tests.processes.support import bpmn

pytestmark = [pytest.mark.transactional, pytest.mark.every_database, pytest.mark.databases("postgresql", "mariadb")]

TEXT = (Path(__file__).parents[2] / "SECURITY.md").read_text()
ROLES = "jobexec_executor", "jobexec_enqueuer", "jobexec_reader"


def statements(alias, suffix):
    """What SECURITY.md says for this database, with roles of our own in the database of the test."""
    vendor, database = connections[alias].vendor, connections[alias].settings_dict["NAME"]
    blocks = re.findall(r"```sql\n(.*?)```", TEXT, re.S)  # of jobexec for both vendors, then of processes
    postgresql, mysql = "".join(blocks[::2]), "".join(blocks[1::2])
    text = postgresql if vendor == "postgresql" else mysql.replace("shop.", f"{database}.")
    for role in ROLES:
        text = re.sub(rf"\b{role}\b", role.replace("jobexec", suffix), text)
    return [statement for statement in text.split(";") if statement.strip()]


def _tables():
    return [table for label in ("jobexec", "jobexec_processes") for table in apps.get_app_config(label).get_models()]


@pytest.fixture
def roles(alias) -> Iterator[str]:
    """The roles; returns what their names begin with."""
    prefix, postgresql = connections[alias].settings_dict["NAME"][-24:], connections[alias].vendor == "postgresql"
    names = [role.replace("jobexec", prefix) for role in ROLES]
    with connections[alias].cursor() as cursor:
        try:
            for statement in statements(alias, prefix):
                cursor.execute(statement)
            yield prefix
        finally:
            for name in names:
                if postgresql:
                    cursor.execute(f"DROP OWNED BY {name}")
                cursor.execute(f"DROP ROLE {name}" if postgresql else f"DROP USER {name}@'%'")


@contextmanager
def logged_in(alias, roles, role):
    """All statements on this alias are those of the role."""
    owner = connections[alias]
    number = ROLES.index(f"jobexec_{role}") + 1
    user = {"USER": f"{roles}_{role}", "PASSWORD": f"change-me-{number}"}
    guest = owner.copy(alias)
    guest.settings_dict = {**owner.settings_dict, **user}
    connections[alias] = guest
    try:
        yield
    finally:
        guest.close()
        connections[alias] = owner


@pytest.fixture(autouse=True)
def handlers():
    with registry.isolated():

        @job(name="tests.pay")
        def pay(fail=False):
            if fail:
                raise ArithmeticError

        yield pay


def may_not(alias, statement):
    with pytest.raises(Error, match=r"denied|must be owner"), connections[alias].cursor() as cursor:
        cursor.execute(statement)


@override_settings(TIME_ZONE="UTC")
def test_an_application_enqueues_and_does_no_more(alias, roles, handlers, configure):
    configure(HISTORY_LEVEL="full")
    with logged_in(alias, roles, "enqueuer"):
        handlers.using(database=alias).enqueue()
        handlers.using(database=alias, delay=60).enqueue()
        handlers.using(database=alias).enqueue_many([()] * 3)
        first = handlers.using(database=alias, unique="order-1").enqueue()
        assert handlers.using(database=alias, unique="order-1").enqueue().pk == first.pk
        external_job("pay", database=alias)
        handlers.using(database=alias, wait_for=("approved", 1)).enqueue()
        for _ in range(2):
            publish_message("approved", key=1, ttl=60, message_id="m1", using=alias)
        may_not(alias, "DELETE FROM jobexec_job")
        may_not(alias, "UPDATE jobexec_job SET priority = 1")
        may_not(alias, "SELECT * FROM jobexec_gatewayclient")
        may_not(alias, "DELETE FROM jobexec_joblog")
    assert (Job.objects.using(alias).count(), TimerJob.objects.using(alias).count()) == (5, 1)
    operations.move_to_dead_letter(first, using=alias)
    with logged_in(alias, roles, "enqueuer"):
        assert handlers.using(database=alias, unique="order-1").enqueue().pk != first.pk
        may_not(alias, "UPDATE jobexec_deadletterjob SET retries = 1")
    assert DeadLetterJob.objects.using(alias).get().lost_key == "order-1"


def test_an_executor_runs_fails_suspends_and_cleans_up(alias, roles, handlers):
    with logged_in(alias, roles, "executor"):
        good = handlers.using(database=alias).enqueue()
        bad = handlers.using(database=alias, retries="R1/PT1S").enqueue(fail=True)
        held = handlers.using(database=alias).enqueue()
        operations.suspend(held, using=alias)
        ManualExecutor(using=alias, reraise=False).run_due()
        assert not Job.objects.using(alias).filter(pk=good.pk).exists()
        assert DeadLetterJob.objects.using(alias).get().pk == bad.pk
        operations.requeue(bad.pk, using=alias)
        operations.delete_jobs(bad.pk, using=alias)
        operations.clean_up_history(alias)
        may_not(alias, "DROP TABLE jobexec_job")
        may_not(alias, "CREATE TABLE intruder (id int)")
    assert SuspendedJob.objects.using(alias).count() == 1
    assert JobLog.objects.using(alias).exists()


MODEL = (
    '<startEvent id="s"/><parallelGateway id="fork"/><userTask id="ask" camunda:candidateUsers="anna"/>'
    '<task id="later" camunda:asyncBefore="true"/><receiveTask id="paid" messageRef="m"/>'
    '<serviceTask id="work" camunda:type="external" camunda:topic="work"/>'
    + "".join(
        f'<sequenceFlow id="f{n}" sourceRef="{a}" targetRef="{b}"/>'
        for n, (a, b) in enumerate([("s", "fork"), *(("fork", id) for id in ("ask", "later", "paid", "work"))])
    )
)


@pytest.mark.gate
@override_settings(TIME_ZONE="UTC")
def test_processes_are_started_by_an_application_and_driven_by_an_executor(alias, roles, handlers, caplog):
    pytest.importorskip("lxml")
    process = bpmn.process(MODEL, top='<message id="m" name="paid"/>')
    with logged_in(alias, roles, "executor"):
        deploy(("p.bpmn", process), using=alias)
    with logged_in(alias, roles, "enqueuer"):
        instance = start("p", variables={"amount": 5}, using=alias)
        chain(handlers.s(), handlers.s()).start(using=alias)
        assert [record for record in caplog.records if record.levelname == "ERROR"] == []  # of what follows the commit
        may_not(alias, "DELETE FROM jobexec_processes_processinstance")
        may_not(alias, "UPDATE jobexec_processes_usertask SET assignee = 'me'")
        may_not(alias, "INSERT INTO jobexec_processes_processdeployment (name) VALUES ('x')")
    with logged_in(alias, roles, "executor"):
        assert len(ManualExecutor(using=alias).run_until_empty()) == 3
        complete(UserTask.objects.using(alias).get(), {"ok": True}, using=alias)
        assert correlate("paid", using=alias) == 1
        complete_external_job(alias, ExternalWorkerJob.objects.using(alias).get().job_key, {})
        ManualExecutor(using=alias).run_until_empty()
        ProcessInstance.objects.using(alias).update(removal_time=instance.start_time)
        operations.clean_up_history(alias)
    assert not ProcessInstance.objects.using(alias).exists()


def test_a_reader_sees_all_but_clients_and_changes_nothing(alias, roles, handlers):
    row = handlers.using(database=alias).enqueue()
    with logged_in(alias, roles, "reader"):
        assert overview(alias) is not None
        assert why(row.pk, using=alias) is not None
        for table in _tables():
            if table is not GatewayClient:
                list(table._base_manager.using(alias).all()[:1])  # as the lists of the admin do
        may_not(alias, f"SELECT * FROM {GatewayClient._meta.db_table}")
        may_not(alias, "UPDATE jobexec_job SET priority = 1")
        may_not(alias, "INSERT INTO jobexec_jobkey (handler_type) VALUES ('x')")


def test_every_table_is_in_it():
    named = set(re.findall(r"jobexec_[a-z_]+", TEXT))
    tables = {table._meta.db_table for table in _tables()}
    assert tables <= named | {"jobexec_gatewayclient"}
