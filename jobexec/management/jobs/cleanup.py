"""``jobs cleanup``: the retention that executors do once an hour, immediately."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.utils.translation import ngettext

from jobexec.operations import clean_up_history

from .output.screen import Exit, Screen


class CleanUp:
    """Delete what has expired; for cron, and for projects without an executor."""

    name = "cleanup"
    help = "Delete the history, results and dead letters that have expired, as executors do once an hour."
    positionals = ""

    def add_options(self, parser: ArgumentParser) -> None:
        """There are none: settings say what expires, for the executors, too."""

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        count = clean_up_history(screen.using)
        if screen.json:
            screen.tell({"operation": self.name, "count": count})
            return Exit.DONE
        text = ngettext("%(count)d row deleted.", "%(count)d rows deleted.", count)
        screen.say(text % {"count": count}, screen.style.SUCCESS)
        return Exit.DONE
