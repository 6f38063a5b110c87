"""Failures of workers outside are grouped like those of executors."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import jobexec
from jobexec.models import FailureGroup
from jobexec.operations.external import Fetch, activate_jobs, fail_external_job, throw_external_error
from jobexec.operations.reports.failure_groups import failure_groups

MINUTE = timedelta(minutes=1)


def fetch(alias: str, **values: Any) -> Any:
    return activate_jobs(alias, Fetch(type="payment", worker="w", timeout=MINUTE, max_jobs=10, **values))


def groups(alias: str) -> list[tuple[str, int, int]]:
    return [(each.group.message, each.group.count, int(each.dead_letters)) for each in failure_groups(alias)]


def test_what_fails_alike_is_one_group(alias):
    for _ in range(2):
        jobexec.external_job("payment", database=alias)
    for retries, job in zip((2, 0), fetch(alias), strict=True):
        fail_external_job(alias, job.key, retries=retries, message="BankError: order 17 refused")
    assert groups(alias) == [("BankError: order 17 refused", 2, 1)]
    (group,) = FailureGroup.objects.using(alias).all()
    assert (group.handler_type, group.exception) == ("payment", "BankError")


def test_an_error_that_nothing_catches_counts(alias):
    jobexec.external_job("payment", database=alias)
    (job,) = fetch(alias)
    throw_external_error(alias, job.key, code="NO_MONEY")
    assert [(count, dead) for _, count, dead in groups(alias)] == [(1, 1)]


def test_so_does_what_is_set_aside(alias, frozen):
    for _ in range(2):
        jobexec.external_job("payment", max_deliveries=1, database=alias)
    assert len(fetch(alias)) == 2
    frozen.tick(MINUTE)
    assert fetch(alias) == []
    assert [(count, dead) for _, count, dead in groups(alias)] == [(2, 2)]
