"""``jobs list``: list or count jobs."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from itertools import islice
from typing import Any

from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.exceptions import InvalidQuery
from jobexec.models import AbstractJob
from jobexec.operations.query.job_query import JobQuery
from jobexec.operations.query.search import ORDERS, walk
from jobexec.operations.reports.counts import CappedCount
from jobexec.operations.why.facts import HEAVY

from ..arguments import values
from ..arguments.filters import add_filters, hints, query_of
from ..arguments.meant import question
from ..output.rows import as_object, show_rows
from ..output.screen import Exit, Screen
from ..stats.as_text import number

LIMIT = 50


class List:
    """List jobs of all states, oldest first."""

    name = "list"
    help = "List jobs, oldest first."
    positionals = ""

    def add_options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--limit", type=values.count, metavar="N", help=f"at most N; default {LIMIT}, with --json all")
        add("--order", default="id", metavar="COLUMN", help=f"{', '.join(ORDERS)}; -COLUMN: descending (--order=-id)")
        add("--count", action="store_true", help="only count the jobs; more than 10,000 are estimated")
        add_filters(parser)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        query = query_of(options, screen.using)
        if options["count"]:
            self._count(query, screen)
        elif screen.json and options["order"] == "id":
            self._stream(query, options["limit"], screen)
        else:
            self._page(query, options, screen)
        return Exit.DONE

    def _count(self, query: JobQuery, screen: Screen) -> None:
        counts = {table: CappedCount.of(query.queryset(table, screen.using)) for table in query.tables}
        if screen.json:
            told = {table.state.replace(" ", "_"): count for table, count in counts.items()}
            capped = [name for name, count in told.items() if count.capped]
            screen.tell({**{name: int(count) for name, count in told.items()}, "at_least": capped})
            return
        for table, count in counts.items():
            screen.say(f"{number(count):>10} {table._meta.verbose_name_plural}")

    def _stream(self, query: JobQuery, limit: int | None, screen: Screen) -> None:
        """Write one JSON object per line, read in pages, so that memory does not grow with the number of jobs."""
        jobs = walk([query.queryset(table, screen.using) for table in query.tables], HEAVY)
        for job in islice(jobs, limit):
            screen.tell(as_object(job))

    def _find(self, query: JobQuery, limit: int, order: str, using: str) -> list[AbstractJob]:
        try:
            return query.find(using, limit=limit, order=order, defer=HEAVY)
        except InvalidQuery as error:
            raise InvalidQuery(f"{error}{question(order.removeprefix('-'), ORDERS)}") from None

    def _page(self, query: JobQuery, options: Mapping[str, Any], screen: Screen) -> None:
        limit = LIMIT if options["limit"] is None else options["limit"]
        found = self._find(query, limit + 1, options["order"], screen.using)
        jobs = found[:limit]
        if screen.json:
            for job in jobs:
                screen.tell(as_object(job))
            return
        if not jobs:
            screen.say(" ".join([_("No jobs."), *hints(query, screen.using)]))
            return
        show_rows(screen, jobs, clock.now(screen.using), of_one_state=len(query.tables) == 1)
        if len(found) > limit:
            screen.say(_("There are more: --limit N shows them, --count counts them."))
