"""Those that deploy one process at the same moment, as the hosts of a release do."""

import pytest

from jobexec.models import TimerJob
from jobexec.processes.models import EventSubscription, ProcessDefinition, ProcessDeployment
from jobexec.processes.operations.deploy import deploy
from tests.processes.support.bpmn import process
from tests.support.threads import together

pytest.importorskip("lxml")

pytestmark = [pytest.mark.transactional, pytest.mark.every_database]


def content(name=""):
    return process(
        f'<startEvent id="paid"><messageEventDefinition messageRef="m"/></startEvent>'
        f'<startEvent id="daily"><timerEventDefinition><timeCycle>R/P1D</timeCycle></timerEventDefinition></startEvent>'
        f'<task id="t" name="{name}"/><sequenceFlow id="f" sourceRef="paid" targetRef="t"/>'
        f'<sequenceFlow id="g" sourceRef="daily" targetRef="t"/>',
        top='<message id="m" name="paid"/>',
    )


def versions(alias):
    return list(ProcessDefinition.objects.using(alias).order_by("version").values_list("version", flat=True))


def test_one_file_makes_one_version(alias):
    together(alias, *(lambda: deploy(("p.bpmn", content()), using=alias) for _ in range(4)))
    assert versions(alias) == [1]
    assert ProcessDeployment.objects.using(alias).count() == 1
    assert EventSubscription.objects.using(alias).count() == TimerJob.objects.using(alias).count() == 1


@pytest.mark.gate
def test_two_files_make_two_versions_of_which_the_latest_waits(alias):
    files = [content(name) for name in "abcd"]
    together(alias, *(lambda file=file: deploy(("p.bpmn", file), using=alias) for file in files))
    assert versions(alias) == [1, 2, 3, 4]
    latest = ProcessDefinition.objects.using(alias).get(version=4).pk
    assert EventSubscription.objects.using(alias).get().definition_id == latest
    assert TimerJob.objects.using(alias).get().process_definition_id == latest
