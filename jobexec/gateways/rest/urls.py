"""What a project includes, so that workers outside get its jobs: ``path("", include("jobexec.gateways.rest.urls"))``"""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("v2/", include("jobexec.gateways.rest.v2.urls")),
    path("engine-rest/", include("jobexec.gateways.rest.engine_rest.urls")),
    path("oauth/", include("jobexec.gateways.access.urls")),
    path("actuator/", include("jobexec.gateways.actuator.urls")),
]
