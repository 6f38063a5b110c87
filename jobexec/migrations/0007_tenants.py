"""Unique keys, and the locks of process instances, belong to a tenant."""

from django.db import migrations, models
from django.db.models import Exists, OuterRef, Subquery

import jobexec.models.fields

_JOBS = ("Job", "TimerJob", "SuspendedJob", "DeadLetterJob", "ExternalWorkerJob")


def tell_tenants(apps, schema_editor):
    """The tenant of a key is that of the job that has it, or had it: then the log may know."""
    using = schema_editor.connection.alias
    keys = apps.get_model("jobexec", "JobKey").objects.using(using)
    for name in _JOBS:
        _tell(keys, apps.get_model("jobexec", name)._base_manager.using(using).filter(pk=OuterRef("job_id")))
    log = apps.get_model("jobexec", "JobLog").objects.using(using)
    _tell(keys, log.filter(job_id=OuterRef("job_id")))


def _tell(keys, jobs):
    tenants = jobs.exclude(tenant_id="").order_by().values("tenant_id")[:1]
    found = keys.filter(tenant_id="").annotate(known=Subquery(tenants)).filter(known__isnull=False)
    tenant_of = dict(found.values_list("pk", "known"))
    for tenant in set(tenant_of.values()):
        own = sorted(key for key, its in tenant_of.items() if its == tenant)
        for start in range(0, len(own), 500):
            keys.filter(pk__in=own[start : start + 500]).update(tenant_id=tenant)


def forget_tenants(apps, schema_editor):
    """On the way back: of several tenants with one key the first keeps it; nobody holds the locks of tenants any more."""
    using = schema_editor.connection.alias
    keys = apps.get_model("jobexec", "JobKey").objects.using(using)
    same = keys.filter(handler_type=OuterRef("handler_type"), key=OuterRef("key"), pk__lt=OuterRef("pk"))
    later = list(keys.filter(Exists(same)).values_list("pk", flat=True))
    for start in range(0, len(later), 500):
        keys.filter(pk__in=later[start : start + 500]).delete()
    apps.get_model("jobexec", "ExclusiveLock").objects.using(using).filter(pk__contains="\x1f").delete()


class Migration(migrations.Migration):
    dependencies = [("jobexec", "0006_external")]

    operations = [
        migrations.AlterField(
            model_name="exclusivelock",
            name="process_instance_id",
            field=jobexec.models.fields.NameField(max_length=320, primary_key=True, serialize=False),
        ),
        migrations.AddField(
            model_name="jobkey",
            name="tenant_id",
            field=jobexec.models.fields.NameField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.AddConstraint(
            model_name="jobkey",
            constraint=models.UniqueConstraint(
                fields=("handler_type", "key", "tenant_id"), name="jobexec_jobkey_of_tenant"
            ),
        ),
        migrations.RemoveConstraint(model_name="jobkey", name="jobexec_jobkey_key"),
        migrations.RunPython(tell_tenants, forget_tenants),
    ]
