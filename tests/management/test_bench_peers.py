"""`python -m demo_project.benchmarks.peers`: jobexec beside other task queues. No figure is judged here."""

from urllib.parse import quote

import pytest
from django.db import connections

from demo_project.benchmarks.peers import __main__ as peers
from demo_project.benchmarks.peers import work

BY_NAME = {each.name: each for each in peers.CONTENDERS}


def test_the_table_has_medians_and_a_dash_for_what_was_not_measured():
    results: peers.Results = {
        "jobexec": {("drain", "rate"): [1000.4, 3000.0, 2000.0], ("latency", "p50"): [1.234]},
        "another": {},
    }
    assert list(peers.table(results)) == [
        "            enqueue/s     drain/s     20 ms/s      p50 ms      p99 ms",
        "jobexec             -       2,000           -        1.23           -",
        "another             -           -           -           -           -",
    ]


def test_a_journal_has_a_line_of_one_length_for_each_job(tmp_path, monkeypatch):
    journal = tmp_path / "journal"
    assert (work.lines(journal), work.times(journal)) == (0, [])
    monkeypatch.setenv("PEERS_JOURNAL", str(journal))
    work._journal.cache_clear()
    try:
        for _ in range(3):
            work.write()
    finally:
        work._journal.cache_clear()
    assert work.lines(journal) == 3
    assert len(set(work.times(journal))) == 3


def test_each_contender_has_what_the_table_tells_of():
    """Those that are not installed are left out by the command."""
    for each in peers.CONTENDERS:
        source = (peers.ROOT / "demo_project/benchmarks/peers" / f"{each.module}.py").read_text()
        for name in (
            "PACKAGES = ",
            "SETTINGS = ",
            "def prepare(",
            "def enqueue_one(",
            "def enqueue_many(",
            "def worker(",
        ):
            assert name in source, (each.name, name)


@pytest.fixture
def empty_database(alias):
    """The address of a database of its own: contenders make tables."""
    place = connections[alias].settings_dict
    name = f"{place['NAME']}_peers"
    with connections[alias].cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')
    user, password = quote(place["USER"]), quote(place["PASSWORD"])
    yield f"postgresql://{user}:{password}@/{name}?host={quote(place['HOST'])}&port={place['PORT']}"
    with connections[alias].cursor() as cursor:
        cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.mark.slow
@pytest.mark.transactional
@pytest.mark.databases("postgresql")
@pytest.mark.parametrize(
    ("name", "case"),
    [("jobexec", "enqueue"), ("jobexec", "wait"), ("jobexec", "latency"), ("django-tasks-db", "drain")],
)
@pytest.mark.nightly
def test_it_is_measured(empty_database, name, case):
    found = peers.measure(BY_NAME[name], case, 20, {"PEERS_DATABASE": empty_database, "PEERS_THREADS": "2"})
    assert all(found[figure] > 0 for of, figure in peers.COLUMNS if of == case)
    assert found["settings"]
    assert found["packages"][0] == name
