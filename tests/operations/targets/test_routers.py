"""Database routers decide where a job goes; an explicit database overrules them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from jobexec import job, operations
from jobexec.exceptions import InvalidSettings
from jobexec.handlers import registry
from jobexec.models import Job
from tests.support.suite import databases

pytestmark = pytest.mark.django_db(databases="__all__")


class JobsElsewhere:
    """A router that keeps jobexec's tables in one database."""

    target = "postgresql"

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return self.target if model._meta.app_label == "jobexec" else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return db == self.target if app_label == "jobexec" else None


@pytest.fixture
def note() -> Iterator[Any]:
    with registry.isolated():

        @job(name="tests.note")
        def note(text: str) -> None:
            pass

        yield note


@pytest.fixture
def routed() -> Iterator[str]:
    if "postgresql" not in databases.covered:
        pytest.skip(f"PostgreSQL is not covered: {databases.missing.get('postgresql')}")
    routers = [f"{__name__}.JobsElsewhere"]
    with override_settings(DATABASE_ROUTERS=routers, JOBEXEC={"ENGINES": {"default": {}, "postgresql": {}}}):
        yield "postgresql"


def test_a_job_goes_where_the_router_says(note: Any, routed: str) -> None:
    row = note.enqueue("hello")
    assert row._state.db == routed
    assert Job.objects.using(routed).filter(pk=row.pk).exists()
    assert not Job.objects.using("default").filter(pk=row.pk).exists()


def test_an_explicit_database_overrules_the_router(note: Any, routed: str) -> None:
    row = note.using(database="default").enqueue("hello")
    assert Job.objects.using("default").filter(pk=row.pk).exists()


def test_many_jobs_go_where_the_router_says(note: Any, routed: str) -> None:
    rows = note.enqueue_many([("a",), ("b",)])
    assert Job.objects.using(routed).filter(pk__in=[row.pk for row in rows]).count() == 2


def test_a_database_that_is_no_engine_is_refused(note: Any, routed: str) -> None:
    with override_settings(JOBEXEC={"ENGINES": {"default": {}}}), pytest.raises(InvalidSettings, match="postgresql"):
        note.enqueue("hello")


def test_operations_work_where_rows_and_querysets_come_from(note: Any, routed: str) -> None:
    here, there = note.using(database="default").enqueue("here"), note.enqueue("there")
    for target in (here, [here], Job.objects.using("default").filter(pk=here.pk)):
        assert operations.set_retries(target, 7).changed == [here.pk]
    for target in (there, there.pk, [there], Job.objects.filter(pk=there.pk)):
        assert operations.set_retries(target, 8).changed == [there.pk]
    assert operations.set_retries(here.pk, 9).skipped
    assert operations.set_retries(here.pk, 9, using="default").changed == [here.pk]
