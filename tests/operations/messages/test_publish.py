"""publish_message: what is refused, what counts once, and what the caller's transaction does with it."""

import uuid
from datetime import timedelta

import pytest
from django.db import transaction

import jobexec
from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import InvalidJob, TooManyMessages
from jobexec.models import Message
from jobexec.operations.messages import publish as publishing
from jobexec.operations.messages.deliver import deliver

pytestmark = pytest.mark.every_database


def publish(alias, name="approved", key="4711", **more):
    return jobexec.publish_message(name, key=key, using=alias, **more)


def kept(alias):
    return Message.objects.using(alias).count()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"name": ""}, "name"),
        ({"name": None}, "name"),
        ({"name": "x" * 129}, "name"),
        ({"name": "a\0"}, "name"),
        ({"key": ""}, "key"),
        ({"key": None}, "key"),
        ({"key": True}, "key"),
        ({"key": 1.5}, "key"),
        ({"key": 10**5000}, "key"),
        ({"key": "x" * 256}, "key"),
        ({"key": "x "}, "key"),
        ({"message_id": ""}, "message_id"),
        ({"message_id": 5}, "message_id"),
        ({"tenant_id": None}, "tenant_id"),
        ({"tenant_id": "x" * 65}, "tenant_id"),
        ({"ttl": "an hour"}, "ttl"),
        ({"ttl": -1}, "ttl"),
        ({"ttl": "P1M"}, "ttl"),
        ({"ttl": "P31D"}, "MESSAGE_MAX_TTL"),
        ({"payload": object()}, "payload"),
        ({"payload": float("nan")}, "payload"),
        ({"payload": {"text": "\0"}}, "payload"),
        ({"payload": "x" * 65_536}, "MESSAGE_MAX_PAYLOAD"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(alias, given, named, django_assert_num_queries):
    with django_assert_num_queries(0, using=alias), pytest.raises(InvalidJob, match=named):
        publish(alias, **given)


@pytest.mark.parametrize("key", [4711, uuid.UUID(int=5)])
def test_keys_that_are_no_texts(alias, key):
    assert publish(alias, key=key).key == str(key)


@pytest.mark.parametrize(("ttl", "seconds"), [(None, None), (0, None), ("PT0S", None), (90, 90), ("PT1H", 3600)])
def test_how_long_it_is_kept(alias, frozen, ttl, seconds):
    row = publish(alias, ttl=ttl)
    expected = None if seconds is None else clock.now(alias) + timedelta(seconds=seconds)
    assert Message.objects.using(alias).get(pk=row.pk).expiration_time == expected


def test_a_message_id_counts_once_while_it_is_kept(alias, frozen):
    first = publish(alias, ttl="PT1H", message_id="m1", payload=1)
    second = publish(alias, ttl="PT1H", message_id="m1", payload=2)
    assert (first.is_duplicate, second.is_duplicate, second.pk, second.payload) == (False, True, first.pk, 1)
    for other in ({"key": "4712"}, {"name": "paid"}, {"tenant_id": "a"}, {"message_id": "M1"}, {"message_id": None}):
        assert not publish(alias, **{"ttl": "PT1H", "message_id": "m1", **other}).is_duplicate
    deliver(alias, 10)
    frozen.tick(timedelta(hours=1))
    again = publish(alias, ttl="PT1H", message_id="m1")
    assert not again.is_duplicate
    assert not Message.objects.using(alias).filter(pk=first.pk).exists()


@pytest.mark.parametrize("before", [timedelta(microseconds=1), timedelta(0)])
def test_the_moment_at_which_a_message_id_is_free(alias, frozen, before):
    publish(alias, ttl=1, message_id="m1")
    deliver(alias, 10)
    frozen.tick(timedelta(seconds=1) - before)
    assert publish(alias, ttl=1, message_id="m1").is_duplicate is bool(before)


def test_the_longest_time(alias, frozen):
    longest = get_settings().message_max_ttl
    assert publish(alias, ttl=longest).expiration_time == clock.now(alias) + longest
    with pytest.raises(InvalidJob, match="MESSAGE_MAX_TTL"):
        publish(alias, ttl=longest + timedelta(microseconds=1))


def test_an_expired_message_that_is_not_delivered_yet_still_counts(alias, frozen):
    first = publish(alias, ttl=1, message_id="m1")
    frozen.tick(timedelta(seconds=5))
    assert publish(alias, message_id="m1").pk == first.pk


def test_it_is_rolled_back_with_the_caller(alias):
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=alias):
        publish(alias, ttl="PT1H")
        1 / 0  # noqa: B018
    assert kept(alias) == 0


def test_each_has_a_number_of_its_own(alias):
    numbers = {publish(alias).pk for _ in range(5)}
    assert len(numbers) == 5
    assert all(0 < number < 2**63 for number in numbers)


def test_a_tenant_keeps_so_many(alias, configure, monkeypatch):
    configure(MESSAGE_MAX_KEPT=2)
    monkeypatch.setattr(publishing, "_BELIEVED", 0)
    for _ in range(2):
        publish(alias, ttl="PT1H")
    with pytest.raises(TooManyMessages, match="MESSAGE_MAX_KEPT"):
        publish(alias, ttl="PT1H")
    publish(alias)
    publish(alias, ttl="PT1H", tenant_id="other")
    assert kept(alias) == 4
