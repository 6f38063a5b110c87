"""URLs for a project to include: ``path("jobexec/", include("jobexec.urls"))``."""

from __future__ import annotations

from importlib.util import find_spec

from django.urls import URLPattern, path

from jobexec import health

app_name = "jobexec"

urlpatterns: list[URLPattern] = [path("health/", health.view, name="health")]

if find_spec("prometheus_client"):  # the extra metrics
    from jobexec import metrics

    urlpatterns.append(path("metrics/", metrics.view, name="metrics"))
