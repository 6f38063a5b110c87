"""What a handler leaves behind does not reach the next job of the thread."""

import asyncio
import contextvars
import threading

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction
from django.utils import timezone, translation

from jobexec.executor.execution import execute_batch
from jobexec.executor.service import call_in_thread
from jobexec.models import Job, TimerJob
from tests.support.executor import Host
from tests.support.factories import acquire, make_job, tables_of
from tests.support.waiting import TIMEOUT

pytestmark = pytest.mark.transactional

variable = contextvars.ContextVar("variable", default="fresh")


@pytest.fixture
def one_thread(alias, handle):
    """A function that runs functions as jobs, one after the other in one thread, and returns the host."""

    def run(*functions, **columns):
        host = Host()
        for number, function in enumerate(functions):
            handle(function, name=f"tests.{number}")
            make_job(alias, handler_type=f"tests.{number}", **columns)
        jobs = sorted(acquire(alias), key=lambda job: job.handler_type)
        call_in_thread("jobexec-one", lambda: [execute_batch([job], host) for job in jobs], TIMEOUT)
        return host

    return run


def test_time_zone_language_and_context_variables_are_set_anew(one_thread):
    seen = []

    def change():
        timezone.activate("Asia/Tokyo")
        translation.activate("el")
        variable.set("stale")

    def look():
        seen.append((timezone.get_current_timezone_name(), translation.get_language(), variable.get()))

    one_thread(look, change, look)
    assert seen == [("UTC", "en-us", "fresh")] * 2


def test_an_open_transaction_is_rolled_back_and_the_job_has_failed(alias, one_thread):
    def leave_open():
        transaction.atomic(using=alias).__enter__()
        Group.objects.using(alias).create(name="lost")

    def look():
        assert not connections[alias].in_atomic_block
        Group.objects.using(alias).create(name="kept")

    one_thread(leave_open, look)
    assert [group.name for group in Group.objects.using(alias).all()] == ["kept"]
    row = TimerJob.objects.using(alias).get()
    assert row.exception_message == f"The handler left a transaction open on {alias}; it was rolled back."
    assert (row.retries, row.handler_type) == (2, "tests.0")


def test_a_transaction_left_open_in_an_atomic_job_does_not_lose_the_job(alias, one_thread):
    def leave_open():
        transaction.atomic(using=alias).__enter__()
        Group.objects.using(alias).create(name="lost")

    one_thread(leave_open, atomic=True)
    assert not Group.objects.using(alias).exists()
    assert "left a transaction open" in TimerJob.objects.using(alias).get().exception_message


def test_autocommit_left_off_is_no_success_either(alias, one_thread):
    def leave_off():
        transaction.set_autocommit(False, using=alias)
        Group.objects.using(alias).create(name="lost")

    one_thread(leave_off, lambda: Group.objects.using(alias).create(name="kept"))
    assert [group.name for group in Group.objects.using(alias).all()] == ["kept"]
    assert TimerJob.objects.using(alias).count() == 1


def test_the_error_of_a_job_that_also_left_a_transaction_open_is_what_is_recorded(alias, one_thread):
    def fail():
        transaction.atomic(using=alias).__enter__()
        raise ValueError("no")

    one_thread(fail)
    assert TimerJob.objects.using(alias).get().exception_message == "ValueError: no"


def _close_raw(alias):
    connections[alias].ensure_connection()
    connections[alias].connection.close()


def _break(alias):
    _close_raw(alias)
    connections[alias].errors_occurred = True


def _forget(alias):
    _close_raw(alias)
    Group.objects.using(alias).count()


@pytest.mark.parametrize("harm", [_break, _forget])
def test_broken_connections_cost_the_next_job_nothing(alias, one_thread, harm):
    one_thread(lambda: harm(alias), lambda: Group.objects.using(alias).create(name="kept"))
    assert Group.objects.using(alias).count() == 1
    assert not Job.objects.using(alias).filter(lock_owner__isnull=False).exists()
    assert TimerJob.objects.using(alias).filter(handler_type="tests.1").count() == 0


def test_event_loops_and_query_logs_are_not_kept(alias, one_thread, settings):
    settings.DEBUG = True
    loops, lengths = [], []

    def leave():
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        Group.objects.using(alias).count()
        loop.close()

    def look():
        lengths.append(sum("auth_group" in query["sql"] for query in connections[alias].queries_log))
        with pytest.raises(RuntimeError):
            loops.append(asyncio.get_event_loop_policy().get_event_loop())

    one_thread(leave, look)
    assert (loops, lengths) == ([], [0])


def test_a_handler_that_uses_no_database_opens_no_connection(alias, handle):
    seen = []
    handle(lambda: seen.append(threading.get_ident()), name="tests.0")
    make_job(alias, handler_type="tests.0")
    jobs, opened = acquire(alias), []

    class NoWriting(Host):
        def submit(self, outcome):
            opened.extend(each for each in connections.all(initialized_only=True) if each.connection is not None)

    call_in_thread("jobexec-one", lambda: execute_batch(jobs, NoWriting()), TIMEOUT)
    assert (len(seen), opened) == (1, [])
    assert tables_of(alias) == {jobs[0].id: [Job]}
