"""A handler that forks, and whose child comes back as if it were the executor."""

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
    """A number that is another one in a process that was forked since."""
    return _generation


def end_if_forked(before: int, work: AcquiredJob) -> None:
    """End this process if it was forked since :func:`generation` said ``before``: a handler's child that should have.

    It has the executor's connections and its thread's place in the executor's code: it would settle the job, with the
    words of the parent on the same socket, and take the next ones. Nothing is flushed or logged, as others may have
    held those locks at the fork.
    """
    if _generation != before:
        text = f"{work.handler_type!r} {work.id} has forked, and its child {os.getpid()} came back; it ends now\n"
        with suppress(OSError):
            os.write(2, text.encode())
        os._exit(_EXIT_CODE)
