"""The names of columns, which people read."""

from django.apps import apps
from django.utils.functional import Promise

from jobexec.models.labels import LABELS

TABLES = list(apps.get_app_config("jobexec").get_models())


def test_every_column_has_a_name_that_is_translated():
    named = {field.name: field.verbose_name for table in TABLES for field in table._meta.concrete_fields}
    assert all(isinstance(label, Promise) for label in named.values())
    assert named == LABELS


def test_the_names_are_no_part_of_migrations():
    for table in TABLES:
        for field in table._meta.concrete_fields:
            assert field.deconstruct()[3].get("verbose_name") in (None, "ID"), field
