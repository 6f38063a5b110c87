"""The test bed. A test that names the argument `alias` runs once on every database that is covered:

    def test_counts(alias):                     # rolled back afterwards
        assert Job.objects.using(alias).count() == 0

    @pytest.mark.transactional                  # commits; threads and other connections see its rows
    @pytest.mark.databases("postgresql")        # only here
    def test_skips_locked_rows(alias): ...

The ids are sqlite, postgresql and mariadb, so that `pytest -k postgresql` selects.
Fixtures may use `alias`, too.
"""

import signal
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest

from jobexec import clock, job
from jobexec.handlers import registry
from tests.support import databases

NAMES = ("sqlite", "postgresql", "mariadb")
SIGNALS = (signal.SIGTERM, signal.SIGINT)

# A busy machine is no failure.
hypothesis.settings.register_profile("jobexec", deadline=None)
hypothesis.settings.load_profile("jobexec")


def pytest_configure() -> None:
    # A terminated run ends as an interrupted one does: it drops its databases and stops its server. A shell lets what
    # it starts in the background ignore Ctrl-C; the tests are about the usual case.
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "nightly" not in config.option.markexpr:
        for item in items:
            if item.get_closest_marker("nightly"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: pytest -m nightly"))


def pytest_report_header() -> list[str]:
    return databases.report()


@pytest.fixture
def alias(request: pytest.FixtureRequest) -> str:
    """The alias of one covered database, to which the test has access."""
    return str(request.param)


@pytest.fixture
def handle() -> Iterator[Callable[..., Any]]:
    """A function that makes a function a handler until the test ends: `handle(function, **options)`."""
    with registry.isolated():

        def register(function: Callable[..., Any], name: str | None = None, **options: Any) -> Any:
            return job(name=name or f"tests.{function.__name__}", **options)(function)

        yield register


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "alias" in metafunc.fixturenames:
        metafunc.parametrize("alias", list(_parameters(metafunc.definition)), indirect=True)


def _parameters(test: pytest.Item) -> Iterator[Any]:
    marker = test.get_closest_marker("databases")
    transaction = test.get_closest_marker("transactional") is not None
    for name in marker.args if marker else NAMES:
        if name in databases.covered:
            alias = databases.covered[name].alias
            access = pytest.mark.django_db(databases=[alias], transaction=transaction)
            yield pytest.param(alias, marks=access, id=name)
        elif marker:
            # A test for one database says that it did not run; that the others did not run says the header.
            yield pytest.param(None, marks=pytest.mark.skip(reason=databases.missing[name]), id=name)


@pytest.fixture(autouse=True)
def signals_are_handled_as_before() -> Iterator[None]:
    """A command that is called in this process, and not as a process of its own, leaves its handlers behind."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def no_frozen_clock_is_left() -> Iterator[None]:
    """A frozen clock that a test leaves behind would stop the loops of all that follow."""
    yield
    left, clock._frozen = clock._frozen, None
    assert left is None, "The test left the clock frozen."


@pytest.fixture(scope="session", autouse=True)
def no_gateway_writes_behind_the_back_of_a_test() -> None:
    """What gateways have seen is written when a test says so, and not by a thread that outlives it."""
    from jobexec.gateways.seen import writing

    writing.starts_by_itself = False
