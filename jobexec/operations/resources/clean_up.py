"""Delete the rows of unused resources: with a pattern there may be one for each customer."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Exists, OuterRef, Q

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.models import BlockedJob, BreakerState, Resource

from ..sql.delete import delete_rows
from ..sql.locks import atomic, lock_rows
from .limits import in_use

#: Each name is a parameter of one statement several times, and older SQLite accepts no more than a thousand.
_PAGE = 100


def forgetting_resources(using: str) -> Iterator[int]:
    """Delete rows without content, one page per transaction; yield the numbers of deleted rows.

    Kept are rows with jobs, with changes by operators, with a breaker that is not closed, whose rate still counts, or
    whose name is an entry of RESOURCES: operators look at these. A promotion that waits for a row while it is deleted
    inserts it again.
    """
    jobs = BlockedJob.objects.using(using).filter(resource=OuterRef("pk"))
    plain = Q(limit=None, rate="", hold="", breaker_state=BreakerState.CLOSED)
    rested = Q(next_permit_time=None) | Q(next_permit_time__lt=clock.now(using))
    rows = Resource.objects.using(using).filter(plain, rested).exclude(name__endswith="*").order_by("pk")
    entries = get_settings().resources
    reached = ""
    while page := list(rows.filter(pk__gt=reached).values_list("pk", flat=True)[:_PAGE]):
        reached = page[-1]
        with atomic(using):
            unused = rows.filter(~Exists(jobs), pk__in=[name for name in page if name not in entries])
            locked = list(lock_rows(unused, skip_locked=True).values_list("pk", flat=True))
            used = in_use(using, locked) if locked else {}
            deleted = delete_rows(rows.filter(pk__in=[name for name in locked if not used.get(name)]).order_by())
        if deleted:
            yield deleted
