"""Real threads and connections; what they wrote is committed."""

import pytest
from django.db import connections

from jobexec import clock


@pytest.fixture(autouse=True)
def configure(settings):
    settings.JOBEXEC = {"ENGINES": {name: {"NOTIFY": False} for name in connections}}
    yield
    clock.forget()  # registering a node sets the clock by the database
