"""The time of a client's last request."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from django.db import connections

from jobexec import clock
from jobexec.models import GatewayClient
from jobexec.operations.sql.on_commit import after_commit

#: The minimum time between two writes.
EVERY = timedelta(minutes=1)


def note(row: GatewayClient, using: str) -> None:
    """Record a client's use of the gateway, at most once a minute.

    The write follows the commit of an open transaction: it must not be affected by a request that fails, nor keep the
    row locked during a request that waits for jobs. A failure of the write is logged and does not affect the request.
    """
    now = clock.now(using)
    if row.last_use is None or now - row.last_use >= EVERY:
        after_commit(connections[using], partial(_write, row, using))


def _write(row: GatewayClient, using: str) -> None:
    row.last_use = clock.now(using)
    GatewayClient.objects.using(using).filter(pk=row.pk).update(last_use=row.last_use)
