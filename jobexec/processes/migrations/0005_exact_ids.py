"""Ids of elements and version tags are compared exactly; changes columns on MariaDB and MySQL only."""

from django.db import migrations

from jobexec.models.fields import NameField
from jobexec.operations.sql.column_type import AlterColumnType


class Migration(migrations.Migration):
    dependencies = [("jobexec_processes", "0004_received_messages")]

    operations = [
        AlterColumnType("activityinstance", "element_id", NameField(max_length=255)),
        AlterColumnType("eventsubscription", "element_id", NameField(max_length=255)),
        AlterColumnType("execution", "element_id", NameField(max_length=255)),
        AlterColumnType("execution", "flow_id", NameField(blank=True, max_length=255, null=True)),
        AlterColumnType(
            "processdefinition",
            "code_deployment",
            NameField(
                blank=True, default="", help_text="The code deployment that contains its handlers.", max_length=100
            ),
        ),
        AlterColumnType("processdefinition", "version_tag", NameField(blank=True, default="", max_length=255)),
        AlterColumnType("processinstance", "end_element", NameField(blank=True, default="", max_length=255)),
        AlterColumnType("usertask", "element_id", NameField(max_length=255)),
    ]
