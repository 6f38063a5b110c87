"""What the database says at the end of tasks, of unique keys and of the schedules' firings."""

from typing import Any

from jobexec.models import Schedule, ScheduleFiring, TaskResult
from jobexec.operations.tasks.results import find_task_result


def look() -> dict[str, Any]:
    """Plain values, beside those of `state.look()`."""
    results = [_result(row) for row in TaskResult.objects.all()]
    return {
        "results": results,
        "schedules": [
            {"name": row.name, "expression": row.expression, "misfire": row.misfire, "fired": row.fired}
            for row in Schedule.objects.order_by("name")
        ],
        "firings": [
            {"schedule": name, "time": time.timestamp(), "job": str(job)}
            for name, time, job in ScheduleFiring.objects.order_by("pk").values_list(
                "schedule__name", "fire_time", "job_id"
            )
        ],
    }


def _result(row: TaskResult) -> dict[str, Any]:
    sight = find_task_result(row.pk, "default")
    return {
        "job": str(row.pk),
        "status": str(row.status),
        "ended": row.end_time is not None,
        "value": row.return_value,
        "errors": len(row.errors),
        "workers": row.workers,
        "seen": sight and sight.status,
    }
