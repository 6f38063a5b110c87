"""When a client was there last."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from django.db import transaction

from jobexec import clock
from jobexec.models import GatewayClient

#: More often it is not written.
EVERY = timedelta(minutes=1)


def note(row: GatewayClient, using: str) -> None:
    """Write down that the client is there, at most once a minute.

    After the commit of a transaction that is open: a request that fails is not to be mixed up with this, and one that
    waits for jobs is not to hold the row locked meanwhile. A failure is logged and does not concern the client.
    """
    now = clock.now(using)
    if row.last_use is None or now - row.last_use >= EVERY:
        transaction.on_commit(partial(_write, row, using), using, robust=True)


def _write(row: GatewayClient, using: str) -> None:
    row.last_use = clock.now(using)
    GatewayClient.objects.using(using).filter(pk=row.pk).update(last_use=row.last_use)
