"""What the database says at the end of processes."""

import time
from typing import Any

from django.db import connection
from django.db.models import Count

from jobexec.models import JOB_TABLES
from jobexec.processes.models import ActivityInstance, Execution, ProcessInstance
from jobexec.processes.operations.check import check

_COLUMNS = ("id", "root_id", "definition_key", "business_key", "state", "end_element", "parent_execution_id")
#: The bodies of multi-instances count for nothing beside what is in them.
_BODY = "multiInstanceBody"


def look() -> dict[str, Any]:
    """Plain values, beside those of `state.look()`."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT instance, element, count(*) FROM chaos_step GROUP BY instance, element")
        steps = [list(row) for row in cursor.fetchall()]
    done = ActivityInstance.objects.filter(state="completed").exclude(kind=_BODY).order_by("pk")
    jobs = [
        [table.state, row.process_instance_id, row.failed_activity_id, row.handler_type, row.exception_message]
        for table in JOB_TABLES
        for row in table._base_manager.exclude(process_definition_id="").exclude(execution_id="")
    ]
    return {
        "instances": [
            {name: None if value is None else str(value) for name, value in row.items()}
            for row in ProcessInstance.objects.order_by("pk").values(*_COLUMNS)
        ],
        "steps": steps,
        "activities": [
            [str(instance), element, count]
            for instance, element, count in done.order_by()
            .values_list("instance_id", "element_id")
            .annotate(Count("pk"))
        ],
        "tokens": [
            [str(instance), *rest]
            for instance, *rest in Execution.objects.order_by("pk").values_list("instance_id", "element_id", "state")
        ],
        "process_jobs": jobs,
        "discrepancies": _discrepancies(),
    }


def _discrepancies() -> list[list[str]]:
    """Twice, for the server may still end transactions of nodes that were killed."""
    if not check():
        return []
    time.sleep(1)
    return [[str(each.instance), each.message] for each in check()]
