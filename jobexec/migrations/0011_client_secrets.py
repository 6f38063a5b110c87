"""A client of the gateways may have two secrets while it gets a new one."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobexec', '0010_audit_log'),
    ]

    operations = [
        migrations.AddField(
            model_name='gatewayclient',
            name='previous_expiration_time',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='gatewayclient',
            name='previous_token_digest',
            field=models.CharField(blank=True, editable=False, max_length=64, null=True, unique=True),
        ),
    ]
