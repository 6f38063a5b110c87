"""`manage.py jobs stats` and one look of `top`."""

import sys
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import uuid4

import pytest
from django.core.management.color import no_style
from django.db import DatabaseError, connections

from jobexec import clock
from jobexec.management.jobs.output.screen import Screen
from jobexec.management.jobs.stats import top
from jobexec.management.jobs.stats.as_text import fitted, number
from jobexec.models import JOB_TABLES, DeadLetterJob, ExecutorNode, FailureGroup, Job, MeterLog, TimerJob
from jobexec.operations import suspend
from jobexec.operations.batches.control import start_batch
from jobexec.operations.overview import overview
from jobexec.operations.reports.counts import CappedCount
from jobexec.operations.reports.meters import JOB_FAILED, JOB_SUCCESSFUL
from tests.support.factories import make_node, make_row
from tests.support.jobs_command import jobs, objects

pytestmark = pytest.mark.usefixtures("engines", "frozen")

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def busy(alias):
    """An engine of which there is something to say."""
    make_node(alias, "berlin")
    load = {"threads": 10, "busy_threads": 4, "queued_jobs": 1234, "queue_size": 3000, "stuck_threads": 1}
    ExecutorNode.objects.using(alias).update(**load)
    for table in JOB_TABLES:
        due = {"due_date": NOW + timedelta(hours=1), "rank": int(NOW.timestamp() * 1000)}
        make_row(table, alias, handler_type="shop.ship", **due)
    make_row(TimerJob, alias, attempts=1)
    suspend(using=alias, tenant_id="acme", until=NOW + timedelta(days=1))
    suspend(using=alias, tenant_id="other", at=NOW + timedelta(days=1))
    group = {"handler_type": "shop.pay", "exception": "ValueError", "message": "ValueError: no", "count": 1234}
    FailureGroup(fingerprint="f-1", first_time=NOW, last_time=NOW, **group).save(using=alias)
    make_row(DeadLetterJob, alias, fingerprint="f-1")
    for name, value in ((JOB_SUCCESSFUL, 12345), (JOB_FAILED, 7)):
        row = MeterLog(name=name, timestamp=NOW - timedelta(minutes=5), value=value, reporter="berlin")
        row.save(using=alias)
    return start_batch("requeue", DeadLetterJob.objects.using(alias), using=alias)


def test_for_people(alias, busy, monkeypatch):
    code, text = jobs("stats", alias=alias)
    lines = text.splitlines()
    assert code == 0
    assert lines[0] == f"Engine {alias} on 03/01/2026 12:00:00 UTC"
    assert lines[1] == "! 1 thread of berlin is stuck: its job is still running after its timeout."
    counts = dict(zip(_cells(lines, "free"), _cells(lines, "free", 1), strict=True))
    assert counts["free"] == "2" and counts["timers"] == "1" and counts["retries"] == "1" and counts["dead"] == "2"
    assert sum(int(count) for count in list(counts.values())[:-1]) == len(JOB_TABLES) + 3, "every job is in one of them"
    assert _cells(lines, "done", 1)[:2] == ["12,345", "7"]
    assert _cells(lines, "node", 1)[:5] == ["berlin", "active", "4/10", "1234/3000", "1"]
    assert "in 1 h  shop.ship" in text
    assert "tenant  acme" in text and "tenant  other" in text
    assert str(busy.pk) in text and "requeue" in text
    assert _cells(lines, "failures", 1)[:2] == ["1,234", "1"] and "f-1" in text
    assert _cells(lines, "failures")[-3:] == ["group", "message", "fingerprint"]
    assert _cells(lines, "failures", 1)[-3:] == ["pay: ValueError", "ValueError: no", "f-1"]


def _cells(lines, first, below=0):
    """The cells of the table whose head begins so, or of a line below it."""
    at = next(at for at, line in enumerate(lines) if line.strip().startswith(f"{first} "))
    return [cell.strip() for cell in lines[at + below].strip().split("  ") if cell.strip()]


