"""``jobs batches``: operations on many jobs, and their progress."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from jobexec.models import Batch

from ..arguments import values
from ..nested import add_nested, run_nested
from ..output.screen import Exit, Screen
from .change import CHANGES
from .rows import tell_batches
from .show import ShowBatch

LIMIT = 20


_NESTED = (ShowBatch(), *CHANGES)


class Batches:
    """List batches, the latest first, or run a nested action."""

    name = "batches"
    help = "List batches, the latest first, with their progress; or show, suspend, seal, retry, cancel ... them."
    positionals = f" [{'|'.join(each.name for each in _NESTED)} ID]"

    def add_options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--limit", type=values.count, default=LIMIT, metavar="N", help=f"at most N; default {LIMIT}")
        add_nested(parser, _NESTED)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        code = run_nested(_NESTED, options, screen)
        return self._list(options, screen) if code is None else code

    def _list(self, options: Mapping[str, Any], screen: Screen) -> int:
        rows = Batch.objects.using(screen.using).defer("selection").order_by("-create_time")[: options["limit"]]
        if not tell_batches(list(rows), screen):
            screen.say(_("No batches."))
        return Exit.DONE
