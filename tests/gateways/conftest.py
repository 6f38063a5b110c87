"""What all tests of the gateways need."""

from collections.abc import Iterator

import pytest

from jobexec.gateways import hub


@pytest.fixture(autouse=True)
def no_hub_is_left() -> Iterator[None]:
    """A hub that a test leaves behind would watch a database that is being emptied."""
    yield
    hub.close_all()
