"""What is said about enqueued jobs, and how a failing assertion says what is there instead."""

from datetime import UTC, datetime, timedelta
from unittest.mock import ANY
from uuid import UUID

import pytest
from django.db import transaction

from jobexec.testing import EnqueuedJob, assert_enqueued, captured_jobs, controlled_clock, refute_enqueued
from tests.support.factories import make_job

ORDER = UUID("0190a5a0-0000-7000-8000-000000000007")


@pytest.fixture
def mail(handle, alias):
    """A job with arguments of several kinds, and what it finds."""

    def mail(order, to="nobody", *, urgent=False, password="", options=None):
        pass

    return handle(mail, database=alias, sensitive=("to",))


class TestFound:
    def test_by_what_is_named_only(self, alias, mail, executor):
        row = mail.using(priority=5).enqueue(7, urgent=True)
        (found,) = executor.assert_enqueued(mail)
        assert isinstance(found, EnqueuedJob)
        assert (found.id, found.handler, found.args, found.kwargs) == (row.pk, "shop.mail", (7,), {"urgent": True})
        assert (found.priority, found.using) == (5, alias)
        assert executor.assert_enqueued("shop.mail", args=[7], priority=5, count=1)
        executor.refute_enqueued(mail, args=[8])
        executor.refute_enqueued(mail, priority=4)

    def test_by_name_or_by_position_alike(self, alias, mail):
        mail.enqueue(7, to="somebody")
        assert_enqueued(mail, kwargs={"order": 7}, using=alias)
        assert_enqueued(mail, args=[7, "somebody"], using=alias)
        refute_enqueued(mail, args=[7, "nobody"], using=alias)

    def test_by_an_alias(self, alias, handle):
        handle(lambda: None, name="shop.new", aliases=["shop.old"]).using(database=alias).enqueue()
        assert_enqueued("shop.old", using=alias)
        with pytest.raises(AssertionError):
            refute_enqueued("shop.old", using=alias)

    @pytest.mark.parametrize(
        ("target", "given", "said"),
        [
            ("shop.mial", {}, "No handler 'shop.mial' is registered; shop has shop.mail"),
            ("shop.mail", {"kwargs": {"oder": 7}}, "shop.mail: got an unexpected keyword argument 'oder'"),
            ("shop.mail", {"args": range(9)}, "shop.mail: too many positional arguments"),
            ("shop.mail", {"args": [7], "kwargs": {"order": 7}}, "shop.mail: multiple values for argument 'order'"),
        ],
    )
    def test_what_no_job_can_have(self, alias, mail, target, given, said):
        for check in (assert_enqueued, refute_enqueued):
            with pytest.raises(TypeError, match=said):
                check(target, **given, using=alias)
        refute_enqueued("payment", using=alias)  # may be the type of an external job

    def test_by_values_as_they_are_given_and_not_as_they_are_stored(self, alias, mail):
        when = datetime(2026, 3, 1, tzinfo=UTC)
        mail.enqueue(ORDER, options={"when": when, "rows": (1, 2)})
        assert_enqueued(mail, args=[ORDER], kwargs={"options": {"when": when, "rows": (1, 2)}}, using=alias)
        assert_enqueued(mail, kwargs={"options": {"when": ANY, "rows": [1, ANY]}}, using=alias)
        refute_enqueued(mail, kwargs={"options": {"when": when, "rows": (1, 3)}}, using=alias)

    def test_by_when_it_is_due(self, alias, mail):
        with controlled_clock() as clock:
            mail.using(delay=timedelta(hours=1)).enqueue(1)
            assert_enqueued(mail, delay=3600, using=alias)
            assert_enqueued(mail, at=clock.now + timedelta(hours=1, seconds=1), using=alias)
            refute_enqueued(mail, delay=timedelta(hours=1, seconds=2), using=alias)
            refute_enqueued(mail, at=clock.now, using=alias)

    def test_tasks_go_by_their_module_path(self, alias):
        class Task:
            name = "send"
            module_path = "shop.tasks.send"

        make_job(alias, handler_type="shop.tasks.send")
        assert_enqueued(Task(), using=alias)

    def test_retries_and_suspended_jobs_wait_too_but_dead_letters_do_not(self, alias, shop, executor):
        shop.breaks.enqueue(1)
        executor.run_due(reraise=False)
        executor.assert_enqueued(shop.breaks, attempts=1)

    def test_jobs_of_functions_that_nobody_knows(self, alias):
        make_job(alias, handler_type="other.app", handler_configuration={"args": [1, 2], "kwargs": {"a": 3}})
        assert_enqueued("other.app", args=[1, 2], kwargs={"a": 3}, using=alias)
        refute_enqueued("other.app", args=[2], using=alias)


