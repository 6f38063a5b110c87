"""``jobs groups``: failures that look alike."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext as _

from jobexec.operations.overview import overview
from jobexec.operations.reports.failure_groups import failure_groups

from ..arguments import values
from ..output.screen import Exit, Screen
from . import as_object, as_text
from .command import add_period

LIMIT = 50


class Groups:
    """Write the groups of failures of a period, with their fingerprints."""

    name = "groups"
    help = "List failures that look alike, with the number of their dead letters and the fingerprint that selects them."
    positionals = ""

    def add_options(self, parser: ArgumentParser) -> None:
        most = f"at most N, the latest first; default {LIMIT}"
        parser.add_argument("--limit", type=values.count, default=LIMIT, metavar="N", help=most)
        add_period(parser)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        seen = overview(screen.using, period=options["period"], parts=())
        found = failure_groups(screen.using, since=seen.now - seen.period, limit=options["limit"])
        seen = replace(seen, failure_groups=found)
        if screen.json:
            for each in as_object.failure_groups(seen):
                screen.tell(each)
        elif part := as_text.failures(seen, screen):
            for line in part.shown(screen):
                screen.say(line)
        else:
            screen.say(_("No failures."))
        return Exit.DONE
