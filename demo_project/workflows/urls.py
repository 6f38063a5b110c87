from django.urls import path

from . import views

app_name = "workflows"
urlpatterns = [
    path("", views.processes, name="processes"),
    path("act/", views.act, name="act"),
]
