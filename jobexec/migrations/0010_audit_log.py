"""The audit log: what operators change."""

import django.core.serializers.json
import jobexec.models.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobexec', '0009_execute_job'),
    ]

    operations = [
        migrations.CreateModel(
            name='AuditLog',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('timestamp', models.DateTimeField(db_index=True)),
                ('operator_type', models.CharField(choices=[('user', 'user'), ('client', 'client'), ('command', 'command'), ('executor', 'executor')], max_length=16)),
                ('operator', jobexec.models.fields.NameField(blank=True, default='', help_text='A user of the site or the system, a client or a node.', max_length=255)),
                ('via', models.CharField(blank=True, default='', help_text='The admin, a gateway, or the command with its action.', max_length=64)),
                ('origin', models.CharField(blank=True, default='', help_text='The network address, or the host of the command or node.', max_length=255)),
                ('verb', jobexec.models.fields.NameField(max_length=64)),
                ('object_type', jobexec.models.fields.NameField(help_text='The table that the object was in.', max_length=64)),
                ('object_id', jobexec.models.fields.NameField(blank=True, db_index=True, default='', help_text='Empty if there are several.', max_length=255)),
                ('tenant_id', jobexec.models.fields.NameField(blank=True, max_length=64, null=True)),
                ('count', models.PositiveBigIntegerField(default=1, help_text='The number of changed objects.')),
                ('scope', models.JSONField(blank=True, encoder=django.core.serializers.json.DjangoJSONEncoder, help_text='The selection, if there are several objects.', null=True)),
                ('old_value', models.JSONField(blank=True, encoder=django.core.serializers.json.DjangoJSONEncoder, null=True)),
                ('new_value', models.JSONField(blank=True, encoder=django.core.serializers.json.DjangoJSONEncoder, null=True)),
            ],
            options={
                'verbose_name': 'audit log entry',
                'verbose_name_plural': 'audit log',
                'default_permissions': ('view',),
            },
        ),
    ]
