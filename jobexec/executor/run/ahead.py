"""What handlers look up for the jobs of a chunk at once (:data:`~jobexec.handlers.base.LookAhead`)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from jobexec.handlers.base import LookAhead
from jobexec.handlers.registry import find_handler
from jobexec.operations.sql.errors import one_line
from jobexec.operations.values.acquired_job import AcquiredJob

from ...runtime.connections import prepare_connections
from .execution import clean_up

logger = logging.getLogger("jobexec.execution")


def looks_ahead(batch: Sequence[AcquiredJob]) -> bool:
    """Whether the handler of a batch's first job looks up something for several jobs at once; never raises."""
    return _look_of(batch[0].handler_type) is not None


def look_ahead(batches: Sequence[list[AcquiredJob]]) -> None:
    """Let handlers look up what they need for the first jobs of these batches; never raises."""
    first = batches[0][0]
    look = _look_of(first.handler_type)
    if look is None:
        return
    looks: dict[str, LookAhead | None] = {first.handler_type: look}
    works: list[AcquiredJob] = []
    for work, *_ in batches:
        if work.handler_type not in looks:
            looks[work.handler_type] = _look_of(work.handler_type)
        if work.using == first.using and looks[work.handler_type] is look:
            works.append(work)
    try:
        prepare_connections()
        look(first.using, works)
    except Exception as error:  # each will meet it alone
        logger.debug("%d jobs look up alone what they need: %s", len(works), one_line(error))
        clean_up()


def _look_of(handler_type: str) -> LookAhead | None:
    try:
        return getattr(find_handler(handler_type), "look_ahead", None)
    except Exception:  # of a resolver
        return None
