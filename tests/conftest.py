"""The test bed. A test with the argument `alias` uses one database, PostgreSQL if it is available:

    def test_counts(alias):                     # rolled back afterwards
        assert Job.objects.using(alias).count() == 0

    @pytest.mark.every_database                 # once on each database of the tier: for raw SQL, locks, time
    @pytest.mark.transactional                  # commits; threads and other connections see its rows
    @pytest.mark.databases("postgresql")        # only on this database
    @pytest.mark.gate                           # not in the quick tier
    def test_skips_locked_rows(alias): ...

The ids are sqlite, postgresql and mariadb, so that `pytest -k postgresql` selects.
Fixtures may use `alias` too. The tiers are in `tests/support/suite/tiers.py`.
"""

import ast
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis.internal.conjecture import engine

from jobexec import job
from jobexec.handlers import registry
from tests.support.suite import budget, databases, order, run, templates, tiers

pytest_plugins = ["tests.support.suite.leaks"]

SIGNALS = (signal.SIGTERM, signal.SIGINT)
REQUESTED = pytest.StashKey[frozenset[Path]]()
STRATEGIES = ("skip_locked", "optimistic", "global_lock")

# A busy machine is no failure. A failure must be reported before the test's timeout: while Hypothesis shrinks an
# example it traces each line, for up to five minutes unless limited, and has no setting for that.
hypothesis.settings.register_profile(
    "jobexec",
    deadline=None,
    derandomize=not tiers.current().explores,
    phases=[phase for phase in hypothesis.Phase if phase is not hypothesis.Phase.explain],
)
hypothesis.settings.load_profile("jobexec")
engine.MAX_SHRINKING_SECONDS = 30


if sys.version_info < (3, 12, 3):
    # "AST constructor recursion depth mismatch": two threads must not parse at once, be it that pytest rewrites a
    # module which the one imports, or that the other formats an exception.
    parsing, parse = threading.RLock(), ast.parse

    def parse_in_turn(*args: Any, **options: Any) -> Any:
        with parsing:
            return parse(*args, **options)

    ast.parse = parse_in_turn


def pytest_configure(config: pytest.Config) -> None:
    # A terminated run ends like an interrupted one: it drops its databases and stops its server. A shell makes
    # background processes ignore Ctrl-C; the tests cover the usual case.
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)
    config.stash[REQUESTED] = tiers.files(config.args)
    if hasattr(config, "workerinput"):
        order.read_in_turn(config)
    elif budget.is_whole(config):
        config.pluginmanager.register(budget.Budget(config))


def pytest_unconfigure() -> None:
    if run.is_ours():
        templates.drop_templates()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    items.sort(key=lambda item: str(item.path))  # the processes read the files in different orders
    tier, requested = tiers.current(), config.stash[REQUESTED]
    left = order.leave(items, lambda item: tier.runs(item, requested))
    config.hook.pytest_deselected(items=left)
    if hasattr(config, "workeroutput"):
        config.workeroutput["left"] = len(left)
    yield  # to pytest-randomly
    order.slow_first(items)


def pytest_collection_finish() -> None:
    # As `runjobexecutor` does. Otherwise each collection goes through all tests and modules: a tenth of the CPU time.
    gc.collect()
    gc.freeze()


def pytest_report_header() -> list[str]:
    return databases.report()


@pytest.fixture(scope="session")
def django_db_setup(
    request: pytest.FixtureRequest, django_test_environment: None, django_db_blocker: Any
) -> Iterator[None]:
    """Replace pytest-django's fixture: one process of the run migrates, the others copy."""
    wanted = databases.used_by(request.session.items)
    with django_db_blocker.unblock():
        for alias in wanted:
            templates.create(alias)
    yield
    with django_db_blocker.unblock():
        for alias in wanted:
            templates.drop(alias)


@pytest.fixture
def alias(request: pytest.FixtureRequest) -> str:
    """The alias of a covered database to which the test has access."""
    if request.node.get_closest_marker("portable"):
        from jobexec.operations.sql import dialect, portable

        request.getfixturevalue("monkeypatch").setitem(dialect._DIALECTS, "postgresql", portable.Dialect())
    return str(request.param)


@pytest.fixture
def strategy(request: pytest.FixtureRequest) -> str:
    """Each acquisition strategy."""
    return str(request.param)


@pytest.fixture
def handle() -> Iterator[Callable[..., Any]]:
    """Register a function as a handler until the test ends: `handle(function, **options)`."""
    with registry.isolated():

        def register(function: Callable[..., Any], name: str | None = None, **options: Any) -> Any:
            return job(name=name or f"tests.{function.__name__}", **options)(function)

        yield register


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "alias" not in metafunc.fixturenames:
        return
    parameters = list(_parameters(metafunc.definition))
    named = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "strategy" in metafunc.fixturenames and not any("strategy" in names for names in named):
        ways = [
            pytest.param(*parameter.values, way, marks=parameter.marks, id=f"{parameter.id}-{way}")
            for parameter in parameters
            for way in STRATEGIES
            if (parameter.id, way) != ("sqlite", "skip_locked")  # SQLite has no SKIP LOCKED and uses the next one
        ]
        metafunc.parametrize(("alias", "strategy"), ways, indirect=True)
    else:
        metafunc.parametrize("alias", parameters, indirect=True)


def _parameters(test: pytest.Item) -> Iterator[Any]:
    only = test.get_closest_marker("databases")
    transaction = test.get_closest_marker("transactional") is not None
    possible = [name for name in (only.args if only else tiers.NAMES) if name in databases.covered]
    for name in tiers.current().forms_for(test, possible, every=only is not None):
        alias = databases.covered["postgresql" if name == tiers.PORTABLE else name].alias
        marks = [pytest.mark.django_db(databases=[alias], transaction=transaction)]
        marks += [pytest.mark.portable] if name == tiers.PORTABLE else []
        yield pytest.param(alias, marks=marks, id=name)
    # A test for one database reports that it did not run; for the others the header reports it.
    for name in only.args if only else ():
        if name in possible:
            continue
        if name in tiers.current().databases and not tiers.NAMED:
            yield pytest.param(None, marks=pytest.mark.skip(reason=databases.missing[name]), id=name)
        elif not possible:
            skip = pytest.mark.skip(reason=databases.missing.get(name, "no such database here"))
            yield pytest.param(None, marks=[pytest.mark.gate, skip], id=name)


@pytest.fixture(scope="session", autouse=True)
def no_gateway_writes_behind_the_back_of_a_test() -> None:
    """Make tests write what gateways have seen explicitly, instead of a thread that outlives the test."""
    from jobexec.gateways.worker_registry import writing

    writing.starts_by_itself = False
