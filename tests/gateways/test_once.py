"""Calls that must not happen twice."""

import pytest
from django.db import InterfaceError, OperationalError

from jobexec.runtime.database_threads import OutcomeUnknown, once


class _Server(Exception):
    """An error of a driver; one that no server has sent has no SQLSTATE."""

    def __init__(self, sqlstate):
        self.sqlstate = sqlstate


_Server.__module__ = "psycopg.errors"


def failing(sqlstate, kind=OperationalError):
    error = kind("it failed")
    error.__cause__ = _Server(sqlstate)

    def verb(using):
        raise error

    return verb


@pytest.mark.parametrize("sqlstate", ["57014", "53100", "40001", "55P03"])
def test_an_error_of_a_statement_says_that_nothing_has_happened(db, sqlstate):
    with pytest.raises(OperationalError):
        once(failing(sqlstate), "default")


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
@pytest.mark.parametrize("sqlstate", ["57P01", None])
def test_after_a_lost_connection_it_may_have(db, sqlstate, kind):
    with pytest.raises(OutcomeUnknown):
        once(failing(sqlstate, kind), "default")
