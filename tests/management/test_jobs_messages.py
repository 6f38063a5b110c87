"""`manage.py jobs message`."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError

from jobexec.models import AuditLog, Message
from jobexec.operations import publish_message
from tests.support.factories import make_job
from tests.support.jobs_command import jobs, objects

pytestmark = pytest.mark.usefixtures("frozen", "engines")

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def publish(alias, **more):
    return publish_message("approved", key="4711", using=alias, **more)


def test_the_list(alias):
    make_job(alias, waits_for="approved", waits_for_key="1")
    row = publish(alias, ttl=60, payload=5, message_id="m1")
    Message.objects.using(alias).update(delivery_time=None, delivered=3)
    publish(alias)
    code, text = jobs("message", alias=alias)
    head, pending, kept, waiting = text.splitlines()
    assert code == 0 and head.split()[:4] == ["number", "name", "key", "state"]
    assert "being delivered" in pending
    assert kept.split()[:4] == [str(row.pk), "approved", "4711", "kept"]
    assert waiting == "Jobs that wait for a message: 1"
    _, (_, told) = objects("message", "list", alias=alias)
    assert (told["number"], told["message_id"], told["delivered"]) == (row.pk, "m1", 3)


def test_there_are_none(alias):
    code, text = jobs("message", alias=alias)
    assert (code, text.splitlines()[0]) == (0, "No messages.")


def test_show(alias):
    row = publish(alias, ttl=60, payload={"password": "x", "by": "ann"})
    _, text = jobs("message", "show", str(row.pk), alias=alias)
    assert '"by": "ann"' in text and '"password": "●●●"' in text
    _, (told,) = objects("message", "show", str(row.pk), alias=alias)
    assert told["payload"] == {"password": "●●●", "by": "ann"}
    assert jobs("message", "show", "1", alias=alias) == (3, "There is no such message.\n")


def test_publish(alias):
    given = ["--payload", '{"by": "ann"}', "--ttl", "PT1H", "--message-id", "m1", "--tenant", "acme"]
    code, text = jobs("message", "publish", "approved", "4711", *given, alias=alias)
    row = Message.objects.using(alias).get()
    assert (code, text) == (0, f"Message {row.pk} published.\n")
    assert (row.payload, row.tenant_id, row.expiration_time) == ({"by": "ann"}, "acme", NOW + timedelta(hours=1))
    assert AuditLog.objects.using(alias).get().verb == "publish_message"
    code, text = jobs("message", "publish", "approved", "4711", *given, alias=alias)
    assert code == 3 and "Nothing was published" in text
    _, (told,) = objects("message", "publish", "approved", "1", "--ttl", "90", alias=alias)
    assert told["is_duplicate"] is False
    assert Message.objects.using(alias).get(pk=told["number"]).expiration_time == NOW + timedelta(seconds=90)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["publish", "", "1"], "name: expected"),
        (["publish", "approved", ""], "key: expected"),
        (["publish", "approved", "1", "--ttl", "soon"], "ttl: expected"),
    ],
)
def test_what_is_refused(alias, given, words):
    code, text = jobs("message", *given, alias=alias)
    assert code == 2 and words in text
    assert not Message.objects.using(alias).exists()


def test_delete(alias):
    row = publish(alias)
    assert jobs("message", "delete", str(row.pk), alias=alias) == (0, f"Message {row.pk} deleted.\n")
    assert jobs("message", "delete", str(row.pk), alias=alias) == (3, "There is no such message.\n")


def test_a_payload_that_is_no_json(alias):
    with pytest.raises(CommandError, match=r"expected JSON, got '\{'"):
        jobs("message", "publish", "approved", "1", "--payload", "{", alias=alias)


@pytest.mark.gate
@pytest.mark.parametrize(
    "payload", ["[" * 201 + "]" * 201, "[" * 100_000, f'"{"x" * 999_999}"'], ids=["deep", "deeper", "long"]
)
@pytest.mark.databases("sqlite")
def test_a_payload_beyond_the_limits_of_json(alias, payload):
    with pytest.raises(CommandError, match="argument --payload: expected JSON of at most 1,000,000 characters, nested"):
        jobs("message", "publish", "approved", "1", "--payload", payload, alias=alias)
