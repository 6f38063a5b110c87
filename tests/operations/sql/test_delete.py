"""DELETE with a list of values waits for no other row, however small the table is and however long the list."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from jobexec.models import ExclusiveLock, JobProgress, MeterLog
from jobexec.operations.sql.delete import delete_rows
from jobexec.operations.sql.locks import atomic, lock_rows, waiting_at_most
from jobexec.processes.models import TaskCandidate
from tests.support.threads import finish, held, start, wait_until_waiting

pytestmark = pytest.mark.transactional

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
COUNT = 12


def id_of(number):
    return UUID(int=number + 1)


#: How a row of a table is made from a number, and what its column for the list then has.
TABLES = {
    "a UUID": (JobProgress, "pk", id_of, lambda n: JobProgress(job_id=id_of(n), attempt=1, done=0, update_time=NOW)),
    "a number": (MeterLog, "pk", lambda n: n + 1, lambda n: MeterLog(id=n + 1, name="m", timestamp=NOW, value=1)),
    "a long name": (
        ExclusiveLock,
        "pk",
        lambda n: f"{'é' * 310}{n}",
        lambda n: ExclusiveLock(process_instance_id=f"{'é' * 310}{n}", lock_owner="n1", acquisition=id_of(n)),
    ),
    "another column": (
        TaskCandidate,
        "task_id",
        id_of,
        lambda n: TaskCandidate(task_id=id_of(n), kind="user", name="x"),
    ),
}
each_table = pytest.mark.parametrize("table", TABLES)


def fill(alias, table):
    model, column, value, row = TABLES[table]
    rows = model._base_manager.using(alias)
    rows.bulk_create([row(number) for number in range(COUNT)])
    return rows, column, value


def left(rows, column, value):
    found = set(rows.values_list(column, flat=True))
    return [number for number in range(COUNT) if value(number) in found]


@each_table
def test_the_rows_of_the_list_are_deleted_and_counted(alias, table):
    rows, column, value = fill(alias, table)
    assert delete_rows(rows.filter(**{f"{column}__in": [value(n) for n in (3, 1, 3, 7, COUNT + 1)]})) == 3
    assert left(rows, column, value) == [0, 2, 4, 5, 6, 8, 9, 10, 11]
    assert delete_rows(rows.filter(**{f"{column}__in": []})) == 0
    assert delete_rows(rows.filter(**{f"{column}__in": [value(COUNT)]})) == 0
    assert len(left(rows, column, value)) == 9


@pytest.mark.databases("postgresql", "mariadb")
@each_table
def test_no_other_row_is_waited_for(alias, table):
    """MariaDB read a table of a hundred rows as a whole, for thirty of them, with FORCE INDEX (PRIMARY), too."""
    rows, column, value = fill(alias, table)
    theirs = [value(n) for n in (0, 5, 11)]
    ours = [value(n) for n in range(COUNT * 3) if n not in (0, 5, 11)]
    with held(alias) as inside:
        inside(lambda: list(lock_rows(rows.filter(**{f"{column}__in": theirs}))))
        with atomic(alias), waiting_at_most(alias, 5):
            assert delete_rows(rows.filter(**{f"{column}__in": ours})) == COUNT - 3
    assert left(rows, column, value) == [0, 5, 11]


@each_table
def test_further_conditions_hold_too(alias, table):
    rows, column, value = fill(alias, table)
    listed = rows.filter(**{f"{column}__in": [value(n) for n in range(4)]})
    assert delete_rows(listed.exclude(**{column: value(2)}).filter(**{f"{column}__gte": value(1)})) == 2
    assert left(rows, column, value) == [0, 2, *range(4, COUNT)]
    assert delete_rows(listed.none()) == 0
    assert delete_rows(listed.filter(pk__in=[])) == 0
    assert len(left(rows, column, value)) == 10


@pytest.mark.databases("postgresql", "mariadb")
def test_a_row_that_changes_meanwhile_is_left(alias):
    """The statement waits for the transaction that changes a listed row, and checks the further condition again."""
    rows = ExclusiveLock.objects.using(alias)
    rows.bulk_create(
        [ExclusiveLock(process_instance_id=f"p{n}", lock_owner="n1", acquisition=id_of(n)) for n in (1, 2, 3)]
    )
    with held(alias) as inside:
        inside(lambda: rows.filter(pk="p2").update(lock_owner="n2"))
        deletion = start(alias, lambda: delete_rows(rows.filter(pk__in=["p3", "p2", "p1"], lock_owner="n1")))
        wait_until_waiting(alias, deletion)
    assert finish(deletion) == 2
    assert list(rows.values_list("pk", flat=True)) == ["p2"]
