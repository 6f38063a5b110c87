"""Detects commits of other processes on SQLite, which sends no notifications."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.db import connections
from django.db.models import QuerySet

from jobexec.conf import EngineSettings
from jobexec.models import BlockedJob, HistoryJob, Job, Message, TimerJob
from jobexec.operations.notify.wake import BLOCKED, EVERYTHING, HISTORY, JOBS, MESSAGES, TIMERS
from jobexec.operations.sql.dialect import dialect_of

from ...runtime.file_events import FileEvents
from ..nodes.node import Node

#: Seconds between two looks: the minimum, soon after a job has come, the maximum, and the growth for each second since
#: then. (Any commit would not do: heartbeats are commits, too.) A look takes some 2 µs and waiting for it 10 or more,
#: because everything else has left the cache: each 2 ms is half a per cent of a processor, each 8 ms a fifth.
_LEAST, _MOST, _GROWTH = 0.002, 0.008, 0.0005
#: The same where the system tells of writes to the file: seldom, in case it does not tell of all, and after a write
#: for a while, first soon and then as above, until its commit is complete.
_SELDOM, _FIRST, _WHILE = 0.1, 0.0002, 0.25
#: After so many commits of which it has told nothing, it is not relied upon any more.
_MOST_UNTOLD = 3
_AFTER_ERROR = 1.0


def can_watch(engine: EngineSettings) -> bool:
    """Whether commits can be detected (in a file of SQLite, unless NOTIFY is off).

    An in-memory database belongs to one process, which wakes its executor itself.
    """
    connection = connections[engine.alias]
    return engine.notify and dialect_of(connection).counts_commits(connection)


class CommitWatch:
    """Reads SQLite's counter of commits, ``PRAGMA data_version``; a Source for acquisition.

    It does so when the system tells of a write to the file or its journal (Linux), otherwise every few milliseconds.
    The counter is that of the acquisition's connection, so its own commits do not count and the file is the one that it
    uses. After other commits (outcomes, heartbeats, whatever the project writes) the tables are checked, and only a
    job, a timer, history, a blocked job or a message wakes up a loop. Works with WAL and with a rollback journal. The
    file's modification time would be a little cheaper, but is the same for two commits within one tick of the system's
    clock.
    """

    def __init__(self, node: Node, heard: Callable[[str], object]) -> None:
        self._using, self._heard = node.using, heard
        # Jobs that cannot be acquired (of other deployments, of a locked process instance) are looked for no more often
        # than without a watch.
        self._again = node.engine.wait_time.total_seconds()
        self.listening = True
        self._thread = 0
        self._wrapper: Any = None
        self._connection: Any = None
        self._version: int | None = None
        self._rang_at = 0.0
        self._events: FileEvents | None = None
        #: Until when a commit may become complete, of which there was a write; and the seconds until the next look.
        self._expected, self._step = 0.0, _FIRST
        #: Whether the tables without jobs to be acquired are still to be looked at.
        self._unseen = False
        #: How many commits were found of which nothing was told.
        self._untold = 0
        self._job: Any = None
        self._owed = False
        self._due: Any = None
        self._history: Any = None
        self._blocked: Any = None
        self._looks: list[Any] = [None, None]
        jobs = Job.objects.using(node.using).filter(lock_owner=None, category__in=node.settings.categories)
        timers = TimerJob.objects.using(node.using).filter(due_date__isnull=False).order_by("due_date")
        history = HistoryJob.objects.using(node.using).order_by("due_date", "id")
        self._first_history = _compiled(history.values("pk"))
        # The last one: a job that comes while others wait may be of another resource.
        blocked = BlockedJob.objects.using(node.using).order_by("-id")
        self._last_blocked = _compiled(blocked.values("pk")) if node.settings.resources else None
        messages = Message.objects.using(node.using).filter(delivery_time__isnull=False).order_by("delivery_time")
        waiting = BlockedJob.objects.using(node.using).filter(next_look__isnull=False).order_by("next_look")
        self._first_looks = [_compiled(messages.values("delivery_time")), _compiled(waiting.values("next_look"))]
        self._first_job, self._first_timer = _compiled(jobs.values("pk")), _compiled(timers.values("due_date"))

    def fileno(self) -> int | None:
        # Not while it looks often anyway: others may write all the time.
        return None if self._events is None or time.monotonic() < self._expected else self._events.fileno()

    def turn(self) -> float:
        if not self.listening:
            return _AFTER_ERROR
        if self._unseen:
            return _FIRST
        if self._events is not None:
            if time.monotonic() >= self._expected:
                return _SELDOM
            step, self._step = self._step, min(_LEAST, 2 * self._step)
            return step
        return min(_MOST, max(_LEAST, _GROWTH * (time.monotonic() - self._rang_at)))

    def ask(self) -> None:
        try:
            changed = self._changed()
            if self._events is not None:
                self._reckon(self._events, changed)
            self._unseen = self._unseen or changed
            # When a job has come, the rest can wait until it is acquired.
            if not (changed and self._look_for_jobs()) and self._unseen:
                self._look_for_others()
                self._unseen = False
            self.listening = True
        except Exception:  # the acquisition will meet it too, and log it
            deaf, self.listening = self.listening, False
            self._version = None  # what came meanwhile has not been seen
            self._expected = time.monotonic() + _AFTER_ERROR + _WHILE
            if deaf:
                self._heard(EVERYTHING)  # loops that wait long because we listen must begin to poll
            return
        if self._owed and time.monotonic() - self._rang_at >= self._again:
            self._ring()

    def _changed(self) -> bool:
        # Asking Django for the thread's connection each time would take longer than all the rest.
        if self._thread != threading.get_ident() or self._wrapper.connection is None:
            self._thread, self._wrapper = threading.get_ident(), connections[self._using]
            self._wrapper.ensure_connection()
        raw = self._wrapper.connection
        if raw is not self._connection:  # versions of two connections cannot be compared
            self._connection, self._version = raw, None
            if self._events is None and self._untold <= _MOST_UNTOLD:
                self._watch_file(raw)
            self._expected = time.monotonic() + _WHILE
        before, self._version = self._version, raw.execute("PRAGMA data_version").fetchone()[0]
        return self._version != before

    def _watch_file(self, raw: Any) -> None:
        """Let the system tell of writes, if it does."""
        path = next(Path(file).resolve() for _, name, file in raw.execute("PRAGMA database_list") if name == "main")
        names = frozenset((path.name, f"{path.name}-wal", f"{path.name}-journal"))
        with suppress(OSError):
            self._events = FileEvents(path.parent, names)

    def _reckon(self, events: FileEvents, changed: bool) -> None:
        """Decide when to look again. The writes of a commit that was found have been told of before it."""
        now = time.monotonic()
        told = events.take()
        if told:
            self._expected, self._step = now + _WHILE, _FIRST
        if changed:
            self._untold = 0 if told or now < self._expected else self._untold + 1
            self._expected = min(self._expected, now + _LEAST)
            if self._untold > _MOST_UNTOLD:  # a file on another machine, perhaps
                events.close()
                self._events = None

    def _look_for_jobs(self) -> bool:
        """Whether a job has come that was told of."""
        before, self._job = self._job, self._first(self._first_job)
        self._owed = self._job is not None
        if self._job == before or not self._owed:
            return False
        self._ring()
        return True

    def _look_for_others(self) -> None:
        expected, self._due = self._due, self._first(self._first_timer)
        if self._due is not None and (expected is None or self._due < expected):
            self._heard(TIMERS)
        known, self._history = self._history, self._first(self._first_history)
        if self._history is not None and self._history != known:
            self._heard(HISTORY)
        if self._last_blocked is not None:
            last, self._blocked = self._blocked, self._first(self._last_blocked)
            if self._blocked is not None and self._blocked != last:
                self._heard(BLOCKED)

        known, self._looks = self._looks, [self._first(statement) for statement in self._first_looks]
        if any(
            look is not None and (before is None or look < before)
            for look, before in zip(self._looks, known, strict=True)
        ):
            self._heard(MESSAGES)

    def _ring(self) -> None:
        self._rang_at, self._owed = time.monotonic(), False
        self._heard(JOBS)

    def _first(self, statement: tuple[str, tuple[Any, ...]]) -> Any:
        with connections[self._using].cursor() as cursor:
            row = cursor.execute(*statement).fetchone()
        return row and row[0]


def _compiled(rows: QuerySet[Any, Any]) -> tuple[str, tuple[Any, ...]]:
    """The SQL for the first of these rows: Django takes longer to compile it than SQLite to answer."""
    sql, parameters = rows[:1].query.get_compiler(using=rows.db).as_sql()
    return sql, tuple(parameters)
