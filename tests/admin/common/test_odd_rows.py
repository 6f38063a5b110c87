"""Rows that no code of ours has written: other programs did, SQL by hand, or an older release."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, models
from django.test import override_settings
from django.utils import timezone

from jobexec.models import DeadLetterJob, Job, TimerJob
from tests.support.suite.tiers import some

from .. import data
from ..conftest import TABLES, list_url, page_url
from ..dashboard.test_dashboard import PAGE as DASHBOARD

pytestmark = pytest.mark.django_db


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


JSON, DATE, NUMBER, LENGTH = models.JSONField, models.DateTimeField, models.IntegerField, models.DurationField
ODD: list[tuple[type[Any], Any]] = [
    (JSON, "{"),
    (JSON, "null"),
    (JSON, '"a text"'),
    (JSON, '[1, "x", null]'),
    (JSON, '{"args": {"a": 1}, "kwargs": [1], "variables": 5, "on_complete": [], "on_error": 7}'),
    (JSON, nested(3_000)),
    (JSON, '{"args": [' + nested(3_000) + "]}"),
    (DATE, "2026-13-45 00:00:00"),
    (DATE, "yesterday"),
    (DATE, "9999-12-31 23:59:59.999999"),
    (DATE, "0001-01-01 00:00:00"),
    (NUMBER, "many"),
    (NUMBER, 2**62),
    (LENGTH, "long"),
    (LENGTH, 2**62),
]


@contextmanager
def unchecked() -> Iterator[Any]:
    """SQLite takes any value in any column, if its own checks are put aside."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA ignore_check_constraints = ON")
        try:
            yield cursor
        finally:
            cursor.execute("PRAGMA ignore_check_constraints = OFF")


def spoil(row: Any, kind: type[Any], value: Any) -> list[str]:
    """Write an odd value into all columns of this kind; their names."""
    fields = [field for field in row._meta.concrete_fields if isinstance(field, kind) and not field.primary_key]
    with unchecked() as cursor:
        for field in fields:
            key = row._meta.pk.get_db_prep_value(row.pk, connection)
            table, column, pk = (
                connection.ops.quote_name(each) for each in (row._meta.db_table, field.column, row._meta.pk.column)
            )
            cursor.execute(f"UPDATE {table} SET {column} = %s WHERE {pk} = %s", [value, key])
    return [field.name for field in fields]


CASES = [pytest.param(table, kind, value) for table in TABLES for kind, value in ODD]
IDS = [f"{table.__name__}-{kind.__name__}-{str(value)[:20]}" for table in TABLES for kind, value in ODD]


@pytest.mark.gate
@pytest.mark.parametrize(("table", "kind", "value"), some(CASES, 8, later="nightly"), ids=IDS)
@override_settings(TIME_ZONE="Pacific/Kiritimati")
def test_every_list_and_page_survives(admin, table, kind, value):
    row = data.some_of_everything()[table]
    if not spoil(row, kind, value):
        return
    with timezone.override("Pacific/Kiritimati"):
        response = admin.get(list_url(table))
        assert response.status_code == 200, response.content
        assert page_url(row) in response.content.decode() or table._meta.model_name in response.content.decode()
        assert admin.get(page_url(row)).status_code == 200
        assert admin.get(DASHBOARD).status_code == 200


def test_what_cannot_be_read_is_marked_beside_the_others(admin):
    good, odd = data.make(Job, handler_type="shop.good"), data.make(Job, handler_type="shop.odd")
    spoil(odd, DATE, "2026-13-45 00:00:00")
    spoil(odd, NUMBER, "many")
    response = admin.get(list_url(Job))
    page = response.content.decode()
    assert page_url(good) in page and page_url(odd) in page
    assert 'jobexec-bad">unreadable<' in page
    ((level, text),) = admin.told(response)
    assert (level, text.partition(" (")[0]) == ("warning", f"Cannot be read in full: {odd.pk}")
    assert "create_time" in text
    response = admin.get(page_url(odd))
    assert any("create_time" in text for _level, text in admin.told(response))
    assert "shop.odd" in response.content.decode()


def test_arguments_that_are_nested_too_deep(admin):
    """As an older release stored them: the rest of the page is there, and what is deeper is hidden."""
    job = data.dead_letter()
    spoil(job, JSON, '{"args": [], "kwargs": {"order": 4711, "password": "hush", "deep": ' + nested(3_000) + "}}")
    page = admin.get(page_url(job)).content.decode()
    assert "4711" in page or "Cannot be read in full" in page
    assert "hush" not in page and "charge" in page
    assert admin.get(list_url(DeadLetterJob)).status_code == 200


def test_a_key_that_is_none(admin):
    good, odd = data.make(Job), data.make(Job)
    with unchecked() as cursor:
        cursor.execute("UPDATE jobexec_job SET id = 'no key' WHERE id = %s", [odd.pk.hex])
    page = admin.get(list_url(Job)).content.decode()
    assert page_url(good) in page


def test_an_action_on_a_row_that_cannot_be_read(admin):
    good, odd = data.make(Job), data.make(Job)
    spoil(odd, DATE, "2026-13-45 00:00:00")
    response = admin.act(Job, "set_priority", [good], priority="7")
    assert ("success", "1 job has priority 7.") in admin.told(response)
    assert admin.act(Job, "delete_selected", [odd], answered=False).status_code == 200


def test_the_dashboard_without_the_part_that_cannot_be_read(admin):
    data.node()
    spoil(data.make(TimerJob, due_date=timezone.now()), DATE, "2026-13-45 00:00:00")
    page = admin.get(DASHBOARD).content.decode()
    assert "Some rows cannot be read, so these parts are left out: timers." in page
    assert "worker-1" in page
