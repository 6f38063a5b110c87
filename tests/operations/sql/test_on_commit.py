"""Callbacks after the commit."""

import logging
from functools import partial

import pytest
from django.db import connections, transaction

from jobexec.operations.sql.on_commit import after_commit

pytestmark = pytest.mark.transactional


class Fails:
    def __call__(self):
        raise ArithmeticError("too late")


def fail(error):
    raise error("too late")


@pytest.mark.parametrize("callback", [Fails(), partial(fail, ArithmeticError), lambda: fail(ArithmeticError)])
@pytest.mark.parametrize("atomic", [True, False])
def test_an_error_reaches_neither_the_caller_nor_the_other_callbacks(alias, caplog, atomic, callback):
    called = []
    with caplog.at_level(logging.ERROR, "django.db.backends.base"):
        if atomic:
            with transaction.atomic(using=alias):
                after_commit(connections[alias], callback)
                after_commit(connections[alias], partial(called.append, 1))
                assert (called, caplog.records) == ([], [])
        else:
            after_commit(connections[alias], callback)
            after_commit(connections[alias], partial(called.append, 1))
    assert called == [1]
    (record,) = caplog.records
    assert "too late" in record.getMessage()


def test_it_is_forgotten_with_its_transaction(alias):
    called = []
    with pytest.raises(ArithmeticError), transaction.atomic(using=alias):
        after_commit(connections[alias], partial(called.append, 1))
        fail(ArithmeticError)
    assert called == []
