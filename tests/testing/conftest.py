"""What the tests of the test kit share: every covered database is an engine, and an executor that the test drives."""

from datetime import UTC, datetime

import pytest
from django.db import connections

from jobexec import clock, job
from jobexec.handlers import registry
from jobexec.testing import ManualExecutor, controlled_clock


@pytest.fixture(autouse=True)
def configure(settings):
    """A function that changes JOBEXEC; `engine` holds keys for every engine."""

    def change(engine=None, **keys):
        settings.JOBEXEC = {"ENGINES": {name: dict(engine or {}) for name in connections}, **keys}

    change()
    return change


@pytest.fixture(autouse=True)
def own_time():
    yield
    clock.forget()


@pytest.fixture
def handle():
    """A function that makes a function a handler until the test ends: `handle(function, **options)`."""
    with registry.isolated():

        def register(function, name=None, **options):
            return job(name=name or f"shop.{function.__name__}", **options)(function)

        yield register


@pytest.fixture
def shop(handle, alias):
    """Jobs of a shop, and what they have done: `shop.send(5)`, `shop.done`."""

    class Shop:
        done: list = []

    made = Shop()
    made.done = []

    def send(order):
        made.done.append(order)
        return f"sent {order}"

    def break_(order):
        raise ValueError(f"no {order}")

    made.send = handle(send, database=alias)
    made.breaks = handle(break_, database=alias, retries="R2/PT5M")
    return made


@pytest.fixture
def executor(alias):
    return ManualExecutor(alias)


@pytest.fixture
def frozen_at_noon():
    """The clock, which only the test moves."""
    with controlled_clock(datetime(2026, 3, 1, 12, tzinfo=UTC)) as clock:
        yield clock
