"""Which deployment a node has in its code."""

import jobexec.models.fields
from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('jobexec', '0011_client_secrets'),
    ]

    operations = [
        migrations.AddField(
            model_name='executornode',
            name='deployment',
            field=jobexec.models.fields.NameField(blank=True, db_default='', default='', help_text='The one that it has in its code.', max_length=255),
        ),
    ]
