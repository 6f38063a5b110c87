"""What the tests of ``manage.py jobs`` share."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections

from jobexec.clock import FrozenClock

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def engines(settings: Any) -> None:
    """Every database is an engine."""
    settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}}


@pytest.fixture
def frozen() -> Iterator[FrozenClock]:
    """It is noon, for as long as the test does not say otherwise."""
    with FrozenClock(NOW) as frozen:
        yield frozen
