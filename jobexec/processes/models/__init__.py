"""The tables of process definitions and their instances."""

from __future__ import annotations

from .definition import ProcessDefinition, ProcessDeployment, ProcessResource
from .history import ActivityInstance
from .instance import EventSubscription, Execution, InstanceState, ProcessInstance, ProcessInstanceQuerySet, Variable
from .user_task import TaskCandidate, UserTask

__all__ = [
    "ActivityInstance",
    "EventSubscription",
    "Execution",
    "InstanceState",
    "ProcessDefinition",
    "ProcessDeployment",
    "ProcessInstance",
    "ProcessInstanceQuerySet",
    "ProcessResource",
    "TaskCandidate",
    "UserTask",
    "Variable",
]
