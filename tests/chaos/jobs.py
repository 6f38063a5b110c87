"""The handlers. Each writes where it begins and ends into the journal of its process."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from jobexec import DoNotRetry, JobContext, LockLost, RetryIn, history_handler, job, publish_message
from jobexec.exceptions import JobTimeout
from jobexec.executor.loops.follow_ups import FollowUps
from jobexec.identifiers import uuid7
from jobexec.operations import create_job
from jobexec.operations.enqueue.record_history import record_history
from jobexec.operations.maintenance.history_jobs import HistoryRecord

from . import instrument
from .journal import Journal, now
from .mixtures import LEDGER, NEWS

NAME = os.environ.get("JOBEXEC_CHAOS_NODE", "")
PLAN = "R3/PT0.3S"
_STEP = 0.05

FOLDER = Path(getattr(settings, "CHAOS_FOLDER", ""))

if NAME:  # a node, and not the driver, which knows the handlers only to enqueue them
    JOURNAL = Journal(FOLDER / "journal", NAME)
    instrument.install(JOURNAL)


class Injected(Exception):
    """A failure that was asked for."""


def _held(context: JobContext) -> bool:
    try:
        context.check_lease()
    except (LockLost, JobTimeout):
        return False
    return True


@contextmanager
def told(context: JobContext) -> Iterator[dict[str, Any]]:
    """The lines of one run; `asked` is before the question whether the lease still holds. What is put into the dict
    is told at its end."""
    work = context.work
    run = {"job": work.id, "attempt": context.attempt, "owner": work.lock_owner, "lost": work.lost_runs}
    result, error, more = "ok", "", dict[str, Any]()
    asked = now()
    JOURNAL.write("begin", **run, held=_held(context), asked=asked)
    try:
        yield more
    except BaseException as problem:
        result, error = "failed", f"{type(problem).__name__}: {problem}"
        raise
    finally:
        asked = now()
        held, late = _held(context), context.timed_out
        line = {**run, "result": result, "error": error[:200], "held": held, "asked": asked, "late": late}
        JOURNAL.write("end", **{**line, **more})


def take_time(seconds: float) -> None:
    end = now() + seconds
    while (left := end - now()) > 0:
        time.sleep(min(left, _STEP))


def calls_of(name: object) -> int:
    """How often this was called with a name, by whichever process; outside of the database."""
    path = FOLDER / "times" / str(name)
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.write(b".")
    return path.stat().st_size


@history_handler(LEDGER)
def ledger(records: list[HistoryRecord]) -> None:
    """Writes a row for each record, and perhaps fails a number of times afterwards."""
    with connection.cursor() as cursor:
        for record in records:
            cursor.execute("INSERT INTO chaos_ledger (record, pid) VALUES (%s, %s)", [record.data["id"], os.getpid()])
    for record in records:
        if record.data["failures"] and calls_of(f"record {record.data['id']}") <= record.data["failures"]:
            raise Injected("rolls its rows back")


@job(retries=PLAN)
def work(context: JobContext, seconds: float) -> None:
    """Takes some time and ends well."""
    with told(context):
        take_time(seconds)


@job(retries=PLAN)
async def waits(context: JobContext, seconds: float, failures: int) -> None:
    """Takes some time without a thread, and perhaps fails a number of times."""
    with told(context):
        await asyncio.sleep(seconds)
        if context.attempt <= failures:
            raise (RetryIn(0.2) if context.attempt % 2 else Injected("not yet"))


def _enqueue_next(context: JobContext, handler: str, *arguments: Any) -> None:
    """Another job of the same process instance, which this node may keep for itself."""
    work = context.work
    columns = {"id": uuid7(), "exclusive": work.exclusive, "priority": work.priority, "atomic": False, "retries": 3}
    own = {"kind": handler, "instance": work.process_instance_id, "tenant": work.tenant_id, "now": True}
    JOURNAL.write("creating", jobs=[columns | own])
    configuration = {"args": list(arguments), "kwargs": {}}
    of_instance = {"process_instance_id": work.process_instance_id, "tenant_id": work.tenant_id}
    name = f"tests.chaos.jobs.{handler}"
    create_job(context.using, handler_type=name, handler_configuration=configuration, **columns, **of_instance)
    JOURNAL.write("created", ok=True, jobs=[columns["id"]])


@job(retries=PLAN)
def chain(context: JobContext, seconds: float, left: int) -> None:
    """Enqueues the next job of its chain when it is done."""
    with told(context):
        take_time(seconds)
        if left:
            _enqueue_next(context, "chain", seconds, left - 1)


@job(retries=PLAN)
def careful(context: JobContext, seconds: float) -> None:
    """Asks before each step whether it may still act, and whether it shall."""
    with told(context):
        end = now() + seconds
        while now() < end and not context.cancelled:
            context.check_lease()
            time.sleep(_STEP)


@job(retries=PLAN)
def flaky(context: JobContext, seconds: float, failures: int) -> None:
    """Fails a number of times."""
    with told(context):
        take_time(seconds)
        if context.attempt <= failures:
            raise (RetryIn(0.2) if context.attempt % 2 else Injected("not yet"))


@job(retries=PLAN)
def fatal(context: JobContext, seconds: float) -> None:
    """Must not be tried again."""
    with told(context):
        take_time(seconds)
        raise DoNotRetry("asked to")


@job(retries=PLAN, atomic=True)
def effect(context: JobContext, seconds: float, failures: int) -> None:
    """Writes a row, and records it, in the transaction that ends the job."""
    with told(context):
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO chaos_effect (job_id, pid) VALUES (%s, %s)", [str(context.id), os.getpid()])
        record_history(LEDGER, {"id": f"effect {context.id}", "failures": 0}, using=context.using)
        take_time(seconds)
        if context.attempt <= failures:
            raise Injected("rolls its row back")


@job(retries="R1/PT0.3S")
def killer(context: JobContext, how: str, times: int) -> None:
    """Takes its process with it, so many times."""
    with told(context):
        if calls_of(context.id) > times:
            return
        JOURNAL.write("dies", job=context.id, attempt=context.attempt, owner=context.work.lock_owner)
        if how == "exit":
            os._exit(9)
        if how == "between":  # the commit of a job that it enqueues, and the pool of its node
            FollowUps.arrive = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
            _enqueue_next(context, "work", 0.05)
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)


@job(retries=PLAN)
def keyed(context: JobContext, seconds: float, failures: int, key: str = "") -> None:
    """Has this unique key; takes some time, and perhaps fails a number of times."""
    with told(context):
        take_time(seconds)
        if context.attempt <= failures:
            raise Injected("not yet")


@job(retries=PLAN)
def waiter(context: JobContext) -> None:
    """Tells what the message says with which it goes on."""
    with told(context) as run:
        run["message"] = context.message and context.message.payload["text"]


class _ChangeOfMind(Exception):
    pass


@job(retries=PLAN)
def publisher(context: JobContext, key: str, ttl: float | None, id: str | None, kept: bool) -> None:
    """Publishes a message, in a transaction that lasts and is perhaps rolled back."""
    with told(context):
        tenant = context.work.tenant_id
        message = {"text": str(uuid7()), "key": f"{key} of {tenant}", "ttl": ttl or 0, "id": id}
        JOURNAL.write("publishing", **message)
        with suppress(_ChangeOfMind):
            with transaction.atomic():
                payload = {"text": message["text"]}
                row = publish_message(NEWS, key=key, payload=payload, ttl=ttl, message_id=id, tenant_id=tenant)
                take_time(0.05)
                if not kept:
                    raise _ChangeOfMind
            JOURNAL.write("published", text=message["text"], duplicate=row.is_duplicate)
            return
        JOURNAL.write("unpublished", text=message["text"])


@job(retries=PLAN)
def herald(context: JobContext, seconds: float) -> None:
    """Enqueues the job that comes after it, and takes its time then."""
    with told(context):
        _enqueue_next(context, "work", seconds)
        take_time(seconds)


@job(name="chaos.all_done")
def all_done() -> None:
    """Follows a batch whose jobs have all succeeded."""


@job(name="chaos.not_all_done")
def not_all_done() -> None:
    """Follows a batch of which some jobs have not succeeded."""


@job(retries=PLAN)
def tick(context: JobContext) -> None:
    """Is made by a schedule, and tells for which of its times."""
    with told(context) as run:
        run["scheduled_for"] = context.scheduled_for and context.scheduled_for.timestamp()
        take_time(0.05)
