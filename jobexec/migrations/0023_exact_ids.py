"""Ids of elements and names of nodes are compared exactly; changes columns on MariaDB and MySQL only."""

from django.db import migrations

from jobexec.models.fields import NameField
from jobexec.operations.sql.column_type import AlterColumnType

TABLES = (
    "blockedjob",
    "deadletterjob",
    "externalworkerjob",
    "historyjob",
    "incident",
    "job",
    "suspendedjob",
    "timerjob",
)


class Migration(migrations.Migration):
    dependencies = [("jobexec", "0022_operators_pages")]

    operations = [
        *(
            AlterColumnType(table, "failed_activity_id", NameField(blank=True, default="", max_length=255))
            for table in TABLES
        ),
        AlterColumnType("joblog", "node", NameField(blank=True, default="", max_length=255)),
    ]
