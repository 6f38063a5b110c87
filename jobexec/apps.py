"""Wiring: what happens once when Django starts."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class JobExecConfig(AppConfig):
    """The job executor as a Django app. Starts nothing: executors are started by command or by code."""

    name = "jobexec"
    label = "jobexec"
    verbose_name = _("Job executor")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, name the columns, and import ``jobs`` of every installed app for its handlers."""
        from .checks import register_checks  # models are loaded only now
        from .models.labels import label_columns

        label_columns(self.get_models())
        register_checks()
        autodiscover_modules("jobs")
