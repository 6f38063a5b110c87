"""List filters for jobs of external workers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db import router
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from jobexec import clock
from jobexec.models import ExternalWorker, ExternalWorkerJob
from jobexec.operations.rows import routing

from ..common.tenancy import is_restricted
from ..common.text_filters import CHOICES, TextFilter


class HoldFilter(admin.SimpleListFilter):
    """Whether the job is free, held by a worker, not yet available, or past its deadline."""

    title = _("lock")
    parameter_name = "lock"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        return (
            ("free", _("Free")),
            ("held", _("With a worker")),
            ("waiting", _("Not available yet")),
            ("missed", _("Deadline missed")),
        )

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        now = clock.now(queryset.db)
        free, held = (which(ExternalWorkerJob, now) for which in (routing.free, routing.held))
        conditions = {
            "free": free & (Q(available_at=None) | Q(available_at__lte=now)),
            "held": held,
            "waiting": free & Q(available_at__gt=now),
            "missed": Q(lock_owner__isnull=False, lock_expiration_time__lte=now),
        }
        condition = conditions.get(self.value() or "")
        return queryset if condition is None else queryset.filter(condition)


class TypeFilter(TextFilter):
    """Filter by job type; suggests types that workers have asked for."""

    title = _("type")
    parameter_name = "handler"
    column = "handler_type"

    def known(self, request: HttpRequest) -> list[str]:
        if is_restricted(request):
            return []  # workers belong to no tenant
        workers = ExternalWorker.objects.using(router.db_for_read(ExternalWorker))
        return list(workers.order_by("type").values_list("type", flat=True).distinct()[:CHOICES])


class WorkerFilter(TextFilter):
    """Filter by the worker that had the job last."""

    title = _("worker")
    parameter_name = "worker"
    column = "lock_owner"
