"""Fetch external jobs for workers: the portable form, which defines the semantics.

Locks and their order: docs/explanation/locking.md, "External jobs".
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import Error, connections, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.fields.json import KeyTransform

from jobexec import clock
from jobexec.exceptions import DecryptionFailed, InvalidJob, NotAllowed, NotDecryptableYet
from jobexec.models import ExternalWorkerJob

from ..notify.wake_workers import wake_workers_on_commit
from ..resources.breaker import block_unless_closed
from ..rows import external_exclusive
from ..rows.routing import free_instances, given_back, may_hold
from ..sql.dialect import dialect
from ..sql.locks import lock_rows
from ..sql.serial_key import locked_instance
from . import fetch_statement
from .activated import Grant, activated
from .find import in_transaction
from .types import ActivatedJob, Fetch
from .unfetchable import set_aside
from .validation import checked_name

_ROUNDS = 100  # maximum number of pages in which jobs had to be set aside
MAX_JOBS = 1000
"""The maximum number of jobs for one fetch, whatever it asks for."""


class _Gone(Exception):
    """The client has disconnected: the locks taken for it are rolled back."""


def activate_jobs(using: str, fetch: Fetch) -> list[ActivatedJob]:
    """Lock jobs for a worker and return them, in the order of priority and waiting time.

    (Zeebe: ActivateJobs. Camunda 7: fetchAndLock.) A job whose deadline or back-off has passed is fetched like a new
    job. The fetch does not wait for locks: jobs that other clients are fetching are skipped. Jobs that turn out to be
    suspended, cancelled, too large or delivered too often are set aside on the way, so that they do not block others.

    Runs in a transaction, which ends by asking ``fetch.is_alive``: if the caller has gone, it is rolled back. Further
    transactions follow if some of the first jobs cannot be handed out: siblings in one process instance are handed out
    one at a time. If the database refuses one of these, the jobs of those before it are returned.
    Raises :class:`~jobexec.exceptions.InvalidJob` for invalid values and :class:`~jobexec.exceptions.NotAllowed` for
    types and tenants that the caller may not access.
    """
    _check(fetch)
    tenants = _tenants(fetch)
    if tenants is not None and not tenants:
        return []
    found: list[ActivatedJob] = []
    for _ in range(_ROUNDS):
        wanted = replace(fetch, max_jobs=min(fetch.max_jobs, MAX_JOBS) - len(found))
        try:
            page = _page(using, wanted, tenants)
        except Error:
            if not found or connections[using].in_atomic_block:
                raise
            break  # what is committed is locked for the worker, and must reach it
        if page is None:
            if found:
                yield_jobs(using, found)
            return []
        jobs, again = page
        found += jobs
        if not again or len(found) >= min(fetch.max_jobs, MAX_JOBS):
            break
    return found


def _page(
    using: str, fetch: Fetch, tenants: Sequence[str] | None, *, at_once: bool = True
) -> tuple[list[ActivatedJob], bool] | None:
    """See :func:`_fetch`, in a transaction; None if the caller has gone."""
    try:
        # Within the caller's transaction this is a savepoint: only the fetch itself is undone.
        with transaction.atomic(using=using):
            jobs, again = _fetch(using, fetch, tenants, at_once)
            if jobs and not fetch.is_alive():
                raise _Gone
            return jobs, again
    except _Gone:
        return None
    except (DecryptionFailed, NotDecryptableYet):
        if not at_once:
            raise
    return _page(using, fetch, tenants, at_once=False)  # the portable form sets such a job aside


def _check(fetch: Fetch) -> None:
    if not isinstance(fetch.type, str) or not fetch.type.strip():
        raise InvalidJob(f"type: expected a string that is not blank, got {fetch.type!r}.")
    if fetch.timeout < timedelta(milliseconds=1):
        raise InvalidJob(f"timeout: expected at least one millisecond, got {fetch.timeout}.")
    if fetch.max_jobs < 1:
        raise InvalidJob(f"max_jobs: expected a whole number of at least 1, got {fetch.max_jobs!r}.")
    checked_name("type", fetch.type)
    checked_name("worker", fetch.worker)
    if not fetch.caller.may_fetch(fetch.type):
        raise NotAllowed(f"The client {fetch.caller.name!r} may not fetch jobs of the type {fetch.type!r}.")


def _tenants(fetch: Fetch) -> list[str] | None:
    """The tenants whose jobs may be handed out; None for all."""
    if fetch.tenants is None:
        return None if fetch.caller.tenants is None else sorted(fetch.caller.tenants)
    refused = [tenant for tenant in fetch.tenants if not fetch.caller.may_see(tenant)]
    if refused:
        raise NotAllowed(f"The client {fetch.caller.name!r} may not fetch jobs of the tenant {min(refused)!r}.")
    return sorted(set(fetch.tenants))


def _deadline(using: str, fetch: Fetch) -> datetime:
    try:
        return clock.now(using) + fetch.timeout
    except OverflowError:
        raise InvalidJob(f"timeout: {fetch.timeout} from now is past the year 9999.") from None


def available(using: str, fetch: Fetch, tenants: Sequence[str] | None) -> QuerySet[ExternalWorkerJob]:
    """The jobs that this fetch may return, once they are available."""
    rows = ExternalWorkerJob.objects.using(using).filter(handler_type=fetch.type)
    if tenants is not None:
        rows = rows.filter(tenant_id__in=tenants)
    if not fetch.with_lease:
        rows = rows.filter(lease_token="")  # once leased, a job is only for workers that can show a token
    return _asked_for(_whose_instance_is_free(rows), fetch)


def _whose_instance_is_free(rows: QuerySet[ExternalWorkerJob]) -> QuerySet[ExternalWorkerJob]:
    """Exclude exclusive jobs whose process instance another job holds; after a missed deadline a job holds its own."""
    held_itself = Q(lock_owner__isnull=False)
    return rows.filter(Q(exclusive=False) | Q(process_instance_id="") | held_itself | ~locked_instance(rows.db))


def _asked_for(rows: QuerySet[ExternalWorkerJob], fetch: Fetch) -> QuerySet[ExternalWorkerJob]:
    """Apply the conditions of a topic in Camunda 7's fetchAndLock.

    On MySQL and MariaDB, a text variable equals a number with the same spelling.
    """
    conditions: dict[str, Any] = {
        "process_instance_id": fetch.process_instance_id,
        "handler_configuration__business_key": fetch.business_key,
        "process_definition_id__in": _listed(fetch.process_definition_ids),
        "process_definition_key__in": _listed(fetch.process_definition_keys),
    }
    rows = rows.filter(**{name: value for name, value in conditions.items() if value is not None})
    if not (variables := fetch.process_variables):
        return rows
    # Through aliases, and not by their own names: a variable may have the same name as a lookup.
    names = {f"variable_{number}": name for number, name in enumerate(variables)}
    stored = KeyTransform("variables", "handler_configuration")
    rows = rows.alias(**{alias: KeyTransform(name, stored) for alias, name in names.items()})
    return rows.filter(**{alias: variables[name] for alias, name in names.items()})


def _listed(values: Any) -> list[str] | None:
    return None if values is None else list(values)


def _fetch(
    using: str, fetch: Fetch, tenants: Sequence[str] | None, at_once: bool = True
) -> tuple[list[ActivatedJob], bool]:
    """A page of locked jobs, and whether there may be more behind those that could not be handed out.

    ``at_once``: with the fast form if that is possible. It raises for a job that cannot be decrypted.
    """
    token = secrets.token_urlsafe(24) if fetch.with_lease else ""
    grant = Grant(_deadline(using, fetch), token, min(fetch.max_jobs, MAX_JOBS))
    if at_once and fetch_statement.is_possible(using, fetch):
        jobs = fetch_statement.lock_plain_page(using, fetch, tenants, grant)
        if jobs or not fetch_statement.any_available(using, fetch, tenants, leased=bool(token)):
            return jobs, False
    rows, again = _lock(using, fetch, tenants, grant.limit)
    return _hand_out(using, fetch, rows, grant), again


def _lock(using: str, fetch: Fetch, tenants: Sequence[str] | None, limit: int) -> tuple[list[ExternalWorkerJob], bool]:
    """Locked rows that can be handed out, and whether there may be more behind those that cannot."""
    queryset = available(using, fetch, tenants)
    # Two short scans of one index: with a single condition for both, the database would read all locked rows.
    again = queryset.filter(available_at__lte=clock.now(using)).order_by("available_at", "rank", "pk")
    order = ("available_at", "rank", "pk") if dialect(using).orders_by_nulls else ("rank", "pk")
    fresh = queryset.filter(available_at=None).order_by(*order)
    found = [row for part in (again, fresh) for row in lock_rows(part, skip_locked=True)[:limit]]
    page = sorted(found, key=lambda row: (row.rank, row.pk))[:limit]
    if not page:
        return [], False
    rows = set_aside(using, page)
    free = external_exclusive.take(using, rows)
    # If no row was moved, and another client was faster with a process instance, another round would find the same.
    moved, siblings = len(rows) < len(page), len(page) == limit and 0 < len(free) < limit
    return [row for row in rows if row.pk in free], moved or siblings


def _hand_out(using: str, fetch: Fetch, rows: Sequence[ExternalWorkerJob], grant: Grant) -> list[ActivatedJob]:
    if not rows:
        return []
    deadline, token = grant.deadline, grant.token
    changes: dict[str, Any] = {
        "lock_owner": fetch.worker,
        "lock_expiration_time": deadline,
        "available_at": deadline,
        "lease_token": token,
        "attempts": F("attempts") + 1,
        "revision": F("revision") + 1,
        "due_date": None,
    }
    table = ExternalWorkerJob.objects.using(using)
    missed = [row.pk for row in rows if row.lock_owner is not None]
    if missed:
        table.filter(pk__in=missed).update(**changes, lost_runs=F("lost_runs") + 1)
    fresh = [row.pk for row in rows if row.lock_owner is None]
    if fresh:
        table.filter(pk__in=fresh).update(**changes)
    return [_activated(row, fetch, grant) for row in rows]


def _activated(row: ExternalWorkerJob, fetch: Fetch, grant: Grant) -> ActivatedJob:
    return activated(
        row,
        fetch,
        grant,
        id=row.pk,
        create_time=row.create_time,
        configuration=row.handler_configuration,
        headers=row.custom_headers,
        lease_before=row.lease_token,
    )


def yield_jobs(using: str, jobs: Sequence[ActivatedJob]) -> int:
    """Give back jobs that could not be delivered to their worker; return how many were still as they were fetched.

    They are available immediately, as if they had never been fetched, and if they were leased before, still only for
    workers that ask for a lease. (Zeebe: JobIntent.YIELD.)
    """

    def verb() -> int:
        count = 0
        for job in sorted(jobs, key=lambda job: job.id.int):
            held = ExternalWorkerJob.objects.using(using).filter(
                pk=job.id, lock_owner=job.worker, lock_expiration_time=job.deadline, lease_token=job.lease_token
            )
            count += give_back(using, held, attempts=F("attempts") - 1, lease_token=job.lease_before)
        return count

    return in_transaction(using, verb)


def give_back(using: str, held: QuerySet[ExternalWorkerJob], **changes: Any) -> int:
    """Make these jobs available immediately, in the caller's transaction; return how many."""
    rows = list(lock_rows(held.order_by("pk")))
    if not rows:
        return 0
    table = ExternalWorkerJob.objects.using(using).filter(pk__in=[row.pk for row in rows])
    table.update(**{**given_back(), **changes}, available_at=None, revision=F("revision") + 1)
    free_instances(using, may_hold(rows))
    wake_workers_on_commit(using, {row.handler_type for row in rows})
    block_unless_closed(using, {row.pk: row.resource for row in rows}, ExternalWorkerJob)
    return len(rows)
