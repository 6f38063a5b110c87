"""A project of django-tenants, with a schema for each tenant; `JOBS_IN` says where the tables of jobs are."""

import os

from tests import settings
from tests.settings import *  # noqa: F403

JOBS_IN = os.environ["JOBS_IN"]

settings.DATABASES["default"]["ENGINE"] = "django_tenants.postgresql_backend"
DATABASE_ROUTERS = ["django_tenants.routers.TenantSyncRouter"]
TENANT_MODEL = "customers.Customer"
TENANT_DOMAIN_MODEL = "customers.Domain"
SHARED_APPS = [
    "django_tenants",
    "tests.process.schemas.customers",
    *(app for app in settings.INSTALLED_APPS if app.startswith(("django.contrib.", "rangefilter"))),
]
TENANT_APPS = ["django.contrib.contenttypes", "tests.process.schemas.orders"]
(SHARED_APPS if JOBS_IN == "shared" else TENANT_APPS).append("jobexec")
INSTALLED_APPS = list(dict.fromkeys([*SHARED_APPS, *TENANT_APPS]))

JOBEXEC = {**settings.JOBEXEC, "CATEGORIES": ["default"]}
if JOBS_IN == "shared":
    JOBEXEC["MIDDLEWARE"] = ["docs.examples.schemas.in_the_tenants_schema"]
