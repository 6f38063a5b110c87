"""Long arguments stay in the database until the job's thread asks for them."""

import random
import string
import subprocess
import sys

import pytest

from jobexec.exceptions import JobNotFound
from jobexec.models import Job
from jobexec.operations import acquire_jobs, release_jobs
from jobexec.operations.acquire.cursor import AcquisitionCursor
from jobexec.operations.values.acquired_job import LONG, ServedJobs
from tests.support.factories import LOCK_TIME, make_row
from tests.support.suite import databases

pytestmark = pytest.mark.every_database


@pytest.fixture(params=["fast", "portable"])
def page(alias, request):
    """A function that acquires everything, by both forms."""

    def acquire():
        cursor = AcquisitionCursor()
        cursor.not_plain = int(request.param == "portable")
        return acquire_jobs(alias, "one", 100, ServedJobs(), lock_time=LOCK_TIME, cursor=cursor).jobs

    return acquire


def text(length):
    """JSON of about that many characters that cannot be compressed to nothing."""
    return {"args": ["".join(random.Random(length).choices(string.ascii_letters, k=length))]}


def test_what_is_long_comes_when_it_is_asked_for(alias, page, django_assert_num_queries):
    make_row(Job, alias, rank=1, handler_configuration=text(100))
    make_row(Job, alias, rank=2, handler_configuration=text(LONG + 50_000))
    short, long = page()
    assert long.configuration is None
    with django_assert_num_queries(0, using=alias):
        assert short.arguments() == short.configuration
    with django_assert_num_queries(1, using=alias):
        assert len(long.arguments()) > LONG + 50_000
    assert long.configuration is None, "a thread lets go of them when its job has ended"


def test_whose_lock_was_lost_meanwhile_gets_nothing(alias, page):
    make_row(Job, alias, handler_configuration=text(LONG + 50_000))
    (job,) = page()
    release_jobs(alias, [job])
    with pytest.raises(JobNotFound, match="no longer locked"):
        job.arguments()
    (again,) = page()
    assert again.revision > job.revision
    with pytest.raises(JobNotFound):
        job.arguments()
    assert again.arguments()


_CHILD = """
import resource, sys
import django
django.setup()
from datetime import timedelta
from jobexec.operations import acquire_jobs
from jobexec.operations.values.acquired_job import ServedJobs
acquire_jobs("default", "nobody", 1, ServedJobs(categories=("none",)), lock_time=timedelta(minutes=5))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
jobs = acquire_jobs("default", "one", 200, ServedJobs(), lock_time=timedelta(minutes=5)).jobs
assert len(jobs) == 200, len(jobs)
for job in jobs:
    assert len(job.arguments()) > 900_000
growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(growth // 1024 if sys.platform == "darwin" else growth)  # macOS counts bytes
"""


@pytest.mark.nightly
@pytest.mark.transactional
def test_a_page_of_jobs_of_a_megabyte_each_does_not_fill_the_memory(alias):
    long = text(1_000_000)
    for _ in range(10):
        rows = [Job(handler_type="h", handler_configuration=long) for _ in range(20)]
        Job.objects.using(alias).bulk_create(rows, batch_size=5)
    child = [sys.executable, "-c", _CHILD]
    found = subprocess.run(child, env=databases.environment(alias), capture_output=True, text=True, timeout=100)
    assert found.returncode == 0, found.stderr
    kilobytes = int(found.stdout.split()[-1])
    assert kilobytes < 40_000, "200 jobs of 1 MB, and no more than a few of them at a time"
