"""The app configuration: setup when Django starts."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _

from jobexec import backends, conf
from jobexec.exceptions import InvalidSettings


class JobExecConfig(AppConfig):
    """The job executor as a Django app. Starts nothing: executors are started by command or by code."""

    name = "jobexec"
    label = "jobexec"
    verbose_name = _("Job executor")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, label the columns, and import the modules that define handlers.

        Those are ``jobs`` of every installed app, ``tasks`` as well if django.tasks or its backport is installed, and
        the modules in the setting IMPORTS.
        """
        from .checks import register_checks  # models are loaded only now
        from .handlers.schedules import HandlerJobs
        from .models.labels import label_columns
        from .operations.schedules import jobs

        label_columns(self.get_models())
        register_checks()
        jobs.use(HandlerJobs())
        has_tasks = backends.installed()
        autodiscover_modules("jobs", *(["tasks"] if has_tasks else []))
        _import_others()
        if has_tasks:
            _connect_tasks()


def _import_others() -> None:
    """Import the modules in the setting IMPORTS."""
    if conf.problems(conf.raw_settings()):
        return  # the system checks report it
    for name in conf.get_settings().imports:
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # the module exists, and one that it imports does not
            raise InvalidSettings(f"JOBEXEC['IMPORTS'] names {name!r}, but there is no such module.") from error


def _connect_tasks() -> None:
    from .backends import checks, registration  # they need a package of tasks

    registration.connect()
    registration.register_as_they_stand()
    checks.register_checks()
