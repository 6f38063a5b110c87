"""``jobs reencrypt``: jobs as every verb, and the results of tasks."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.operations.manage.reencrypt import reencrypt_results

from ..output.outcome import tell
from ..output.screen import Screen, usage
from .change import Change


class Reencrypt(Change):
    """The verb, and with ``--results`` the results of tasks instead of jobs."""

    def add_options(self, parser: ArgumentParser) -> None:
        super().add_options(parser)
        help = "instead of jobs: results of tasks, the calls that follow batches, and kept messages, in this process"
        parser.add_argument("--results", action="store_true", help=help)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        if not options["results"]:
            return super().run(options, screen)
        if options["ids"] or options["all_matching"] or options["plain"]:
            raise usage(_("--results cannot be combined with ids, --all-matching or --plain."))
        return tell(self.name, _told, reencrypt_results(using=screen.using), screen)


def _told(count: int) -> str:
    text = ngettext("%(count)d result encrypted again.", "%(count)d results encrypted again.", count)
    return text % {"count": count}
