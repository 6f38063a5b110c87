"""What commands have in common that may run as several processes."""

from __future__ import annotations

from io import StringIO
from typing import Any

from django.core.management.base import BaseCommand, OutputWrapper

from jobexec.executor.process.control_pipe import supervisor


class SupervisedCommand(BaseCommand):
    """A command whose supervisor starts it again as its children."""

    def check(self, *args: Any, **options: Any) -> None:
        """A child repeats no warnings: its supervisor has shown them. An error stops it, too."""
        shown = self.stderr
        if supervisor() is not None:
            self.stderr = OutputWrapper(StringIO())
        try:
            super().check(*args, **options)
        finally:
            self.stderr = shown
