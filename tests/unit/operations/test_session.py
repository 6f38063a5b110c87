"""Which statements change a session, and which errors say that a connection is gone."""

import pytest
from django.db import IntegrityError, InterfaceError, OperationalError
from psycopg import sql

from jobexec.operations.sql.session import changes_session, changes_transaction, is_lost


@pytest.mark.parametrize(
    "statement",
    [
        "SET ROLE other",
        "set search_path to x",
        "  -- why\n/* and */ SET statement_timeout = 0",
        "SET SESSION AUTHORIZATION other",
        "SELECT 1; SET ROLE other",
        "RESET ALL",
        "BEGIN",
        "start transaction read only",
        "LOCK TABLES a WRITE",
        "PRAGMA query_only = on",
        "ATTACH DATABASE 'x' AS y",
        "CREATE TEMP TABLE x (a int)",
        "CREATE TEMPORARY TABLE x (a int)",
        "SELECT set_config('role', 'other', false)",
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_try_advisory_lock_shared(1)",
        "SELECT GET_LOCK('a', 1)",
        "SET STATEMENT max_statement_time = 1 FOR SET ROLE other",
        "SET STATEMENT max_statement_time = 1 FOR DELETE FROM a; SET ROLE other",
        b"SET ROLE other",
        sql.SQL("SELECT 1"),
    ],
)
def test_what_changes_a_session(statement):
    assert changes_session(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        'SELECT "a" FROM "b" WHERE "set" = 1 FOR UPDATE SKIP LOCKED',
        "UPDATE a SET b = 1",
        "INSERT INTO a VALUES ('x')",
        "SET LOCAL statement_timeout = 5",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET CONSTRAINTS ALL IMMEDIATE",
        "SET STATEMENT sql_safe_updates = 1 FOR DELETE FROM `a` WHERE `a`.`id` IN (1)",
        "SAVEPOINT a",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "CREATE TABLE template (a int)",
        "SELECT pg_advisory_xact_lock(1)",
        b"SELECT 1",
        "/* one of many */ " * 1000 + "SELECT 1",
    ],
    ids=lambda statement: str(statement)[:40],
)
def test_what_does_not(statement):
    assert not changes_session(statement)


def from_driver(error, cause):
    error.__cause__ = cause
    return error


class _Psycopg(Exception):
    __module__ = "psycopg.errors"

    def __init__(self, sqlstate):
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (from_driver(OperationalError("x"), _Psycopg("57P01")), True),
        (from_driver(OperationalError("x"), _Psycopg("08006")), True),
        (from_driver(OperationalError("the connection is closed"), _Psycopg(None)), True),
        (from_driver(OperationalError("x"), _Psycopg("40P01")), False),
        (from_driver(OperationalError("x"), _Psycopg("57014")), False),
        (OperationalError(2013, "Lost connection"), True),
        (InterfaceError(0, ""), True),
        (OperationalError(1213, "Deadlock"), False),
        (OperationalError("database is locked"), False),
        (IntegrityError(2013, "x"), False),
        (from_driver(ValueError("x"), OperationalError(2006, "Gone")), True),
        (ValueError("x"), False),
    ],
)
def test_which_errors_say_that_a_connection_is_gone(error, lost):
    assert is_lost(error) is lost


def test_errors_that_lead_to_each_other_end():
    first, second = ValueError(), ValueError()
    first.__context__, second.__context__ = second, first
    assert not is_lost(first)


@pytest.mark.parametrize(
    "statement",
    [
        "SET LOCAL lock_timeout = 10",
        " set transaction read only",
        b"SET CONSTRAINTS ALL IMMEDIATE",
        "-- for a while\nSET LOCAL search_path = shop",
        "SELECT 1; SET LOCAL lock_timeout = 10",
        "SELECT set_config('shop.tenant', '7', true)",
        "SET ROLE shop",
        object(),
    ],
)
def test_what_later_statements_of_a_transaction_feel(statement):
    assert changes_transaction(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        "UPDATE block SET clock = 1",
        "INSERT INTO shop (set_at) VALUES (1)",
        "SHOW lock_timeout",
        "CALL settle()",
    ],
)
def test_what_they_do_not_feel(statement):
    assert not changes_transaction(statement)
