"""Ids of elements and names of nodes are compared exactly, which changes columns on MariaDB and MySQL only; the dead
letters of an element are found by an index."""

from django.db import migrations, models

from jobexec.models.base import PartialIndex
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
        migrations.AddIndex(
            model_name="deadletterjob",
            index=PartialIndex(
                fields=["process_definition_id", "failed_activity_id"],
                name="jobexec_deadletterjob_element",
                where=~models.Q(process_definition_id=""),
            ),
        ),
    ]
