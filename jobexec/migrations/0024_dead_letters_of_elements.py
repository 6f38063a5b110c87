from django.db import migrations, models

from jobexec.models.base import PartialIndex


class Migration(migrations.Migration):
    dependencies = [("jobexec", "0023_exact_ids")]

    operations = [
        migrations.AddIndex(
            model_name="deadletterjob",
            index=PartialIndex(
                fields=["process_definition_id", "failed_activity_id"],
                name="jobexec_deadletterjob_element",
                where=~models.Q(process_definition_id=""),
            ),
        ),
    ]
