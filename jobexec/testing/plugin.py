"""The pytest plugin: fixtures for projects that use jobexec.

Loading it imports nothing of Django, no model, and touches no database; only a fixture used by a test does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .clocks import ControlledClock
    from .executor import ManualExecutor

_MARKER = (
    "jobexec(using='default', categories=None, reraise=True, max_jobs=1000): arguments of the ManualExecutor in the "
    "fixtures jobexec_executor and jobexec_immediate; missing ones come from the options in the ini file"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("jobexec_using", "database of the fixtures jobexec_executor and jobexec_immediate", default="default")
    parser.addini("jobexec_max_jobs", "the most jobs that may run until the queue is empty", default="1000")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def jobexec_executor(request: pytest.FixtureRequest, db: None) -> ManualExecutor:
    """A ManualExecutor, with the assertions: its ``run_until_empty()``, ``assert_enqueued(...)`` and so on."""
    from .executor import ManualExecutor

    config = request.config
    options = {"using": config.getini("jobexec_using"), "max_jobs": int(config.getini("jobexec_max_jobs"))}
    for marker in reversed(list(request.node.iter_markers("jobexec"))):
        options |= marker.kwargs
    return ManualExecutor(**options)


@pytest.fixture(name="jobexec")
def _jobexec(jobexec_executor: ManualExecutor) -> ManualExecutor:
    """The fixture ``jobexec_executor`` under a shorter name, which hides the module of that name in a test."""
    return jobexec_executor


@pytest.fixture
def jobexec_immediate(jobexec_executor: ManualExecutor) -> Iterator[ManualExecutor]:
    """Run jobs enqueued in the test at once; the same executor as that of the fixture ``jobexec_executor``."""
    with jobexec_executor.immediate() as executor:
        yield executor


@pytest.fixture
def jobexec_clock() -> Iterator[ControlledClock]:
    """jobexec's time is stopped during the test; ``jobexec_clock.advance(...)`` moves it."""
    from .clocks import controlled_clock

    with controlled_clock() as clock:
        yield clock
