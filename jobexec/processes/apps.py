"""The app configuration."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ProcessesConfig(AppConfig):
    """Processes as a Django app, beside ``jobexec``, which runs their jobs."""

    name = "jobexec.processes"
    label = "jobexec_processes"
    verbose_name = _("Processes")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Let executors find the handlers of steps, published messages start processes, and the gateways know them."""
        from jobexec.operations.messages.publish import add_receiver

        from .gateways import use
        from .handlers import steps
        from .handlers.signals import start_by_message

        steps.use()
        add_receiver(start_by_message)
        use()
