"""Empty a test database after a test that committed: Django's `flush`, made fast.

Django's own truncates every table and then recreates permissions and content types: 60 to 300 ms per test.
Most tests write to few tables. This command queries once which tables have rows and deletes those rows; permissions and
content types stay as the migrations created them. As in Django's, sequences are not reset.
"""

from typing import Any

from django.core.management.base import BaseCommand
from django.db import connections, transaction

KEPT = {"django_content_type", "auth_permission"}

# This number of deleted rows would slow down reads of the table until the next autovacuum.
WORTH_A_VACUUM = 10_000


class Command(BaseCommand):
    help = __doc__
    stealth_options = ("interactive", "reset_sequences", "allow_cascade", "inhibit_post_migrate")

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--database", default="default")

    def handle(self, **options: Any) -> None:
        connection = connections[options["database"]]
        with connection.constraint_checks_disabled():
            large = _delete_all(connection)
        if connection.vendor == "postgresql":
            for table in large:
                with connection.cursor() as cursor:
                    cursor.execute(f"VACUUM {table}")


def _delete_all(connection: Any) -> list[str]:
    """Delete all rows created by tests in one transaction; return the tables that had many."""
    large = []
    with transaction.atomic(connection.alias), connection.cursor() as cursor:
        for table in _tables_with_rows(connection, cursor):
            cursor.execute(f"DELETE FROM {table}")
            if cursor.rowcount > WORTH_A_VACUUM:
                large.append(table)
    return large


def _tables_with_rows(connection: Any, cursor: Any) -> list[str]:
    names = connection.introspection.django_table_names(only_existing=False, include_views=False)
    tables = [connection.ops.quote_name(name) for name in sorted(set(names) - KEPT)]
    cursor.execute("SELECT " + ", ".join(f"EXISTS(SELECT 1 FROM {table})" for table in tables))
    return [table for table, has_rows in zip(tables, cursor.fetchone(), strict=True) if has_rows]
