"""Two aliases in TASKS, each with an engine of its own."""

import pytest
from django.db import transaction

from jobexec.backends.compat import TaskResultDoesNotExist, task_backends, task_finished
from jobexec.models import Job
from tests.support.executor import run_one
from tests.support.suite import databases

BACKEND = "jobexec.backends.JobExecutorBackend"
OTHER = databases.covered["postgresql"].alias if "postgresql" in databases.covered else "default"

pytestmark = [
    pytest.mark.django_db(databases=["default", OTHER], transaction=True),
    pytest.mark.skipif(OTHER == "default", reason="a second database is needed"),
]


@pytest.fixture
def second(shop, backend):
    """A task for each of the two."""
    backend(others={"second": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": {"DATABASE": OTHER}}})
    return shop.greet, shop.greet.using(backend="second")


def test_each_has_its_jobs_and_its_results(second):
    here, there = second
    first, other = here.enqueue("Ada"), there.enqueue("Eve")
    assert (Job.objects.using("default").count(), Job.objects.using(OTHER).count()) == (1, 1)
    told = []

    def receive(sender, task_result, **kwargs):
        told.append((task_result.backend, task_result.task.backend, task_result.return_value))

    task_finished.connect(receive)
    try:
        run_one("default")
        run_one(OTHER)
    finally:
        task_finished.disconnect(receive)
    assert told == [("default", "default", ["Hello Ada"]), ("second", "second", ["Hello Eve"])]
    assert here.get_result(first.id).return_value == ["Hello Ada"]
    assert there.get_result(other.id).return_value == ["Hello Eve"]
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result(other.id)


def test_the_transaction_that_counts_is_that_of_the_alias(second):
    here, there = second
    with transaction.atomic(using="default"):
        here.enqueue("Ada")
        there.enqueue("Eve")
        transaction.set_rollback(True, using="default")
    assert (Job.objects.using("default").count(), Job.objects.using(OTHER).count()) == (0, 1)