def message_of(function, *args, **kwargs):
    with pytest.raises(AssertionError) as raised:
        function(*args, **kwargs)
    return str(raised.value)


class TestNotFound:
    def test_nothing_is_there(self, alias, mail):
        message = message_of(assert_enqueued, mail, args=[7], using=alias)
        assert message == f"Expected a job on {alias!r}, found none:\n    shop.mail(order=7)\nThere are no other jobs."

    def test_the_nearest_comes_first_with_its_differences(self, alias, mail):
        make_job(alias, handler_type="other.app")
        mail.using(priority=1).enqueue(1)
        mail.using(priority=5).enqueue(8, urgent=True)
        lines = message_of(assert_enqueued, mail, args=[7], priority=5, using=alias).splitlines()
        assert lines == [
            f"Expected a job on {alias!r}, found none:",
            "    shop.mail(order=7, priority=5)",
            "2 other of shop.mail, the nearest first:",
            "    shop.mail(order=8, urgent=True) [Job]",
            "      ! order: expected 7, got 8",
            "    shop.mail(order=1) [Job]",
            "      ! order: expected 7, got 1",
            "      ! priority: expected 5, got 1",
            "Other jobs: 1 of other.app",
        ]

    def test_what_is_missing_and_what_is_due_at_another_time(self, alias, mail):
        mail.enqueue(7)
        message = message_of(assert_enqueued, mail, kwargs={"urgent": True}, delay=60, using=alias)
        assert "! urgent: expected True, got nothing" in message
        assert "! delay: expected 0:01:00, got 0:00:00" in message

    def test_sensitive_values_are_not_shown(self, alias, mail):
        mail.enqueue(7, to="jane@example.org", password="hush hush", options={"token": "abcdef"})
        expected = {"to": "joe@example.org", "password": "psst", "options": {"token": "ghijkl"}}
        message = message_of(assert_enqueued, mail, kwargs=expected, using=alias)
        assert "! to: expected ●●●, got ●●●" in message
        assert "! options: expected {'token': '●●●'}, got {'token': '●●●'}" in message
        for secret in ("jane", "joe", "hush", "psst", "abcdef", "ghijkl"):
            assert secret not in message

    def test_other_numbers(self, alias, mail):
        mail.enqueue(7)
        message = message_of(assert_enqueued, mail, count=2, using=alias)
        assert message.splitlines()[0] == f"Expected 2 jobs on {alias!r}, found 1:"
        assert "  = shop.mail(order=7) [Job]" in message
        assert assert_enqueued(mail, args=[8], count=0, using=alias) == []

    def test_what_should_not_be_there(self, alias, mail):
        for _ in range(7):
            mail.enqueue(7)
        message = message_of(refute_enqueued, mail, using=alias)
        assert message.splitlines()[:3] == [f"Expected no job on {alias!r} like", "    shop.mail()", "but found 7:"]
        assert message.endswith("    and 2 more")

    def test_the_trace_of_a_failure_ends_in_the_test(self, alias, mail):
        with pytest.raises(AssertionError) as raised:
            assert_enqueued(mail, using=alias)
        shown = [entry for entry in raised.traceback if not entry.ishidden(raised)]
        assert [entry.path.name for entry in shown] == ["test_assertions.py"]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"colour": "red"}, "'colour' is not a column of a job; arguments are given as args"),
        ({"at": datetime(2026, 1, 1)}, "at: expected an aware datetime"),
    ],
)
def test_what_no_job_can_be_is_an_error(mail, alias, kwargs, message):
    with pytest.raises(TypeError, match=message):
        assert_enqueued(mail, using=alias, **kwargs)


def test_what_is_no_handler_is_an_error(alias):
    with pytest.raises(TypeError, match="Expected the function of a job, a task, or the name"):
        assert_enqueued(5, using=alias)


