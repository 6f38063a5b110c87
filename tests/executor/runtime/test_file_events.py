"""The system tells of writes to files."""

import ctypes
import os
import sys
import threading

import pytest

from jobexec.runtime.file_events import FileEvents

NAMES = frozenset(["shop.sqlite3", "shop.sqlite3-wal"])
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of writes to files so")


@pytest.fixture
def events(tmp_path):
    made = FileEvents(tmp_path, NAMES)
    yield made
    made.close()


@pytest.fixture
def closed(monkeypatch):
    """The descriptors that it has closed. (Another thread may get the number of one at once.)"""
    found, close, ours = [], os.close, threading.get_ident()

    def note(descriptor):
        if threading.get_ident() == ours:
            found.append(descriptor)
        close(descriptor)

    monkeypatch.setattr(os, "close", note)
    return found


@linux
@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_file_is_made_written_to_replaced_and_removed(events, tmp_path, name):
    file, other = tmp_path / name, tmp_path / "other"
    assert not events.take()
    file.touch()
    assert (events.take(), events.take()) == (True, False)
    with file.open("ab", buffering=0) as writer:
        writer.write(b"x")
        assert events.take()
    other.touch()
    other.rename(file)
    assert (events.take(), events.take()) == (True, False)
    file.unlink()
    assert events.take()


@linux
def test_other_files_are_none_of_its_business(events, tmp_path):
    for name in ("shop.log", "shop.sqlite3-shm", "shop", "shop.sqlite3-wal2"):
        (tmp_path / name).write_text("x")
    assert not events.take()


@linux
def test_of_very_many_writes_none_is_lost(events, tmp_path):
    """However many there are of another file before it, and also if the system has forgotten which there were."""
    for number in range(3_000):
        (tmp_path / f"{number}").touch()
    (tmp_path / "shop.sqlite3").touch()
    assert (events.take(), events.take()) == (True, False)
    no_file, mask = (-1).to_bytes(4, sys.byteorder, signed=True), (0x4000).to_bytes(4, sys.byteorder)
    assert events._concerns(no_file + mask + bytes(8))


@linux
def test_after_its_end_no_descriptor_is_left(tmp_path, closed):
    events = FileEvents(tmp_path, NAMES)
    descriptor = events.fileno()
    del events
    assert closed == [descriptor]


@linux
def test_a_folder_that_is_not_there(tmp_path, closed):
    with pytest.raises(FileNotFoundError, match="inotify_add_watch"):
        FileEvents(tmp_path / "nowhere", NAMES)
    assert len(closed) == 1


@pytest.mark.parametrize("error", [TypeError, OSError, AttributeError])
def test_a_system_without_it(tmp_path, monkeypatch, error):
    def refuse(*arguments, **options):
        raise error("no")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    with pytest.raises(OSError, match="does not tell"):
        FileEvents(tmp_path, NAMES)
