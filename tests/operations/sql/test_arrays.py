"""PostgreSQL gets arrays of ids and numbers in binary; a cursor of Django's gets the same values."""

import math
from uuid import UUID

import pytest
from django.db import connections

from jobexec.operations.sql.dialect import dialect

pytestmark = [pytest.mark.databases("postgresql"), pytest.mark.transactional]

IDS = [UUID(int=0), UUID("01a21f2d-04d6-77f3-af46-261b7c99f968"), UUID(int=2**128 - 1)]
NUMBERS = [0.0, 1.2e-05, 1795817427.123456, -1.7976931348623157e308, 5e-324, math.inf]
QUERY = "SELECT %(ids)s::uuid[], %(numbers)s::float8[], pg_typeof(%(ids)s)::text, pg_typeof(%(numbers)s)::text"


def formats(cursor):
    """The formats of the parameters of the last statement, 1 for binary, in the order of their names' first use."""
    return list(cursor.cursor._query.formats)


@pytest.mark.parametrize(("ids", "numbers"), [([], []), (IDS[:1], NUMBERS[:1]), (IDS, NUMBERS)])
def test_they_arrive_in_binary(alias, ids, numbers):
    connection, spelled = connections[alias], dialect(alias)
    for _ in range(2):
        for _ in range(2):
            with spelled.cursor(connection) as cursor:
                cursor.execute(QUERY, {"ids": spelled.id_list(ids), "numbers": spelled.float_list(numbers)})
                assert cursor.fetchone() == (ids, numbers, "uuid[]", "double precision[]")
                assert formats(cursor) == [1, 1]
        connection.close()  # the driver's next connection must know them, too


def test_cursors_of_django_take_them_as_lists(alias):
    connection, spelled = connections[alias], dialect(alias)
    query = QUERY.split(", pg_typeof")[0]
    for before in (True, False):
        if not before:
            spelled.cursor(connection).close()
        with connection.cursor() as cursor:
            cursor.execute(query, {"ids": spelled.id_list(IDS), "numbers": spelled.float_list(NUMBERS)})
            assert cursor.fetchone() == (IDS, NUMBERS)


def test_other_lists_are_sent_as_ever(alias):
    connection, spelled = connections[alias], dialect(alias)
    with spelled.cursor(connection) as cursor:
        cursor.execute("SELECT %(ids)s::uuid[], %(numbers)s::float8[]", {"ids": [*IDS, None], "numbers": [1.5, None]})
        assert cursor.fetchone() == ([*IDS, None], [1.5, None])