class TestCaptured:
    def test_what_is_enqueued_in_the_block_in_order(self, alias, shop, mail):
        shop.send.enqueue(0)
        with captured_jobs() as captured:
            shop.send.enqueue(1)
            mail.enqueue_many([(2,), (3,)])
            mail.using(delay=60).enqueue(4)
        shop.send.enqueue(5)
        assert [(each.handler, *each.args) for each in captured] == [
            ("shop.send", 1),
            ("shop.mail", 2),
            ("shop.mail", 3),
            ("shop.mail", 4),
        ]
        assert captured[3].due_date
        assert len(captured.of(mail)) == 3
        assert {each.using for each in captured} == {alias}
        captured.assert_enqueued(mail, args=[4], delay=60, count=1)
        captured.refute_enqueued(shop.send, args=[5])

    def test_what_has_run_is_there_all_the_same(self, alias, shop, executor):
        with executor.captured_jobs() as captured:
            shop.send.enqueue(1)
            executor.run_until_empty()
        assert [each.args for each in captured] == [(1,)]
        executor.refute_enqueued(shop.send)

    def test_what_is_rolled_back_is_not(self, alias, shop):
        with captured_jobs(alias) as captured:
            shop.send.enqueue(1)
            with pytest.raises(ValueError, match="no"), transaction.atomic(using=alias):
                shop.send.enqueue(2)
                assert len(captured) == 2
                raise ValueError("no")
        assert [each.args for each in captured] == [(1,)]

    @pytest.mark.transactional
    def test_and_so_without_a_transaction(self, alias, shop):
        with captured_jobs(alias) as captured:
            shop.send.enqueue(1)
            with pytest.raises(ValueError, match="no"), transaction.atomic(using=alias):
                shop.send.enqueue(2)
                raise ValueError("no")
            with transaction.atomic(using=alias):
                shop.send.enqueue(3)
        assert [each.args for each in captured] == [(1,), (3,)]

    def test_of_one_database_only(self, alias, shop):
        with captured_jobs("elsewhere") as captured:
            shop.send.enqueue(1)
        assert not captured
        assert repr(captured) == "No captured jobs"

    def test_messages(self, alias, shop):
        with captured_jobs() as captured:
            shop.send.enqueue(1)
        message = message_of(captured.assert_enqueued, shop.send, args=[2])
        assert message.startswith("Expected a job among the captured ones, found none:\n    shop.send(order=2)")
        assert "! order: expected 2, got 1" in message
        assert message_of(captured.refute_enqueued, shop.send).startswith("Expected no job among the captured ones")
        assert repr(captured) == "Captured jobs:\n  shop.send(order=1) [Job]"


class TestWaitingForTheCommit:
    def test_what_is_promised_is_enqueued(self, alias, shop, executor):
        with captured_jobs(alias) as captured:
            shop.send.using(transaction=alias, delay=60).enqueue_on_commit(1)
            (waits,) = captured.waiting
        assert (waits.handler, waits.args, waits.job) == ("shop.send", (1,), None)
        assert not captured
        executor.assert_enqueued(shop.send, args=[1], count=1)
        message = message_of(executor.refute_enqueued, shop.send)
        assert "  = shop.send(order=1) [waits for the commit, due " in message

    def test_when_it_is_due_and_its_columns(self, alias, shop, executor):
        shop.send.using(transaction=alias, delay=60, priority=5).enqueue_on_commit(1)
        (waits,) = executor.assert_enqueued(shop.send, delay=60, priority=5, exclusive=True, tenant_id="")
        assert (waits.job, waits.priority) == (None, 5)
        executor.refute_enqueued(shop.send, delay=0)
        message = message_of(executor.refute_enqueued, shop.send, priority=5)
        assert "  = shop.send(order=1) [waits for the commit, due " in message
        message = message_of(executor.assert_enqueued, shop.send, priority=6, delay=30)
        assert "! priority: expected 6, got 5" in message and "! delay: expected 0:00:30, got 0:0" in message

    def test_of_an_encrypted_job_and_one_with_a_resource_of_its_own(self, alias, handle, executor, configure):
        keys = {"ENCRYPTION_KEYS": {"2026": lambda: b"k" * 32}}
        configure(**keys, RESOURCES={"api:*": {"limit": 1}})
        call = handle(lambda order: None, "shop.call", database=alias, encrypted=True, resource="api:{}".format)
        call.using(transaction=alias).enqueue_on_commit(1)
        executor.assert_enqueued(call, args=[1], delay=0, resource="api:1")

    def test_the_hooks_of_a_transaction_that_never_commits_can_be_run(self, alias, shop, executor):
        with captured_jobs(alias, execute_on_commit=True) as captured:
            shop.send.using(transaction=alias).enqueue_on_commit(1)
            transaction.on_commit(lambda: shop.send.enqueue(2), using=alias)
            assert not captured
        assert [each.args for each in captured] == [(1,), (2,)]
        assert [each.value for each in executor.run_until_empty()] == ["sent 1", "sent 2"]
