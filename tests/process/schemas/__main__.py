"""Make the schemas named by the arguments, and jobs: in the shared tables or in those of each schema."""

import sys

import django
from django.core.management import call_command
from django.db import connection

django.setup()

from django_tenants.utils import schema_context  # noqa: E402

from tests.process.schemas import settings  # noqa: E402
from tests.process.schemas.customers.models import Customer  # noqa: E402
from tests.process.schemas.orders import jobs  # noqa: E402

call_command("migrate_schemas", shared=True, verbosity=0)
for schema in sys.argv[1:]:
    Customer(schema_name=schema).save(verbosity=0)
for place, schema in enumerate(sys.argv[1:], 1):
    with schema_context(schema):
        options = {"tenant_id": connection.schema_name} if settings.JOBS_IN == "shared" else {}
        for number in range(3):
            jobs.place.using(**options).enqueue(100 * place + number)
        jobs.place_with_its_job.using(**options).enqueue(100 * place + 50)
        jobs.fail_after_writing.using(**options).enqueue(100 * place + 60)
