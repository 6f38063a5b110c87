"""Guards of external jobs, taken away on purpose: the judge must notice each. jobexec itself has no such switch."""

from collections.abc import Callable, Sequence
from typing import Any

from jobexec.models import ExternalWorkerJob
from jobexec.operations import (
    external_complete_statement,
    external_errors,
    external_exclusive,
    external_fetch,
    external_fetch_statement,
    external_settle,
)
from jobexec.operations.locking import lock_rows


def lease() -> None:
    """Who has an old lease, or none, may finish what somebody else has fetched since."""

    def check_lease(*args: Any, **kwargs: Any) -> None: ...

    for module in (external_settle, external_errors, external_complete_statement):
        module.check_lease = check_lease  # type: ignore[attr-defined]


def removal() -> None:
    """What was completed stays where workers find it."""
    external_settle.complete_at_once = lambda *args: False
    external_settle._delete = lambda using, row: None


def deadline() -> None:
    """A fetch brings what others hold."""

    def lock(using: str, fetch: Any, tenants: Any, limit: int) -> tuple[list[ExternalWorkerJob], bool]:
        rows = lock_rows(external_fetch.available(using, fetch, tenants).order_by("pk"), skip_locked=True)
        return list(rows[:limit]), False

    external_fetch_statement.is_possible = lambda using, fetch: False
    external_fetch._lock = lock


def exclusive() -> None:
    """No process instance is looked at or taken."""

    def take(using: str, rows: Sequence[ExternalWorkerJob]) -> set[Any]:
        return {row.pk for row in rows}

    external_fetch_statement.is_possible = lambda using, fetch: False
    external_fetch._whose_instance_is_free = lambda rows: rows
    external_exclusive.take = take


GUARDS: dict[str, Callable[[], None]] = {
    "lease": lease,
    "removal": removal,
    "deadline": deadline,
    "exclusive": exclusive,
}
