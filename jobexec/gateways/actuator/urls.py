"""URLs of the actuator, included as ``actuator/``."""

from django.urls import path, re_path

from . import views

urlpatterns = [
    path("", views.index, name="jobexec-actuator"),
    path("health", views.health, name="jobexec-actuator-health"),
    path("prometheus", views.prometheus, name="jobexec-actuator-prometheus"),
    re_path(r"^jobstreams(?:/(?P<which>[^/]*))?$", views.jobstreams, name="jobexec-actuator-jobstreams"),
]
