"""Which deployment a node has in its code; suspensions of a version of a process definition, and of that of a tenant."""

from django.db import migrations, models

import jobexec.models.fields


class Migration(migrations.Migration):
    dependencies = [("jobexec", "0011_client_secrets")]

    operations = [
        migrations.AddField(
            model_name="executornode",
            name="deployment",
            field=jobexec.models.fields.NameField(
                blank=True, db_default="", default="", help_text="The value declared in the code.", max_length=255
            ),
        ),
        migrations.AlterField(
            model_name="suspension",
            name="scope",
            field=models.CharField(
                choices=[
                    ("id", "job"),
                    ("process_instance_id", "process instance"),
                    ("process_definition_id", "process definition version"),
                    ("tenant_process_definition", "process definition of a tenant"),
                    ("process_definition_key", "process definition"),
                    ("job_definition_id", "job definition"),
                    ("tenant_id", "tenant"),
                ],
                max_length=32,
            ),
        ),
        migrations.AlterField(
            model_name="suspension", name="value", field=jobexec.models.fields.NameField(max_length=320)
        ),
    ]
