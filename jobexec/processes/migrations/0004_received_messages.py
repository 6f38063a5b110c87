from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobexec_processes", "0003_permissions")]

    operations = [
        migrations.AddField(
            model_name="eventsubscription",
            name="received",
            field=models.JSONField(blank=True, editable=False, null=True),
        ),
    ]
