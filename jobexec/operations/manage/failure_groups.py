"""Operators' changes to groups of failures: assign, acknowledge, snooze and reopen them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.apps import apps
from django.utils.translation import gettext_noop

from jobexec import clock
from jobexec.conf.messages import check_moment
from jobexec.exceptions import InvalidJob
from jobexec.json_values import shown
from jobexec.models import FailureGroup

from ..audit import audited, note
from ..sql.locks import atomic, lock_rows
from ..targets.for_each import OperationResult, database_of

MOST_FAILURES = 1_000_000_000


@audited
def assign_failure_groups(
    fingerprints: Sequence[str], *, assigned_to: str, using: str | None = None
) -> OperationResult:
    """Assign these groups to a user; '' removes the assignment. Raises InvalidJob for an unknown user."""
    if not isinstance(assigned_to, str) or (assigned_to and not _is_user(assigned_to)):
        raise InvalidJob(f"assigned_to: expected the name of an active user, or '', got {shown(assigned_to)}.")
    return _change(fingerprints, using, lambda group: {"assigned_to": assigned_to})


@audited
def acknowledge_failure_groups(fingerprints: Sequence[str], *, using: str | None = None) -> OperationResult:
    """Keep these groups quiet until :func:`reopen_failure_groups`; this ends a snooze."""
    now = clock.now(database_of(None, using))
    return _change(fingerprints, using, lambda group: {**_LOUD, "acknowledged_at": now})


@audited
def snooze_failure_groups(
    fingerprints: Sequence[str],
    *,
    until: datetime | None = None,
    failures: int | None = None,
    using: str | None = None,
) -> OperationResult:
    """Keep these groups quiet until a date, or until more than this number of further failures, whichever comes first.

    No alert is sent for failures in the meantime, not even afterwards, apart from the last minutes. Nodes count
    failures every METER_INTERVAL. Raises InvalidJob without either, and for invalid values.
    """
    database = database_of(None, using)
    moment = check_moment("until", until)
    if moment is None and failures is None:
        raise InvalidJob("Expected until, a date, or failures, a number.")
    if moment is not None and moment <= clock.now(database):
        raise InvalidJob(f"until: expected a time in the future, got {moment}.")
    whole = isinstance(failures, int) and not isinstance(failures, bool)
    if failures is not None and not (whole and 0 <= failures <= MOST_FAILURES):
        raise InvalidJob(f"failures: expected a whole number from 0 to {MOST_FAILURES}, got {shown(failures)}.")

    def columns(group: FailureGroup) -> dict[str, Any]:
        most = None if failures is None else group.count + failures
        return {**_LOUD, "snoozed_until": moment, "snoozed_to_count": most}

    return _change(fingerprints, using, columns)


@audited
def reopen_failure_groups(fingerprints: Sequence[str], *, using: str | None = None) -> OperationResult:
    """Undo :func:`acknowledge_failure_groups` and :func:`snooze_failure_groups`."""
    return _change(fingerprints, using, lambda group: _LOUD)


_LOUD: dict[str, Any] = {"acknowledged_at": None, "snoozed_until": None, "snoozed_to_count": None}
_MISSING = gettext_noop("there is no such group of failures")


def _is_user(name: str) -> bool:
    if not apps.is_installed("django.contrib.auth"):
        return True  # the project has other users, or none
    from django.contrib.auth import get_user_model

    users = get_user_model()
    found = users._default_manager.filter(**{users.USERNAME_FIELD: name}).first()
    return found is not None and bool(found.is_active)


def _change(
    fingerprints: Sequence[str], using: str | None, columns: Callable[[FailureGroup], dict[str, Any]]
) -> OperationResult:
    """Lock the groups in the order in which nodes lock them, and change columns that nodes do not write."""
    database, wanted = database_of(None, using), sorted(set(fingerprints))
    with atomic(database):
        rows = list(lock_rows(FailureGroup.objects.using(database).filter(pk__in=wanted).order_by("pk")))
        for row in rows:
            new = columns(row)
            old = {name: getattr(row, name) for name in new}
            for name, value in new.items():
                setattr(row, name, value)
            row.save(using=database, update_fields=list(new))
        if rows:
            alone = len(rows) == 1
            scope = None if alone else {"ids": [row.pk for row in rows], "names": sorted({str(row) for row in rows})}
            # The values of the last group: those of all, except for the number at which a snooze ends.
            note(
                database,
                "failuregroup",
                rows[0].pk if alone else "",
                old=old if alone else None,
                new=new,
                scope=scope,
                count=len(rows),
            )
    known = {row.pk for row in rows}
    return OperationResult(sorted(known), dict.fromkeys((each for each in wanted if each not in known), _MISSING))
