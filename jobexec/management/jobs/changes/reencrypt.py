"""``jobs reencrypt``: jobs as every verb, and the results of tasks."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.operations.manage.reencrypt import reencrypt_results

from ..arguments.filters import query_of
from ..output.outcome import tell
from ..output.screen import Screen, usage
from .change import Change

#: What selects jobs, besides conditions, or says how they are changed.
_OF_JOBS = ("ids", "all_matching", "plain", "batch", "dry_run")


class Reencrypt(Change):
    """The verb, and with ``--results`` the results of tasks instead of jobs."""

    def add_options(self, parser: ArgumentParser) -> None:
        super().add_options(parser)
        help = "instead of jobs: results of tasks, the calls that follow batches, and kept messages, in this process"
        parser.add_argument("--results", action="store_true", help=help)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        if not options["results"]:
            return super().run(options, screen)
        given = [name for name in _OF_JOBS if options[name]]
        given += query_of(options, screen.using).given
        if given:
            names = ", ".join(name.replace("_", "-") for name in given)
            raise usage(_("--results is about no jobs: do not give %(names)s.") % {"names": names})
        return tell(self.name, _told, reencrypt_results(using=screen.using), screen)


def _told(count: int) -> str:
    text = ngettext("%(count)d result encrypted again.", "%(count)d results encrypted again.", count)
    return text % {"count": count}
