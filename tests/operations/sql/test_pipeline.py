"""Statements that are sent together answer as if they had been sent one after the other."""

import pytest
from django.db import DataError, IntegrityError, connections, transaction

from jobexec.models import Job, Resource
from jobexec.operations.resources.promote_statement import lock_resources
from jobexec.operations.sql.dialect import dialect
from tests.support.factories import make_row
from tests.support.threads import finish, held, start, wait_until_waiting

pytestmark = pytest.mark.transactional

INSERT = "INSERT INTO jobexec_resource SELECT * FROM jobexec_resource"  # a second row with the same name


@pytest.fixture
def resource(alias, configure):
    configure(RESOURCES={"pay.example": {"limit": 9}})
    return Resource.objects.using(alias).create(name="pay.example")


def test_rows_are_fetched_after_the_block(alias, resource):
    connection = connections[alias]
    with transaction.atomic(alias), connection.cursor() as one, connection.cursor() as two:
        with dialect(alias).pipeline(connection):
            one.execute("UPDATE jobexec_resource SET promoted = 7")
            two.execute("SELECT name, promoted FROM jobexec_resource")
        assert list(two.fetchall()) == [("pay.example", 7)]
    assert Resource.objects.using(alias).get().promoted == 7


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize(("statement", "error"), [(INSERT, IntegrityError), ("SELECT 1 / 0", DataError)])
@pytest.mark.parametrize("first", [True, False])
def test_an_error_is_one_of_django_and_the_transaction_is_rolled_back(alias, resource, statement, error, first):
    connection = connections[alias]
    statements = [statement, "UPDATE jobexec_resource SET promoted = 7"]
    with pytest.raises(error), transaction.atomic(alias), dialect(alias).pipeline(connection):
        for each in statements if first else statements[::-1]:
            with connection.cursor() as cursor:
                cursor.execute(each)
    assert Resource.objects.using(alias).get().promoted == 0


@pytest.mark.databases("postgresql")
def test_permits_are_counted_once_the_row_is_locked(alias, resource):
    with held(alias) as inside:
        inside(lambda: lock_resources(alias, ["pay.example"]))
        second = start(alias, lambda: _locked(alias))
        wait_until_waiting(alias, second)
        inside(lambda: make_row(Job, alias, resource="pay.example"))
    assert finish(second) == 1


def _locked(alias):
    with transaction.atomic(alias):
        return lock_resources(alias, ["pay.example"])[1]["pay.example"]
