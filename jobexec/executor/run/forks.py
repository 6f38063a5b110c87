"""Detects a forked child of a handler that returns into the executor's code."""

from __future__ import annotations

import os
from contextlib import suppress

from jobexec.operations.values.acquired_job import AcquiredJob

_EXIT_CODE = 70  # EX_SOFTWARE

_generation = 0


def _count() -> None:
    global _generation
    _generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count)


def generation() -> int:
    """A number that differs in a process forked since."""
    return _generation


def end_if_forked(before: int, work: AcquiredJob) -> None:
    """End this process if it was forked since :func:`generation` returned ``before``: the handler's child did not exit.

    It has the executor's connections and its thread's place in the executor's code: it would settle the job, sending
    the parent's commands on the same socket, and run the next ones. Nothing is flushed or logged, as other threads may
    have held those locks at the fork.
    """
    if _generation != before:
        text = (
            f"{work.handler_type!r} {work.id} forked, and its child process {os.getpid()} returned from the "
            "handler; it exits now\n"
        )
        with suppress(OSError):
            os.write(2, text.encode())
        os._exit(_EXIT_CODE)
