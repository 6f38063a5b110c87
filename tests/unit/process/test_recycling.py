"""Limits of a process: how they are written, and when they are reached."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobexec.clock import FrozenClock
from jobexec.exceptions import NodeRefused
from jobexec.executor.process import limits
from jobexec.executor.process.health_server import parse_port
from jobexec.executor.process.limits import (
    Limits,
    check_memory,
    parse_count,
    parse_duration,
    parse_size,
    reasons,
    resident_size,
    text_of,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_count, "1000", 1000),
        (parse_count, "0", None),
        (parse_duration, "90", timedelta(seconds=90)),
        (parse_duration, "1.5", timedelta(seconds=1.5)),
        (parse_duration, "PT6H", timedelta(hours=6)),
        (parse_duration, "P1DT1H", timedelta(hours=25)),
        (parse_duration, "0", None),
        (parse_size, "512M", 512 * 1024**2),
        (parse_size, "1.5G", 3 * 1024**3 // 2),
        (parse_size, "64 KiB", 65536),
        (parse_size, "100mb", 100 * 1024**2),
        (parse_size, "1073741824", 1024**3),
        (parse_size, "0", None),
        (parse_port, "0", 0),
        (parse_port, "65535", 65535),
    ],
)
def test_what_can_be_written(parse, text, value):
    assert parse(text) == value


@pytest.mark.parametrize("parse", [parse_count, parse_duration, parse_size, parse_port])
@pytest.mark.parametrize("text", ["", " ", "-1", "many", "nan", "inf", "1e400", "P1M", "PT", "5X", "1 2"])
def test_what_cannot_says_what_was_expected(parse, text):
    with pytest.raises(ValueError, match=r"expected a .* got"):
        parse(text)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0"), (1023, "1023"), (512 * 1024**2, "512M"), (1.5 * 1024**3, "1.5G"), (2**52, "4096T")]
)
def test_sizes_for_people(size, text):
    assert text_of(size) == text


@pytest.fixture
def executor():
    return SimpleNamespace(pool=SimpleNamespace(done=0), restart_reason=None)


def said(found):
    return [text for text in (reason() for reason in found) if text]


def test_no_limit_is_never_reached_and_says_so(executor):
    assert not Limits()
    executor.pool.done = 10**9
    assert said(reasons(executor, Limits())) == []


def test_the_executor_may_have_a_reason_of_its_own(executor):
    found = reasons(executor, Limits())
    executor.restart_reason = "three threads are stuck"
    assert said(found) == ["three threads are stuck"]


def test_jobs_with_up_to_a_tenth_more(executor, monkeypatch):
    monkeypatch.setattr(limits.random, "randint", lambda low, high: (high, low)[low])
    found = reasons(executor, Limits(jobs=100))
    executor.pool.done = 109
    assert said(found) == []
    executor.pool.done = 110
    assert said(found) == ["110 jobs are done (--max-jobs)"]
    assert Limits(jobs=1)


def test_a_small_number_of_jobs_is_exact(executor):
    executor.pool.done = 9
    assert said(reasons(executor, Limits(jobs=9)))


def test_lifetime_with_up_to_a_tenth_more(executor, monkeypatch):
    monkeypatch.setattr(limits.random, "random", lambda: 0.5)
    with FrozenClock() as clock:
        found = reasons(executor, Limits(lifetime=timedelta(hours=1)))
        clock.tick(3779)
        assert said(found) == []
        clock.tick(2)
        assert said(found) == ["it has run for 3780 s (--max-lifetime)"]


def test_memory_counts_after_the_first_job(executor, monkeypatch):
    monkeypatch.setattr(limits, "resident_size", lambda: 600 * 1024**2)
    found = reasons(executor, Limits(rss=512 * 1024**2))
    assert said(found) == [], "a fresh process would be no smaller"
    executor.pool.done = 1
    assert said(found) == ["it uses 600M of memory (--max-rss)"]
    assert said(reasons(executor, Limits(rss=601 * 1024**2))) == []


def test_the_memory_of_this_process_grows_with_what_it_holds():
    before = resident_size()
    held = bytearray(b"x") * (50 * 1024**2)
    assert before + len(held) // 2 < resident_size() < before + 10 * len(held)


def test_without_proc_the_greatest_size_counts(monkeypatch):
    now = resident_size()

    def absent(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", absent)
    assert resident_size() > now / 2


def test_a_limit_that_cannot_be_kept_is_refused(monkeypatch):
    check_memory(None)
    check_memory(2**60)
    with pytest.raises(NodeRefused, match=r"^--max-rss 1M: a process of this project uses .*M before its first job"):
        check_memory(1024**2)
    monkeypatch.setitem(__import__("sys").modules, "resource", None)
    with pytest.raises(NodeRefused, match=r"^--max-rss: this platform does not report how much memory"):
        check_memory(2**60)
