"""Messages in an executor: it delivers them at once, ends waits, and asks the database for nothing that is not used."""

from datetime import timedelta

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

import jobexec
from jobexec import clock, current_job
from jobexec.conf import get_settings
from jobexec.executor.loops.messages import Messages
from jobexec.executor.nodes.node import Node
from jobexec.models import BlockedJob, ExecutorNode, Message, TimerJob
from jobexec.operations.maintenance.heartbeat_probes import MESSAGES_SOON, questions
from jobexec.runtime.threads import SELDOM
from tests.support.executor import all_gone
from tests.support.factories import make_job
from tests.support.waiting import until


@pytest.fixture
def seen(handle):
    seen = []
    handle(lambda: seen.append(current_job().message), name="tests.pay")
    return seen


def waiting(alias, key="1", **columns):
    return make_job(alias, handler_type="tests.pay", waits_for="approved", waits_for_key=key, **columns)


def publish(alias, key="1", **more):
    return jobexec.publish_message("approved", key=key, using=alias, **more)


@pytest.mark.transactional
@pytest.mark.every_database
class TestDelivery:
    def test_at_once_to_all_that_wait(self, alias, make_executor, seen):
        make_executor().start()
        rows = [waiting(alias) for _ in range(5)]
        until(lambda: not BlockedJob.objects.using(alias).filter(next_look__isnull=False).exists())
        publish(alias, payload=7)
        until(lambda: all_gone(alias))
        assert [message.payload for message in seen] == [7] * len(rows)
        until(lambda: not Message.objects.using(alias).exists())

    def test_of_messages_that_came_before(self, alias, make_executor, seen):
        publish(alias, payload=8, ttl=3600)
        make_executor().start()
        waiting(alias)
        until(lambda: all_gone(alias))
        assert [message.payload for message in seen] == [8]
        assert Message.objects.using(alias).get().delivered == 1

    @pytest.mark.gate
    def test_the_end_of_a_wait(self, alias, make_executor, seen):
        make_executor().start()
        waiting(alias, waits_until=clock.now(alias) + timedelta(milliseconds=300))
        until(lambda: all_gone(alias))
        assert seen == [None]

    def test_then_its_date(self, alias, make_executor, seen):
        make_executor().start()
        waiting(alias, due_date=clock.now(alias) + timedelta(hours=1))
        publish(alias)
        until(lambda: TimerJob.objects.using(alias).filter(message__isnull=False).exists())
        assert seen == []


@pytest.fixture
def node(alias):
    settings = get_settings()
    node = Node(settings, settings.engine(alias), dict)
    node.register()
    return node


@pytest.mark.every_database
class TestAsking:
    def test_only_after_it_was_asked(self, alias, node):
        messages = Messages(node, lambda: True)
        assert messages.deliver() == SELDOM
        waiting(alias)
        publish(alias)
        with CaptureQueriesContext(connections[alias]) as queries:
            assert messages.deliver() == SELDOM
        assert len(queries) == 0
        messages.ask()
        while messages.deliver() == 0:
            pass
        assert not BlockedJob.objects.using(alias).exists()

    def test_without_notifications_it_polls_less_and_less(self, alias, node):
        messages = Messages(node, lambda: False)
        longest = node.engine.max_wait.total_seconds()
        assert messages.deliver() == longest
        waiting(alias)
        first = messages.deliver()
        waits = [first, *(messages.deliver() for _ in range(8))]
        assert waits == sorted(waits)
        assert (waits[0] < longest / 5, waits[-1]) == (True, longest)

    def test_the_heartbeat_sees_what_is_to_be_done(self, alias, node):
        def seen():
            asked = questions(alias, "me", clock.now(alias) + timedelta(seconds=10))
            return ExecutorNode.objects.using(alias).annotate(found=asked[MESSAGES_SOON]).values_list("found").get()[0]

        assert not seen()
        row = waiting(alias, waits_until=clock.now(alias) + timedelta(hours=1))
        assert seen()
        BlockedJob.objects.using(alias).filter(pk=row.pk).update(next_look=row.waits_until)
        assert not seen()
        publish(alias)
        assert seen()
