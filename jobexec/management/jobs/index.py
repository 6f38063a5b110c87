"""``jobs index``: indexes that operators create on demand."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from jobexec.models import JOB_TABLES
from jobexec.operations.query.job_query import STATES
from jobexec.operations.sql import argument_index

from .output.screen import Exit, Screen, usage


class Index:
    """Create or drop the indexes by which the admin searches arguments."""

    name = "index"
    help = "Create indexes for searching arguments in the admin (PostgreSQL, without blocking jobs); or drop them."
    positionals = " arguments"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=["arguments"], help="what to index")
        parser.add_argument("--state", action="append", choices=sorted(STATES), help="only the jobs of this state")
        parser.add_argument("--drop", action="store_true", help="drop the indexes instead")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        if not argument_index.can_index(screen.using):
            raise usage(_("Arguments can be indexed on PostgreSQL only."))
        tables = [STATES[name] for name in options["state"]] if options["state"] else JOB_TABLES
        change = argument_index.drop_index if options["drop"] else argument_index.create_index
        for table in tables:
            change(screen.using, table)
            index = argument_index.name_of(table)
            if screen.json:
                screen.tell({"operation": self.name, "index": index, "exists": not options["drop"]})
            else:
                text = _("%(index)s: dropped.") if options["drop"] else _("%(index)s: complete.")
                screen.say(text % {"index": index}, screen.style.SUCCESS)
        return Exit.DONE
