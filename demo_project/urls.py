from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("processes/", include("demo_project.workflows.urls")),
    path("camunda/", include("jobexec.gateways.rest.urls")),
    path("", include("demo_project.bookings.urls")),
]
