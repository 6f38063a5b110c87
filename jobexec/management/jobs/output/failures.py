"""How a command ends when it fails: with a message and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import DatabaseError, connections

from jobexec.conf import get_settings
from jobexec.exceptions import InvalidJob, InvalidQuery, InvalidSettings, JobExecError, NodeRefused
from jobexec.executor.process.preflight import check_migrations

from .screen import Exit, usage


def engine_named(alias: str | None, default: str) -> str:
    """The database of ``--database``, or the default; either must be an engine."""
    try:
        get_settings().engine(alias or default)
    except InvalidSettings as error:
        if alias:
            raise usage(f"--database: {error}") from error
        raise
    return alias or default


@contextmanager
def told(stdout: Any, using: str, *, app: str = "jobexec") -> Iterator[None]:
    """Raise CommandError instead of what the block raises. ``app`` is the one whose tables it uses.

    A reader that has closed the pipe, as with ``| head``, is no error.
    """
    try:
        yield
        stdout.flush()
    except BrokenPipeError:  # Python must not complain about it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (InvalidJob, InvalidQuery) as error:
        raise usage(str(error)) from error
    except (JobExecError, ImproperlyConfigured) as error:
        raise CommandError(str(error), returncode=Exit.ERROR) from error
    except DatabaseError as error:
        raise CommandError(_reason(using, app, error), returncode=Exit.ERROR) from error
    except KeyboardInterrupt:
        raise CommandError("Interrupted.", returncode=130) from None


def _reason(using: str, app: str, error: DatabaseError) -> str:
    """Describe a database error: above all, that the tables do not exist yet."""
    if using not in connections:
        return str(error)
    try:
        check_migrations(using, app)
    except NodeRefused as refusal:
        return str(refusal)
    return str(error)
