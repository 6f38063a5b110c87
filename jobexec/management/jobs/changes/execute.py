"""``jobs execute``: run one job in this process."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.exceptions import JobExecError
from jobexec.executor.execute_now import execute_by_hand
from jobexec.operations.targets.for_each import OperationResult

from ..arguments import named
from ..output.outcome import tell
from ..output.screen import Exit, Screen
from ..output.text import clean


class Execute:
    """Run a job and wait for its end; a failure is recorded and costs a retry."""

    name = "execute"
    help = "Run one job in this process and wait for its end, whatever its due date; a failure costs a retry."
    positionals = " ID"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=named.job, help="the id of the job")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        id, result, failure = named.id_of(options["id"], screen.using), OperationResult(), None
        try:
            failure = execute_by_hand(id, using=screen.using)
            result.changed.append(id)
        except JobExecError as error:
            result.skipped[id] = str(error)
        if failure is None:
            return tell(self.name, _done, result, screen)
        if screen.json:
            screen.tell({"operation": self.name, "changed": [id], "skipped": {}, "failure": failure.message})
        else:
            screen.say(_("The job has failed: %(reason)s") % {"reason": clean(failure.message)}, screen.style.ERROR)
        return Exit.ERROR


def _done(count: int) -> str:
    return ngettext("%(count)d job executed.", "%(count)d jobs executed.", count) % {"count": count}
