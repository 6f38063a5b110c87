"""The app configuration."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db import router
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class ProcessesConfig(AppConfig):
    """Processes as a Django app, beside ``jobexec``, which runs their jobs."""

    name = "jobexec.processes"
    label = "jobexec_processes"
    verbose_name = _("Processes")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register what processes add to executors, messages, gateways, the cleanup, deployments and the checks."""
        from jobexec.operations.maintenance.cleanup import add_to_cleanup
        from jobexec.operations.messages.deliver import follow_deliveries
        from jobexec.operations.messages.publish import add_receiver
        from jobexec.operations.nodes.deployments import keep_deployments

        from .checks import register_checks
        from .gateways import use
        from .handlers import steps
        from .handlers.messages import deliver_again, start_by_message
        from .store.definitions import needing
        from .store.history import expired

        steps.use()
        add_receiver(start_by_message)
        follow_deliveries(deliver_again)
        add_to_cleanup(expired)
        keep_deployments(needing)
        register_checks()
        use()
        post_migrate.connect(_deploy, dispatch_uid="jobexec.processes")  # once, however often apps are loaded


def _deploy(sender: AppConfig, using: str, **kwargs: Any) -> None:
    """With AUTO_DEPLOY: deploy the files of all apps when their tables are there."""
    if not isinstance(sender, ProcessesConfig):
        return
    from jobexec.conf import get_settings

    from .models import ProcessDefinition
    from .operations.deploy import deploy, files_of_apps

    wanted = get_settings().processes.auto_deploy and using == router.db_for_write(ProcessDefinition)
    if wanted and (files := files_of_apps()):
        deploy(*files, source="AUTO_DEPLOY", using=using)
