"""Remove the deployments of a test, with all their instances."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.db.models import Q

from jobexec.models import JOB_TABLES, Incident, JobDefinition, JobLog
from jobexec.operations.sql.delete import delete_rows

from ..models import (
    ActivityInstance,
    EventSubscription,
    Execution,
    ProcessDefinition,
    ProcessDeployment,
    ProcessInstance,
    ProcessResource,
    TaskCandidate,
    UserTask,
    Variable,
)


def remove(using: str, definitions: Sequence[ProcessDefinition]) -> None:
    """Delete the definitions, and the call hierarchies that contain their instances."""
    ids, keys = [row.pk for row in definitions], [row.key for row in definitions]
    instances = ProcessInstance.objects.using(using)
    with transaction.atomic(using=using):
        roots = list(instances.filter(definition_id__in=ids).values_list("root_id", flat=True).distinct())
        members = list(instances.filter(root_id__in=roots).values_list("pk", flat=True))
        tasks = list(UserTask.objects.using(using).filter(root_id__in=roots).values_list("pk", flat=True))
        for table in JOB_TABLES:
            of_theirs = Q(process_instance_id__in=[str(id) for id in members]) | Q(process_definition_id__in=ids)
            delete_rows(table._base_manager.using(using).filter(of_theirs))
        of_starts = Q(process_instance_id="", process_definition_key__in=keys)
        told = Q(process_instance_id__in=[str(id) for id in members]) | of_starts
        for rows in (Incident.objects, JobLog.objects):
            delete_rows(rows.using(using).filter(told))
        delete_rows(TaskCandidate.objects.using(using).filter(task_id__in=tasks))
        delete_rows(ActivityInstance.objects.using(using).filter(instance_id__in=members))
        for model in (Execution, Variable, UserTask, EventSubscription, ProcessInstance):
            delete_rows(model._base_manager.using(using).filter(root_id__in=roots))
        delete_rows(EventSubscription.objects.using(using).filter(definition_id__in=ids))
        delete_rows(JobDefinition.objects.using(using).filter(process_definition_key__in=keys))
        deployments = [row.deployment_id for row in definitions if row.deployment_id is not None]
        delete_rows(ProcessResource.objects.using(using).filter(deployment_id__in=deployments))
        delete_rows(ProcessDeployment.objects.using(using).filter(pk__in=deployments))
        delete_rows(ProcessDefinition.objects.using(using).filter(pk__in=ids))
