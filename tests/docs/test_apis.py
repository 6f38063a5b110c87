"""The endpoints of the how-to guide about APIs, with the real frameworks."""

import json
import sys
from contextlib import suppress
from importlib import import_module

import pytest
from django.contrib.auth.models import User
from django.urls import clear_url_caches

from demo_project.bookings.models import Booking
from jobexec.exceptions import DoNotRetry
from jobexec.handlers import registry
from jobexec.models import DeadLetterJob, Job
from jobexec.testing import ManualExecutor

for settings_of in ("rest_framework.settings", "ninja.conf"):
    with suppress(ImportError):
        import_module(settings_of)  # now, and not in a test: it connects a receiver for good

pytestmark = pytest.mark.django_db
TRIP = {
    "visitor": "Ada Byron",
    "email": "ada@example.org",
    "city": "Rome",
    "arrival": "2027-05-07",
    "departure": "2027-05-10",
}


@pytest.fixture(params=[("rest_framework", "djangorestframework"), ("ninja", "django-ninja")], ids=["drf", "ninja"])
def api(request, settings, client):
    """The module of docs/examples, whose endpoints are the site of this test; its user is logged in."""
    framework, package = request.param
    pytest.importorskip(framework, reason=f"{package} is not installed (extra test)")
    name = f"docs.examples.api_{framework}"
    with registry.isolated():
        module = import_module(name)
        settings.ROOT_URLCONF = name
        clear_url_caches()
        client.force_login(User.objects.create_user("ada"))
        yield module
    del sys.modules[name], sys.modules["docs.examples.api_jobs"]
    clear_url_caches()


def book(client, **changes):
    return client.post("/bookings/", json.dumps(TRIP | changes), content_type="application/json")


def test_a_booking_and_its_job_and_what_has_become_of_it(api, client):
    answer = book(client)
    assert answer.status_code == 202, answer.content
    url = answer["Location"]
    assert answer.json() == {"state": url}
    (job,), (booking,) = Job.objects.all(), Booking.objects.all()
    waiting = client.get(url)
    assert (waiting.json(), waiting["Retry-After"]) == ({"status": "READY", "attempts": 0, "result": None}, "2")
    ManualExecutor().run_until_empty()
    done = client.get(url)
    assert done.json() == {"status": "SUCCESSFUL", "attempts": 1, "result": {"booking": booking.pk, "nights": 3}}
    assert not done.has_header("Retry-After")
    assert str(job.pk) not in url


def test_neither_without_the_other(api, client, monkeypatch):
    enqueue = api.confirm.enqueue

    def fails(*args):
        enqueue(*args)
        raise RuntimeError("after the INSERT")

    monkeypatch.setattr(api.confirm, "enqueue", fails)
    client.raise_request_exception = False
    assert book(client).status_code == 500
    assert not Booking.objects.exists()
    assert not Job.objects.exists()


def test_what_is_wrong_is_no_job(api, client):
    assert book(client, arrival="soon").status_code in (400, 422)
    assert not Job.objects.exists()
    client.logout()
    assert book(client).status_code in (401, 403)
    assert not Booking.objects.exists()


def test_a_failure_is_told_without_its_error(api, client, monkeypatch):
    url = book(client)["Location"]

    def fails(booking_id):
        raise DoNotRetry("the password is secret")

    monkeypatch.setattr(api.confirm, "function", fails)
    with pytest.raises(DoNotRetry):
        ManualExecutor().run_until_empty()
    assert DeadLetterJob.objects.count() == 1
    answer = client.get(url)
    assert answer.json() == {"status": "FAILED", "attempts": 1, "result": None}
    assert b"secret" not in answer.content


def test_it_is_for_its_user_only(api, client):
    url = book(client)["Location"]
    assert client.get(url.replace("/confirmations/", "/confirmations/x")).status_code == 404
    client.force_login(User.objects.create_user("eve"))
    assert client.get(url).status_code == 404
    client.logout()
    assert client.get(url).status_code in (401, 403)


def test_a_result_that_is_no_longer_kept(api, client):
    url = book(client)["Location"]
    Job.objects.all().delete()
    assert client.get(url).status_code == 404
