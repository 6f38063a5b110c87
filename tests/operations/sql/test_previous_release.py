"""During a rolling upgrade processes of an earlier release write into tables that are migrated already."""

from functools import cache
from typing import Any
from uuid import uuid4

import pytest
from django.apps.registry import Apps
from django.db.migrations.loader import MigrationLoader

from jobexec import clock
from jobexec.models import DeadLetterJob, JobDefinition, JobLog, Suspension

CLUSTER, OPERATORS, TENANTS = "0003_cluster", "0004_operators", "0007_tenants"
JOB = {"handler_type": "shop.pay", "category": "default"}
ROWS: dict[str, dict[str, Any]] = {
    "Job": JOB,
    "TimerJob": JOB,
    "SuspendedJob": JOB,
    "DeadLetterJob": JOB,
    "JobLog": JOB | {"job_id": uuid4(), "state": "failed", "timestamp": clock.now()},
    "JobDefinition": JOB | {"id": "shop.pay"},
    "Suspension": {"scope": "tenant_id", "value": "acme"},
}
LATER: dict[str, dict[str, Any]] = {
    "ExecutorNode": {
        "name": "old",
        "lock_owner": "old:1",
        **dict.fromkeys(("start_time", "heartbeat_time", "lease_expiration_time"), clock.now()),
    },
    "FailureGroup": {
        "fingerprint": "f1",
        "handler_type": "shop.pay",
        **dict.fromkeys(("first_time", "last_time"), clock.now()),
    },
    "GatewayClient": {"name": "old"},
    "Schedule": {"name": "old", "handler_type": "shop.pay", "expression": "R/PT1M"},
}


@cache
def _release(migration: str) -> Apps:
    return MigrationLoader(None).project_state(("jobexec", migration)).apps


@pytest.mark.parametrize("migration", [CLUSTER, OPERATORS])
@pytest.mark.parametrize("model", ROWS)
def test_its_rows_fit_in(alias: str, model: str, migration: str) -> None:
    table: Any = _release(migration).get_model("jobexec", model)
    table.objects.using(alias).create(**ROWS[model])
    table.objects.using(alias).bulk_create([table(**ROWS[model] | _another(model))])


@pytest.mark.parametrize("model", [*ROWS, *LATER])
def test_rows_of_the_release_before_fit_in(alias: str, model: str) -> None:
    table: Any = _release(TENANTS).get_model("jobexec", model)
    table.objects.using(alias).create(**(ROWS | LATER)[model])


def test_what_they_do_not_say_means_what_it_meant_before(alias: str) -> None:
    for model in ("DeadLetterJob", "JobLog", "JobDefinition", "Suspension"):
        _release(CLUSTER).get_model("jobexec", model).objects.using(alias).create(**ROWS[model])  # type: ignore[attr-defined]
    assert DeadLetterJob.objects.using(alias).get().fingerprint == ""
    assert JobLog.objects.using(alias).get().fingerprint == ""
    assert JobDefinition.objects.using(alias).get().sensitive == []
    assert Suspension.objects.using(alias).get().include_jobs is True


def _another(model: str) -> dict[str, Any]:
    """Columns that must differ from row to row."""
    return {"JobDefinition": {"id": "shop.ship"}, "Suspension": {"value": "other"}}.get(model, {})
