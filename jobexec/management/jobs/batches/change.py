"""``jobs batches suspend``, ``activate``, ``seal``, ``retry``, ``cancel`` and ``delete``."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobexec import operations
from jobexec.exceptions import JobExecError
from jobexec.models import Batch
from jobexec.operations.batches.of_jobs import NO_FAILED_JOBS
from jobexec.operations.targets.for_each import OperationResult

from ..arguments import named
from ..output.outcome import tell
from ..output.screen import Exit, Screen, ask
from .rows import tell_batches


@dataclass
class ChangeBatch:
    """A verb on named batches. With a ``warning`` it asks first."""

    name: str
    help: str
    function: Callable[..., Any]
    counted: Callable[[int], str]
    warning: Any = ""
    positionals: str = " ID [ID ...]"

    def add_options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("ids", nargs="+", type=named.row, metavar="ID", help="the batches")
        add("--dry-run", action="store_true", help="only show which batches would be affected")
        if self.warning:
            add("--yes", action="store_true", help="do not ask for confirmation")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        ids = list(dict.fromkeys(named.row_id(each, Batch, screen.using) for each in options["ids"]))
        if options["dry_run"]:
            found = list(Batch.objects.using(screen.using).defer("selection").filter(pk__in=ids).order_by("pk"))
            tell_batches(found, screen)
            if not screen.json:
                screen.say(_("Nothing has been changed."))
            return Exit.DONE if len(found) == len(ids) else Exit.LEFT_ALONE
        if self.warning and not options["yes"]:
            text = ngettext("This affects %(count)s batch.", "This affects %(count)s batches.", len(ids))
            if not ask(f"{text % {'count': len(ids)}} {self.warning} {_('Are you sure?')}"):
                return Exit.LEFT_ALONE
        result = OperationResult()
        for id in ids:
            try:
                if self.function(id, using=screen.using) == OperationResult():
                    result.skipped[id] = _(NO_FAILED_JOBS)
                else:
                    result.changed.append(id)
            except JobExecError as error:
                result.skipped[id] = str(error)
        return tell(self.name, lambda count: self.counted(count) % {"count": count}, result, screen, _left)


def _left(count: int) -> str:
    return ngettext("%(count)d batch was skipped:", "%(count)d batches were skipped:", count) % {"count": count}


CHANGES = (
    ChangeBatch(
        "suspend",
        "Start no more jobs of batches; running ones finish.",
        operations.suspend_batch,
        lambda count: ngettext(
            "%(count)d batch suspended. Its running jobs finish.",
            "%(count)d batches suspended. Their running jobs finish.",
            count,
        ),
    ),
    ChangeBatch(
        "activate",
        "Continue batches; a missing job that a batch needs is created again.",
        operations.activate_batch,
        lambda count: ngettext("%(count)d batch continues.", "%(count)d batches continue.", count),
    ),
    ChangeBatch(
        "seal",
        "Seal batches of jobs: they take no more jobs, and end with the last one.",
        operations.seal_batch,
        lambda count: ngettext("%(count)d batch sealed.", "%(count)d batches sealed.", count),
    ),
    ChangeBatch(
        "retry",
        "Requeue the dead letters of batches of jobs; a batch that has failed goes on.",
        operations.retry_batch,
        lambda count: ngettext(
            "The failed jobs of %(count)d batch are retried.",
            "The failed jobs of %(count)d batches are retried.",
            count,
        ),
    ),
    ChangeBatch(
        "cancel",
        "Cancel batches; completed changes remain.",
        operations.cancel_batch,
        lambda count: ngettext("%(count)d batch cancelled.", "%(count)d batches cancelled.", count),
        gettext_lazy("Nothing more is changed. Completed changes remain."),
    ),
    ChangeBatch(
        "delete",
        "Delete batches with the record of what they skipped; an unfinished batch is cancelled first.",
        operations.delete_batch,
        lambda count: ngettext("%(count)d batch deleted.", "%(count)d batches deleted.", count),
        gettext_lazy(
            "An unfinished batch is cancelled first. Completed changes remain; the record of what it skipped, and "
            "why, is deleted."
        ),
    ),
)
