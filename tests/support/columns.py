"""A value other than the default for each column that all job tables share."""

from datetime import UTC, datetime, timedelta
from typing import Any

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)

VALUES: dict[str, Any] = {
    "type": "timer",
    "exclusive": False,
    "execution_id": "e",
    "process_instance_id": "pi",
    "root_process_instance_id": "root",
    "process_definition_id": "pd:1",
    "process_definition_key": "pd",
    "deployment_id": "shop:1",
    "tenant_id": "t",
    "job_definition_id": "jd",
    "handler_type": "h",
    "handler_configuration": {"args": [1.5, None, "ä\u2028"], "kwargs": {"deep": [{"er": True}]}},
    "custom_headers": {"x": 1},
    "category": "mail",
    "priority": 5,
    "due_date": LATER,
    "repeat": "R3/PT1H",
    "retries": 7,
    "attempts": 2,
    "lost_runs": 1,
    "conflicts": 3,
    "snoozes": 4,
    "expires_at": LATER,
    "unknown_since": NOW - timedelta(days=1),
    "retry_plan": "R7/PT1M",
    "atomic": True,
    "timeout": timedelta(seconds=90.5),
    "cancel_requested": True,
    "suspend_requested": True,
    "exception_message": "m",
    "exception_stack": "s\n" * 5000,
    "failed_activity_id": "a",
    "create_time": NOW - timedelta(days=3),
    "sequence_counter": 9,
    "correlation_id": "c",
    "batch_id": "01890000-0000-7000-8000-000000000001",
    "task_backend": "default",
    "traceparent": "00-1-2-01",
    "resource": "pay.example",
    "waits_for": "approved",
    "waits_for_key": "4711",
    "waits_until": LATER,
    "message": '{"name": "paid", "key": "1", "payload": null, "id": null, "number": 1}',
    "job_key": 2**51 + 1,
}
CHANGED_BY_MOVES = {"id", "revision", "rank", "lock_owner", "lock_expiration_time", "start_time"}
