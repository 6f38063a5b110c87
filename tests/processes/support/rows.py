"""What the tables of processes hold."""

from jobexec.models import JOB_TABLES
from jobexec.processes.models import EventSubscription, Execution, ProcessInstance, UserTask, Variable


def state(alias, instance):
    return ProcessInstance.objects.using(alias).get(pk=instance.pk).state


def final(alias, instance):
    return ProcessInstance.objects.using(alias).get(pk=instance.pk).final_variables


def elements(alias):
    return sorted(Execution.objects.using(alias).values_list("element_id", flat=True))


def assert_nothing_is_left(alias):
    for model in (Execution, Variable, EventSubscription, UserTask, *JOB_TABLES):
        assert not model.objects.using(alias).exists(), model
