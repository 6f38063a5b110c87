"""How long the history of instances is kept."""

from datetime import timedelta

import pytest

from jobexec.operations import clean_up_history
from jobexec.operations.maintenance import cleanup
from jobexec.processes.definition import InvalidProcess
from jobexec.processes.models import ActivityInstance, Execution, ProcessInstance, UserTask
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.instances import cancel
from jobexec.processes.operations.start import start
from jobexec.processes.operations.user_tasks import complete
from jobexec.processes.store import history
from jobexec.testing import controlled_clock
from tests.processes.support.bpmn import around, definitions

pytest.importorskip("lxml")

DAY = timedelta(days=1)
TASK = '<userTask id="x"/>'


@pytest.fixture
def now():
    with controlled_clock() as clock:
        yield clock


def with_child(alias, attributes="", calls=1):
    called = f'<process id="child" isExecutable="true">{around(TASK)}</process>'
    body = around('<callActivity id="x" calledElement="child"/>')
    file = definitions(f'<process id="parent" isExecutable="true" {attributes}>{body}</process>{called}')
    deploy(("p.bpmn", file), using=alias)


def ended(alias):
    instance = start("parent", using=alias)
    complete(UserTask.objects.using(alias).get(), using=alias)
    instance.refresh_from_db(using=alias)
    assert instance.state == "completed"
    return instance


@pytest.mark.parametrize(
    ("attributes", "setting", "days"),
    [
        ('camunda:historyTimeToLive="5"', None, 5),
        ('camunda:historyTimeToLive="P7D"', None, 7),
        ('camunda:historyTimeToLive="P0D"', None, 0),
        ("", 3 * DAY, 3),
        ("", None, None),
    ],
)
def test_the_definition_decides_or_else_the_setting(alias, settings, now, attributes, setting, days):
    settings.JOBEXEC = {**settings.JOBEXEC, "PROCESSES": {"HISTORY_TIME_TO_LIVE": setting}}
    with_child(alias, attributes)
    instance = ended(alias)
    expected = None if days is None else instance.end_time + days * DAY
    assert instance.removal_time == expected
    assert ProcessInstance.objects.using(alias).exclude(pk=instance.pk).get().removal_time is None


@pytest.mark.parametrize("text", ["soon", "-5", "-P1D", "9" * 12, "P99999999Y"])
def test_a_wrong_time_to_live_is_refused(alias, text):
    with pytest.raises(InvalidProcess, match=r"parent.*historyTimeToLive: expected a number of days"):
        with_child(alias, f'camunda:historyTimeToLive="{text}"')


@pytest.mark.gate
@pytest.mark.transactional
@pytest.mark.every_database
def test_hierarchies_are_deleted_when_their_time_has_come(alias, settings, now, monkeypatch):
    monkeypatch.setattr(history, "_PAGE", 2)
    settings.JOBEXEC = {**settings.JOBEXEC, "HISTORY_CLEANUP_BATCH_SIZE": 3}
    with_child(alias, 'camunda:historyTimeToLive="5"')
    old = [ended(alias) for _ in range(5)]
    now.advance(3 * DAY)
    young, running = ended(alias), start("parent", using=alias)
    now.advance(2 * DAY)
    clean_up_history(alias)
    kept = ProcessInstance.objects.using(alias)
    assert not kept.filter(root_id__in=[row.pk for row in old]).exists()
    assert set(kept.values_list("root_id", flat=True)) == {young.pk, running.pk}
    assert kept.count() == 4
    activities = ActivityInstance.objects.using(alias)
    assert set(activities.values_list("instance_id", flat=True)) == set(
        kept.filter(end_time__isnull=False).values_list("pk", flat=True)
    ) | set(kept.filter(end_time=None).values_list("pk", flat=True))
    assert Execution.objects.using(alias).filter(root_id=running.pk).count() == 2
    cancel(running, using=alias)
    now.advance(6 * DAY)
    clean_up_history(alias)
    assert not kept.exists()
    assert not activities.exists()


@pytest.mark.gate
@pytest.mark.transactional
def test_a_cleanup_that_stops_on_its_way_is_finished_by_the_next(alias, settings, now):
    settings.JOBEXEC = {**settings.JOBEXEC, "HISTORY_CLEANUP_BATCH_SIZE": 1}
    with_child(alias, 'camunda:historyTimeToLive="0"')
    ended(alias)
    left = ProcessInstance.objects.using(alias)
    for _ in range(20):
        begun = cleanup.Cleanup.begin(alias, "killed")
        begun.step()
        begun.end()
        if not left.exists():
            break
        assert left.filter(removal_time__isnull=False).exists(), "the topmost one goes last"
    assert not left.exists()
    assert not ActivityInstance.objects.using(alias).exists()
