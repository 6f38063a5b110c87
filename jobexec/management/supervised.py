"""What commands have in common that may run as several processes."""

from __future__ import annotations

import gc
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

    def keep_what_is_loaded(self) -> None:
        """Exclude what is loaded by now from garbage collection, if the process is this command's own.

        Otherwise each full collection looks at all of it, finds nothing, and stops all threads meanwhile: with the demo
        project, for 60 ms or more.
        """
        if getattr(self, "_called_from_command_line", False):
            gc.freeze()
