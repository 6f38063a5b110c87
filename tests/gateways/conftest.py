"""What all tests of the gateways need."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.db.models import JSONField

from jobexec.gateways import long_polling
from jobexec.gateways.auth import limits
from tests.gateways.v2 import URLS, V2


@pytest.fixture(autouse=True)
def no_hub_is_left() -> Iterator[None]:
    """A hub that a test leaves behind would watch a database that is being emptied."""
    yield
    long_polling.close_all()


@pytest.fixture
def no_refill(monkeypatch: pytest.MonkeyPatch) -> None:
    """No allowance fills again while the test runs, however slow the machine is."""
    monkeypatch.setattr(limits, "clock", SimpleNamespace(monotonic=lambda: 1000.0))
    monkeypatch.setattr(limits.buckets, "_levels", {})


@pytest.fixture
def read_json(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the JSON columns that are read from rows, one for each row."""
    read: list[str] = []
    original = JSONField.from_db_value

    def from_db_value(field: Any, value: Any, expression: Any, connection: Any) -> Any:
        if field.name:  # not a value within a column
            read.append(field.name)
        return original(field, value, expression, connection)

    monkeypatch.setattr(JSONField, "from_db_value", from_db_value)
    return read


@pytest.fixture
def engine(alias: str, settings: Any) -> str:
    """The database of the test as the one that the gateways serve; returns its alias."""
    settings.JOBEXEC = {**settings.JOBEXEC, "ENGINES": {alias: {}}, "GATEWAY_DATABASE": alias}
    return alias


@pytest.fixture
def v2(engine: str, settings: Any) -> V2:
    """The API on the test's database, for everybody."""
    settings.JOBEXEC = {**settings.JOBEXEC, "GATEWAY_AUTH": "none", "HISTORY_LEVEL": "full"}
    settings.ROOT_URLCONF = URLS
    return V2()
