"""Contexts for handlers in tests. Each test registers its own handlers in `registry.isolated()`."""

from types import SimpleNamespace

from jobexec.handlers.context import JobContext


class Host:
    """The part of an executor that a job sees."""

    shutting_down = False
    owned = True

    def owns(self, lock_owner: str, using: str) -> bool:
        return self.owned


def a_context(host: Host | None = None, **columns: object) -> JobContext:
    """Return the context of a run whose job is in no table."""
    values = {"id": "an id", "attempts": 0, "timeout": None, "using": "default", "lock_owner": "node:one"}
    values |= {"category": "default", "process_instance_id": "", "tenant_id": ""}
    work = SimpleNamespace(**values | {"handler_type": "h"} | columns)
    return JobContext(work, host or Host())  # type: ignore[arg-type]
