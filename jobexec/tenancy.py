"""Which tenants' jobs a user may see: one hook, the setting ADMIN_TENANTS, used by every page and every action."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.module_loading import import_string

from jobexec.conf import get_settings

_KNOWN = "_jobexec_tenants"
COLUMN = "tenant_id"


def tenants_of(request: HttpRequest) -> frozenset[str] | None:
    """The tenants whose jobs this user may see; None for all, including jobs without a tenant.

    Determined by the callable in the setting ADMIN_TENANTS, once for each request. The empty text among the tenants
    means the jobs without a tenant. Raises ImproperlyConfigured if the callable returns anything else.
    """
    path = get_settings().admin_tenants
    if path is None:
        return None
    if not hasattr(request, _KNOWN):
        setattr(request, _KNOWN, _checked(path, import_string(path)(request)))
    known: frozenset[str] | None = getattr(request, _KNOWN)
    return known


def _checked(path: str, answer: Any) -> frozenset[str] | None:
    if answer is None:
        return None
    # A text is iterable, too: "acme" would be the tenants a, c, m and e.
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise ImproperlyConfigured(_expected(path, answer))
    tenants = frozenset(answer)
    if not all(isinstance(tenant, str) for tenant in tenants):
        raise ImproperlyConfigured(_expected(path, answer))
    return tenants


def _expected(path: str, answer: Any) -> str:
    return f"JOBEXEC['ADMIN_TENANTS'] ({path}): expected None or tenant ids (strings), got {answer!r}."


def is_restricted(request: HttpRequest) -> bool:
    """Whether the user is restricted to some tenants."""
    return tenants_of(request) is not None


def of_tenants(queryset: QuerySet[Any], request: HttpRequest, column: str = COLUMN) -> QuerySet[Any]:
    """The rows that this user may see, by the column that holds their tenant."""
    tenants = tenants_of(request)
    if tenants is None:
        return queryset
    return queryset.filter(**{f"{column}__in": sorted(tenants)})
