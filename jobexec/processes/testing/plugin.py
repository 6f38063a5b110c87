"""The pytest plugin: a fixture for projects that use processes. Loading it imports nothing of Django."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from jobexec.testing import ManualExecutor

    from ..models import ProcessDefinition


@pytest.fixture
def jobexec_process(jobexec_executor: ManualExecutor) -> Iterator[Callable[..., list[ProcessDefinition]]]:
    """Deploy BPMN for the rest of the test: ``jobexec_process(xml, services={...})`` on the executor's database.

    Everything else is that of the function ``process`` in :mod:`jobexec.processes.testing`.
    """
    from . import process

    with ExitStack() as stack:

        def deployed(*files: Any, **options: Any) -> list[ProcessDefinition]:
            return stack.enter_context(process(*files, **{"using": jobexec_executor.using, **options}))

        yield deployed
