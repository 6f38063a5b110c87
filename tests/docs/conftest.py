"""The examples of the documentation as modules, known only while their tests run."""

import sys
from collections.abc import Callable, Iterator
from datetime import date
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from django import VERSION

from demo_project.bookings.models import Booking
from jobexec.executor.execute_now import execute_now
from jobexec.handlers import registry
from jobexec.models import Job


@pytest.fixture(autouse=True)
def mailers(settings: Any) -> None:
    """Django 6.1 wants a mailer to be named."""
    settings.MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
    settings.ADMINS = ["admin@example.org"] if VERSION >= (6, 0) else [("Admin", "admin@example.org")]


@pytest.fixture
def example(request: Any) -> Iterator[ModuleType]:
    """The module of docs/examples that the test's module names in EXAMPLE. Its jobs are forgotten afterwards."""
    name = f"docs.examples.{request.module.EXAMPLE}"
    with registry.isolated():
        yield import_module(name)
    del sys.modules[name]


@pytest.fixture
def booking(db: None) -> Booking:
    """A trip to Rome, requested and without tickets."""
    return Booking.objects.create(
        visitor="Ada Byron",
        email="ada@example.org",
        city="Rome",
        arrival=date(2027, 5, 7),
        departure=date(2027, 5, 10),
    )


@pytest.fixture
def run_due(db: None) -> Callable[[], list[str]]:
    """A function that runs all jobs that are due, and those that they enqueue; returns the handlers in order."""

    def run() -> list[str]:
        names = []
        while job := Job.objects.order_by("rank", "id").first():
            names.append(job.handler_type.rpartition(".")[2])
            execute_now(job.pk)
        return names

    return run
