"""Messages in the admin: the list, a page, publishing, and jobs that wait."""

import json

import pytest

from jobexec import clock
from jobexec.models import AuditLog, BlockedJob, Job, Message
from jobexec.operations.messages.deliver import deliver

from . import data
from .common.test_tenancy import client_of
from .conftest import list_url, page_url

ADD = "/admin/jobexec/message/add/"


def waiting(**columns):
    return data.make(BlockedJob, **{"waits_for": "approved", "waits_for_key": "4711", **columns})


def asked(**given):
    return {"name": "approved", "key": "4711", "payload": "", "ttl": "", "tenant_id": "", "message_id": "", **given}


def test_the_list_says_what_is_kept_and_what_is_delivered(admin):
    data.message()
    data.message(expiration_time=None, delivery_time=clock.now(), key="4712")
    data.message(expiration_time=clock.now(), key="4713")
    text = admin.get(list_url(Message)).content.decode()
    for word in ("being delivered", ">kept<", ">expired<", "4712", "approved"):
        assert word in text


def test_its_page_hides_what_is_sensitive(admin):
    waiting()
    text = admin.get(page_url(data.message())).content.decode()
    assert "ann" in text and "●●●" in text and '"x"' not in text
    assert "?waits_for=approved&amp;waits_for_key=4711" in text


def test_publishing(staff):
    client = staff("publish_message")
    response = client.post(ADD, asked(payload='{"password": "x"}', ttl="PT1H", message_id="m1"))
    assert response.status_code == 302
    row = Message.objects.get()
    assert (row.name, row.key, row.payload, row.message_id) == ("approved", "4711", {"password": "x"}, "m1")
    assert (row.expiration_time - row.create_time).total_seconds() == 3600
    entry = AuditLog.objects.get(verb="publish_message")
    assert (entry.object_type, entry.object_id) == ("message", str(row.pk))
    assert "password" not in json.dumps(entry.new_value)
    again = client.post(ADD, asked(ttl="60", message_id="m1"))
    assert ("warning", "A message with this message id is already kept. Nothing was published.") in client.told(again)
    assert Message.objects.count() == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": ""}, "This field is required"),
        ({"key": ""}, "This field is required"),
        ({"payload": "{"}, "Enter a valid JSON"),
        ({"payload": "9" * 5000}, "Enter a valid JSON"),
        ({"payload": "[" * 201 + "]" * 201}, "Enter JSON of at most 1000000 characters, nested at most 200 deep."),
        ({"payload": "[" * 100_000 + "]" * 100_000}, "Enter JSON of at most"),
        ({"payload": f'"{"x" * 999_999}"'}, "Enter JSON of at most"),
        ({"payload": json.dumps("x" * 70_000)}, "MESSAGE_MAX_PAYLOAD"),
        ({"ttl": "soon"}, "ttl: expected a timedelta"),
    ],
)
def test_what_is_refused(staff, given, words):
    assert words in staff("publish_message").post(ADD, asked(**given)).content.decode()
    assert not Message.objects.exists()


def test_too_long_is_refused_by_the_operation(staff):
    client = staff("publish_message")
    response = client.post(ADD, asked(ttl="P31D"))
    assert "MESSAGE_MAX_TTL" in client.told(response)[0][1]
    assert not Message.objects.exists()


def test_only_with_the_permission(staff):
    assert staff().post(ADD, asked()).status_code == 403
    assert not Message.objects.exists()


def test_only_for_the_tenants_of_the_user(settings, db):
    settings.JOBEXEC = {"ADMIN_TENANTS": "tests.admin.tenants.of_user"}
    client = client_of("acme")
    assert "one of your tenants" in client.post(ADD, asked(tenant_id="beta")).content.decode()
    assert client.post(ADD, asked(tenant_id="acme")).status_code == 302
    assert Message.objects.get().tenant_id == "acme"


def test_publishing_from_the_jobs_that_wait(staff):
    client, rows = staff("publish_message"), [waiting(), waiting(), waiting(waits_for_key="4712")]
    rows.append(data.make(BlockedJob, resource="pay.example"))
    response = client.act(BlockedJob, "publish_message", rows, payload="true", ttl="")
    told = dict(client.told(response))
    assert told["success"] == "The messages of 3 jobs published."
    assert "it does not wait for a message" in told["warning"]
    assert sorted(Message.objects.values_list("key", "payload")) == [("4711", True), ("4712", True)]
    while deliver("default", 10).more:
        pass
    assert Job.objects.count() == 3


def test_going_on_without_it(staff):
    client, row = staff("reschedule_job"), waiting()
    response = client.act(BlockedJob, "end_wait", [row])
    assert client.told(response) == [("success", "The wait of 1 job has ended.")]
    assert deliver("default", 10).ended == 1
    assert Job.objects.get().message is None


def test_deleting(staff):
    client, row = staff("delete_message"), data.message()
    response = client.act(Message, "delete_selected", [row])
    assert client.told(response) == [("success", "1 message deleted.")]
    assert not Message.objects.exists()


@pytest.mark.gate
def test_a_waiting_job_says_what_it_waits_for(admin):
    row = waiting(waits_until=clock.now())
    data.make(BlockedJob, resource="pay.example", waits_for=None)
    text = admin.get(list_url(BlockedJob)).content.decode()
    assert "waits for message" in text and "4711" in text and "pay.example" in text
    for query, count in (("waits=message", 1), ("waits=resource", 1), ("waits_for=approved&waits_for_key=4711", 1)):
        assert len(admin.get(f"{list_url(BlockedJob)}?{query}").context["cl"].result_list) == count
    page = admin.get(page_url(row)).content.decode()
    assert "waits for key" in page.lower()


def test_a_job_shows_the_message_that_it_has_received(admin):
    text = '{"name": "approved", "key": "1", "payload": {"password": "x", "by": "ann"}, "id": null, "number": 5}'
    page = admin.get(page_url(data.make(Job, message=text))).content.decode()
    assert "ann" in page and "●●●" in page and "&quot;x&quot;" not in page