@pytest.mark.gate
@pytest.mark.parametrize("width", [80, 120])
def test_fits_the_terminal(alias, busy, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    _, text = jobs("stats", alias=alias, terminal=True)
    plain = _without_colours(text).splitlines()
    assert max(map(len, plain)) <= width
    (title,) = [line for line in plain if line.startswith("Jobs")]
    assert ("incidents" in title) is (width == 80), "what has no room is named"


def _without_colours(text):
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_for_programs(alias, busy):
    code, (told,) = objects("stats", "--period", "2h", alias=alias)
    assert code == 0
    assert (told["database"], told["now"], told["period"]) == (alias, NOW.isoformat(), 7200.0)
    assert told["counts"]["dead_letters"] == 2 and told["counts"]["at_least"] == []
    assert [problem["code"] for problem in told["problems"]] == ["stuck"]
    (node,) = told["nodes"]
    assert (node["name"], node["busy_threads"], node["lease_left"], node["lease_good"]) == ("berlin", 4, 30.0, True)
    assert [each["value"] for each in (*told["suspensions"], *told["planned"])] == ["acme", "other"]
    assert told["suspensions"][0]["columns"] == {"tenant_id": "acme"}
    (batch,) = told["batches"]
    assert (batch["id"], batch["type"], batch["total"]) == (str(busy.pk), "requeue", 0)
    (group,) = told["failure_groups"]
    assert (group["fingerprint"], group["count"], group["dead_letters"]) == ("f-1", 1234, 1)
    assert (told["traffic"]["all_succeeded"], told["traffic"]["all_failed"]) == (12345, 7)


def test_an_empty_engine(alias):
    code, text = jobs("stats", alias=alias)
    assert code == 0 and "No executor is running" in text and "Nodes" not in text
    assert objects("stats", alias=alias)[1][0]["nodes"] == []


@pytest.mark.gate
def test_top_without_a_terminal_or_once(alias, busy):
    for arguments, terminal in (([], False), (["--once"], True)):
        code, text = jobs("top", *arguments, alias=alias, terminal=terminal)
        assert code == 0 and _without_colours(text).startswith(f"Engine {alias} on ") and "\x1b[?" not in text
    assert objects("top", alias=alias)[1][0]["database"] == alias


@pytest.mark.parametrize(("most", "count", "at_least"), [(2, 2, ["count", "retries"]), (3, 3, [])])
def test_timers_that_are_not_read_are_not_hidden(alias, monkeypatch, most, count, at_least):
    monkeypatch.setattr(sys.modules[overview.__module__], "TIMERS_READ", most)
    for _ in range(3):
        make_row(TimerJob, alias, due_date=NOW + timedelta(hours=1))
    ((found,),) = (told["timers"] for told in objects("stats", alias=alias)[1])
    assert (found["count"], found["retries"], found["at_least"]) == (count, 0, at_least)


def test_top_asks_nothing_while_it_is_paused(monkeypatch):
    asked, drawn = [], []
    monkeypatch.setattr(top, "_lines", lambda *arguments: asked.append(1) or [f"look {len(asked)}"])
    pressed = iter(["", "p", "", "", "p", "q"])
    keyboard = SimpleNamespace(wait=lambda seconds: next(pressed))
    top._refresh(None, timedelta(seconds=1), Screen(80, no_style(), "default"), drawn.append, keyboard)
    assert [(page[0], page[-1]) for page in drawn] == [
        ("look 1", "q quits, p pauses"),
        ("look 2", "q quits, p pauses"),
        ("look 2", "paused: q quits, p resumes"),
        ("look 3", "q quits, p pauses"),
    ]


def test_top_says_that_the_database_is_away_and_goes_on(alias, monkeypatch):

    def away(*arguments, **options):
        raise DatabaseError("gone\x1b[2J")

    monkeypatch.setattr(connections[alias], "close", lambda: None)
    found = top._lines(away, Screen(None, no_style(), alias), 20)
    assert found == ["The database does not answer: gone [2J"]


@pytest.mark.parametrize(("width", "height"), [(80, 22), (120, 38), (80, 8)])
def test_top_shows_what_runs_and_what_each_handler_does_in_any_height(alias, busy, width, height):
    given = {"kwargs": {"order_id": 17, "card_password": "hush"}}
    columns = {"handler_type": "shop.pay", "handler_configuration": given, "lock_expiration_time": NOW}
    make_row(Job, alias, lock_owner="berlin:1", **columns)
    for each in range(30):
        row = MeterLog(name=JOB_SUCCESSFUL, key=f"shop.{each}", timestamp=NOW - timedelta(minutes=1), value=10)
        row.save(using=alias)
    seen = fitted(overview(alias), Screen(None, no_style(), alias, width=width), height)
    assert len(seen) <= height and max(map(len, seen)) <= width
    if height == 8:
        assert seen[-1].startswith("No room for: ")
        return
    (running,) = [line for line in seen if line.lstrip().startswith("5 min  pay(order_id=17, card_pass")]
    assert "berlin" in running and "hush" not in running
    assert any(line.split() == ["2.0", "10", "0", "shop.0"] for line in seen)
    title = next(line for line in seen if line.startswith("Handlers ("))
    assert title.endswith(" of 20)") and "30" not in title
    assert ("Next timers" in " ".join(seen)) and (seen[-1].startswith("No room for: ") == (height == 22))


def test_an_action_is_watched_until_a_key_ends_it(alias, monkeypatch):
    drawn = []
    pressed = iter(["", "q"])
    keyboard = nullcontext(SimpleNamespace(wait=lambda seconds: next(pressed)))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(top, "display", lambda screen: nullcontext(drawn.append))
    monkeypatch.setattr(top, "keys", lambda: keyboard)
    make_row(DeadLetterJob, alias)
    assert jobs("list", "--watch", "5", alias=alias, terminal=True) == (0, "")
    first, second = drawn
    assert first == second and len(first) == 3 and "dead letter" in first[1] and "q quits, p pauses" in first[2]


def test_an_action_is_watched_in_a_pipe(alias, monkeypatch):
    waited = []

    def wait(seconds):
        waited.append(seconds)
        if len(waited) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(top.time, "sleep", wait)
    missing = str(uuid4())
    make_node(alias, "berlin")
    code, told = objects("nodes", "--watch", alias=alias)
    assert code == 0 and [each["name"] for each in told] == ["berlin", "berlin"] and waited == [2.0, 2.0]
    waited.clear()
    for action in (["show", missing], ["why", missing], ["incidents"], ["batches"], ["resource"]):
        waited.clear()
        assert jobs(*action, "--watch", alias=alias)[0] == 0 and waited == [2.0, 2.0], action
    waited.clear()
    assert jobs("batches", "show", missing, "--watch=3", alias=alias)[0] == 0 and waited == [3.0, 3.0]
    code, text = jobs("nodes", "--watch=1", "pause", "berlin", alias=alias)
    assert code == 2 and "--watch works only with actions that change nothing" in text


def test_jobexecs_own_handlers_have_one_name(alias):
    make_row(TimerJob, alias, handler_type="jobexec.alert", due_date=NOW + timedelta(hours=1))
    counted = {"name": JOB_SUCCESSFUL, "key": "jobexec.alert", "timestamp": NOW - timedelta(minutes=1), "value": 10}
    MeterLog(**counted).save(using=alias)
    lines = [" ".join(line.split()) for line in jobs("stats", alias=alias)[1].splitlines()]
    assert "2.0 10 0 jobexec's own" in lines
    assert [line for line in lines if line.startswith("in 1 h jobexec's own 1 ")]
    _, (told,) = objects("stats", alias=alias)
    assert [each["handler_type"] for part in ("timers", "handlers") for each in told[part]] == ["jobexec."] * 2


@pytest.mark.parametrize("period", ["", "x", "0s", "-1h"])
def test_a_bad_period_is_usage(alias, period, capsys):
    with pytest.raises(Exception, match="expected a duration"):
        jobs("stats", f"--period={period}", alias=alias)


def test_numbers_of_which_counting_ended():
    assert (number(1234567), number(CappedCount.upto(10_001))) == ("1,234,567", "10,000+")
    estimated = CappedCount.upto(10_001)
    estimated.estimate = 146_239
    assert number(estimated) == "≈146,000"
    assert clock.now() == NOW
