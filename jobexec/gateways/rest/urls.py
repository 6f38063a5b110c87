"""URLs of the REST gateways. Include them with ``path("", include("jobexec.gateways.rest.urls"))``."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("v2/", include("jobexec.gateways.rest.camunda8.urls")),
    path("engine-rest/", include("jobexec.gateways.rest.camunda7.urls")),
    path("oauth/", include("jobexec.gateways.auth.urls")),
    path("actuator/", include("jobexec.gateways.actuator.urls")),
]
