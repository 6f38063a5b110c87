"""Handlers of the executors that are started as processes; files tell the test what happened, and when to go on."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

from demo_project.bookings.models import Booking
from jobexec import JobContext, LockLost, job
from jobexec.signals import job_completed


def _append(path: str, text: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{text}\n")


@job
def note(path: str, text: str) -> None:
    """Leave a line, with the process that wrote it."""
    _append(path, f"{text} {os.getpid()}")


@job
def note_what_is_frozen(path: str) -> None:
    """Leave a line that says how many objects the garbage collection leaves out, in thousands."""
    _append(path, str(gc.get_freeze_count() // 1000))


@job
def note_until_settled(path: str, text: str) -> None:
    """Leave a line, and another one when this process knows that the end of this job is committed."""

    def settled(**kwargs: object) -> None:
        _append(path, f"settled {text} {os.getpid()}")

    job_completed.connect(settled, weak=False, dispatch_uid=text)
    _append(path, f"{text} {os.getpid()}")


@job
def wait(path: str, text: str, go: str) -> None:
    """Leave a line, wait until the file `go` exists, leave another line."""
    _append(path, f"begun {text}")
    end = time.monotonic() + 60
    while not Path(go).exists() and time.monotonic() < end:
        time.sleep(0.01)
    _append(path, f"ended {text}")


@job
async def await_go(path: str, text: str, go: str) -> None:
    """The same, without a thread."""
    _append(path, f"begun {text}")
    while not Path(go).exists():
        await asyncio.sleep(0.05)
    _append(path, f"ended {text}")


@job
def die(path: str, how: str) -> None:
    """Take the process with it."""
    _append(path, f"died {how}")
    if how == "exit":
        os._exit(9)
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


@job
def die_before_the_pool(context: JobContext, path: str, instance: str) -> None:
    """Enqueue jobs until one stays with this node, and take the process with it before its pool has that job."""
    from jobexec.executor.loops.follow_ups import FollowUps

    if context.work.lost_runs:
        return
    FollowUps.arrive = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
    for number in range(100):
        note.using(database=context.using, process_instance_id=instance).enqueue(path, f"n{number}")
        time.sleep(0.05)


@job
def fork(path: str, text: str) -> None:
    """Fork a child that comes back, as the parent does when the child has ended."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        _append(path, f"{text} {os.waitstatus_to_exitcode(status)}")


@job
def show_environment(path: str) -> None:
    """Leave a line about the service manager's and the supervisor's variables that a command of this job would see."""
    script = (
        "import os; print([name for name in os.environ if name.split('_')[0] in ('NOTIFY', 'WATCHDOG', 'JOBEXEC')])"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JOBEXEC_TEST")}
    seen = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    _append(path, f"environment of a job's command: {seen.stdout.strip()}")


_KEPT: list[bytearray] = []


@job
def swell(path: str, text: str, size: int) -> None:
    """Take so many bytes of memory, never give them back, and leave a line."""
    _KEPT.append(bytearray(b"x") * size)
    _append(path, f"{text} {os.getpid()}")


def _there(go: str) -> str:
    return f"{go}-{os.environ['TEST_HOST']}"


@job
def wait_there(path: str, text: str, go: str) -> None:
    """As `wait`, for a file of the host on which it runs."""
    wait(path, text, _there(go))


@job
def heed_the_lease(context: JobContext, path: str, text: str, go: str) -> None:
    """As `wait_there`, but ends as soon as the lease is lost, as a handler with effects elsewhere should."""
    _append(path, f"begun {text}")
    end = time.monotonic() + 60
    while not Path(_there(go)).exists() and time.monotonic() < end:
        try:
            context.check_lease()
        except LockLost:
            _append(path, f"lost {text}")
            raise
        time.sleep(0.01)
    _append(path, f"ended {text}")


@job(atomic=True)
def book(path: str, text: str, go: str) -> None:
    """Write to the database, and then wait as `wait_there` does, in one transaction with the job's end."""
    Booking.objects.create(visitor=text, city="Athens", arrival=date(2026, 5, 1), departure=date(2026, 5, 2))
    wait(path, text, _there(go))


@job(retries="R9/PT0.1S")
def fail_times(path: str, times: int) -> None:
    """Fail so many times."""
    _append(path, "try")
    if len(Path(path).read_text().splitlines()) <= times:
        raise ValueError("not yet")
