"""What the database says at the end, as plain values that can be kept in a file; and whether there is rest."""

from typing import Any

from django.db import connection

from . import jobs, operators, processes, tasks


def make_tables() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE chaos_effect (job_id varchar(36), pid int)")
        cursor.execute("CREATE TABLE chaos_ledger (record varchar(60), pid int)")
        cursor.execute("CREATE TABLE chaos_step (instance varchar(36), element varchar(60), pid int)")


def look() -> dict[str, Any]:
    """Everything that the rules ask for. The nodes must have ended."""
    return {**operators.look(), **tasks.look(), **processes.look(), **jobs.look()}
