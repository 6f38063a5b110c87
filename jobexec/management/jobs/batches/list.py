"""``jobs batches``: operations on many jobs, and their progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from jobexec.models import Batch

from ..nested import Group
from ..output.screen import Exit, Screen
from .change import CHANGES
from .rows import tell_batches
from .show import ShowBatch

LIMIT = 20


_NESTED = (ShowBatch(), *CHANGES)


class Batches(Group):
    """List batches, the latest first, or run a nested action."""

    name = "batches"
    help = "List batches, the latest first, with their progress; or show, suspend, seal, retry, cancel ... them."
    positionals = f" [{'|'.join(each.name for each in _NESTED)} ID]"
    nested = _NESTED
    limit = LIMIT

    def _list(self, options: Mapping[str, Any], screen: Screen) -> int:
        rows = Batch.objects.using(screen.using).defer("selection").order_by("-create_time")[: options["limit"]]
        if not tell_batches(list(rows), screen):
            screen.say(_("No batches."))
        return Exit.DONE
