"""An executor warns of types of job for which no worker comes."""

from datetime import timedelta

import pytest

from jobexec.executor.loops.external_alert import ExternalAlert
from jobexec.executor.loops.recovery import Recovery
from jobexec.models import ExternalWorker, ExternalWorkerJob
from jobexec.operations.values.ranking import rank
from tests.support.factories import make_row

from .test_loops import frozen, node  # noqa: F401 (fixtures)

MINUTE = timedelta(minutes=1)


@pytest.fixture
def alert(node):  # noqa: F811
    return ExternalAlert(node)


def told(caplog):
    return [record.getMessage() for record in caplog.records if "no worker polls" in record.getMessage()]


def waiting(alias, clock, type="payment"):
    return make_row(ExternalWorkerJob, alias, handler_type=type, rank=rank(alias, clock.now, 0))


def test_a_type_makes_no_line_of_its_own(alias, alert, frozen, caplog):  # noqa: F811
    waiting(alias, frozen, "a\nCRITICAL root: nothing" + "x" * 200)
    frozen.tick(5 * MINUTE)
    alert.look()
    (line,) = told(caplog)
    assert line.startswith("Jobs of type a\\nCRITICAL root: nothingxxx") and "\n" not in line


def test_a_type_is_told_once(alias, alert, frozen, caplog):  # noqa: F811
    waiting(alias, frozen)
    since = frozen.now
    alert.look()
    assert told(caplog) == []
    frozen.tick(5 * MINUTE)
    alert.look()
    (line,) = told(caplog)
    assert line.startswith(f"Jobs of type payment on {alias} have waited since {since.isoformat(timespec='seconds')}")
    for _ in range(3):
        frozen.tick(5 * MINUTE)
        alert.look()
    assert len(told(caplog)) == 1


def test_it_is_told_again_when_a_worker_has_come_and_gone(alias, alert, frozen, caplog):  # noqa: F811
    waiting(alias, frozen)
    frozen.tick(5 * MINUTE)
    alert.look()
    columns = {"gateway": "g", "protocol": "rest", "type": "payment"}
    ExternalWorker.objects.using(alias).create(**columns, last_seen=frozen.now + 4 * MINUTE)
    frozen.tick(5 * MINUTE)
    alert.look()
    assert len(told(caplog)) == 1
    frozen.tick(5 * MINUTE)
    alert.look()
    assert len(told(caplog)) == 2


def test_it_looks_seldom(alert, frozen, monkeypatch):  # noqa: F811
    looks = []
    monkeypatch.setattr("jobexec.executor.loops.external_alert.types_without_worker", lambda *_: looks.append(1) or [])
    for _ in range(20):
        alert.look()
        frozen.tick(MINUTE)
    assert len(looks) == 3


def test_recovery_takes_it_along(alias, node, frozen, caplog):  # noqa: F811
    loop = Recovery(node, lambda: None)
    waiting(alias, frozen)
    loop.run_once()
    frozen.tick(5 * MINUTE)
    loop.run_once()
    assert len(told(caplog)) == 1
