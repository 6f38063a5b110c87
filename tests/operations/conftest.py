"""What the tests of the verbs share: every covered database is an engine, and time stands still."""

from datetime import UTC, datetime

import pytest
from django.db import connections

from jobexec.clock import FrozenClock
from jobexec.operations.values.failure_log import failure_log


@pytest.fixture(autouse=True)
def configure(settings):
    """A function that changes JOBEXEC; `engine` holds keys for every engine."""

    def change(engine=None, **keys):
        settings.JOBEXEC = {"ENGINES": {name: dict(engine or {}) for name in connections}, **keys}

    change()
    return change


@pytest.fixture(autouse=True)
def frozen():
    """The clock, which only the test moves."""
    with FrozenClock(datetime(2026, 3, 1, 12, tzinfo=UTC)) as clock:
        yield clock


@pytest.fixture(autouse=True)
def own_log():
    """The process counts what it logs; the next test starts anew."""
    failure_log.forget()


@pytest.fixture
def small(configure):
    """Batches in pieces of two jobs, two of them for each seed."""
    configure(INVOCATIONS_PER_BATCH_JOB=2, BATCH_JOBS_PER_SEED=2)
