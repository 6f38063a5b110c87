"""The examples of "Serve tenants in their schemas"."""

import os
from inspect import iscoroutinefunction

from django.db.backends.signals import connection_created
from django.dispatch import receiver
from django.utils.decorators import sync_and_async_middleware
from django_tenants.utils import get_public_schema_name, schema_context


@sync_and_async_middleware
def in_the_tenants_schema(call):
    if iscoroutinefunction(call):
        return call

    def run(context):
        with schema_context(context.tenant_id or get_public_schema_name()):
            return call(context)

    return run


@receiver(connection_created)
def stay_in_schema(connection, **kwargs):
    schema = os.environ.get("EXECUTOR_SCHEMA")
    if schema:
        connection.set_schema(schema)
