"""Guards of external jobs, taken away on purpose: the judge must notice each. jobexec itself has no such switch."""

from collections.abc import Callable, Sequence
from typing import Any

from jobexec.models import ExternalWorkerJob
from jobexec.operations.external import complete_statement, fetch_statement, settle, throw_error
from jobexec.operations.external import fetch as external_fetch
from jobexec.operations.rows import external_exclusive
from jobexec.operations.sql.locks import lock_rows


def lease() -> None:
    """Who has an old lease, or none, may finish what somebody else has fetched since."""

    def check_lease(*args: Any, **kwargs: Any) -> None: ...

    for module in (settle, throw_error, complete_statement):
        module.check_lease = check_lease  # type: ignore[attr-defined]


def removal() -> None:
    """What was completed stays where workers find it."""
    settle.complete_at_once = lambda using, completions: [False] * len(completions)
    settle._delete = lambda using, row: None


def deadline() -> None:
    """A fetch brings what others hold."""

    def lock(using: str, fetch: Any, tenants: Any, limit: int) -> tuple[list[ExternalWorkerJob], bool]:
        rows = lock_rows(external_fetch.available(using, fetch, tenants).order_by("pk"), skip_locked=True)
        return list(rows[:limit]), False

    fetch_statement.is_possible = lambda using, fetch: False
    external_fetch._lock = lock


def exclusive() -> None:
    """No process instance is looked at or taken."""

    def take(using: str, rows: Sequence[ExternalWorkerJob]) -> set[Any]:
        return {row.pk for row in rows}

    fetch_statement.is_possible = lambda using, fetch: False
    external_fetch._whose_instance_is_free = lambda rows: rows
    external_exclusive.take = take


GUARDS: dict[str, Callable[[], None]] = {
    "lease": lease,
    "removal": removal,
    "deadline": deadline,
    "exclusive": exclusive,
}
