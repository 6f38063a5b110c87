"""What the log says of a job that a worker outside did: which worker, and which client of a gateway reported it."""

from jobexec.models import JobLog

from .. import data
from ..conftest import page_url


def test_the_story_of_a_job_names_worker_and_client(admin):
    job = data.dead_letter()
    data.log(job, node="payment-worker-7", client="the shop's workers", wait=None, duration=None)
    facts = [event.facts for event in admin.get(page_url(job)).context["story"].events]
    assert ("attempt 1", "on payment-worker-7", "reported by the shop's workers", "retries left: 0") in facts


def test_so_does_the_entry_of_the_log(admin):
    entry = data.log(data.dead_letter(), client="the shop's workers")
    assert JobLog.objects.get(pk=entry.pk).client == "the shop's workers"
    assert "the shop&#x27;s workers" in admin.get(page_url(entry)).content.decode()
