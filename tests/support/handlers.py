"""Handlers for tests. Each test registers its own in `registry.isolated()`."""

from types import SimpleNamespace

from jobexec.handlers.context import JobContext


class Host:
    """An executor, as far as a job sees it."""

    shutting_down = False
    owned = True

    def owns(self, lock_owner: str, using: str) -> bool:
        return self.owned


def a_context(host: Host | None = None, **columns: object) -> JobContext:
    """The context of a run that is on no table."""
    values = {"id": "an id", "attempts": 0, "timeout": None, "using": "default", "lock_owner": "node:one"}
    values |= {"category": "default", "process_instance_id": "", "tenant_id": ""}
    work = SimpleNamespace(**values | {"handler_type": "h"} | columns)
    return JobContext(work, host or Host())  # type: ignore[arg-type]
