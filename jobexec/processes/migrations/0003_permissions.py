"""Permissions to modify, restart and suspend."""

from typing import ClassVar

from django.db import migrations


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobexec_processes", "0002_keys")]
    operations: ClassVar = [
        migrations.AlterModelOptions(
            name="processdefinition",
            options={
                "default_permissions": ("view", "delete"),
                "permissions": [("suspend_processdefinition", "Can suspend and activate process definitions")],
                "verbose_name": "process definition",
                "verbose_name_plural": "process definitions",
            },
        ),
        migrations.AlterModelOptions(
            name="processinstance",
            options={
                "default_permissions": ("view", "delete"),
                "permissions": [
                    ("start_processinstance", "Can start process instances"),
                    ("cancel_processinstance", "Can cancel process instances"),
                    ("change_variables", "Can change the variables of process instances"),
                    ("modify_processinstance", "Can modify process instances"),
                    ("restart_processinstance", "Can restart process instances"),
                    ("suspend_processinstance", "Can suspend and activate process instances"),
                ],
                "verbose_name": "process instance",
                "verbose_name_plural": "process instances",
            },
        ),
    ]
