"""The tables of the app in named groups, for the page below the dashboard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from jobexec import models

_GROUPS = (
    (_("Jobs"), (*models.JOB_TABLES, models.HistoryJob)),
    (_("Failures"), (models.FailureGroup, models.Incident)),
    (
        pgettext_lazy("tables that control jobs", "Control"),
        (
            models.JobDefinition,
            models.Schedule,
            models.Batch,
            models.Suspension,
            models.Resource,
            models.Message,
        ),
    ),
    (_("Executors"), (models.ExecutorNode, models.Deployment, models.ExclusiveLock, models.JobKey)),
    (_("External workers"), (models.ExternalWorker, models.GatewayClient)),
    (pgettext_lazy("tables that record what happened", "Records"), (models.JobLog, models.TaskResult, models.AuditLog)),
)


def grouped(app_list: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The app list of Django's admin with one entry for each group, in place of one for the app."""
    return [
        {**app, "name": title, "models": listed}
        for app in app_list
        for title, tables in _GROUPS
        if (listed := _listed(app, tables))
    ]


def _listed(app: Mapping[str, Any], tables: Iterable[Any]) -> list[Any]:
    by_table = {entry["model"]: entry for entry in app["models"]}
    return [by_table[table] for table in tables if table in by_table]
