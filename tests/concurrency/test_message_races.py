"""Messages and jobs that wait, in transactions that do not see each other: neither is lost, and none counts twice."""

import os
import signal
import threading

import pytest
from django.db import connections, transaction
from django.db.utils import OperationalError

from jobexec.models import BlockedJob, Job, Message, SuspendedJob
from jobexec.operations import activate, cancel, publish_message, suspend
from jobexec.operations.messages import deliver as delivering
from jobexec.operations.messages.deliver import deliver
from jobexec.operations.sql.errors import is_conflict
from tests.support.factories import make_job, table_of
from tests.support.threads import finish, held, start, together, wait_until_waiting

pytestmark = pytest.mark.transactional
servers = pytest.mark.databases("postgresql", "mariadb")


def waiting(alias, key="1"):
    return make_job(alias, waits_for="approved", waits_for_key=key)


def publish(alias, key="1", **more):
    return publish_message("approved", key=key, using=alias, **more)


def rounds(alias, limit=100):
    """Deliver until nothing is left to do at once; on InnoDB the database may end one of two transactions."""
    received = 0
    while True:
        try:
            done = deliver(alias, limit)
        except OperationalError as error:
            if not is_conflict(error):
                raise
            continue
        received += done.received
        if not done.more:
            return received


@servers
@pytest.mark.every_database
@pytest.mark.parametrize("first", ["job", "message"])
@pytest.mark.parametrize("look_between", [True, False])
def test_a_job_and_a_message_that_do_not_see_each_other(alias, first, look_between):
    """Each is written while the other's transaction is open; after each commit a node may look, or may not."""
    with held(alias) as one:
        one(lambda: waiting(alias) if first == "job" else publish(alias, ttl=60))
        with held(alias) as other:
            other(lambda: publish(alias, ttl=60) if first == "job" else waiting(alias))
        if look_between:
            rounds(alias)
        assert Job.objects.using(alias).count() == 0
    rounds(alias)
    assert Job.objects.using(alias).count() == 1


@servers
@pytest.mark.every_database
@pytest.mark.parametrize("first", ["job", "message"])
def test_the_same_under_repeatable_read(alias, first):
    begun, done = threading.Barrier(2), threading.Barrier(2)

    def side(act):
        mariadb = connections[alias].vendor == "mysql"
        if mariadb:  # of the connection of this thread
            with connections[alias].cursor() as cursor:
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        with transaction.atomic(using=alias):
            with connections[alias].cursor() as cursor:
                if not mariadb:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                cursor.execute("SELECT COUNT(*) FROM jobexec_message")  # the snapshot
            begun.wait(20)
            act()
            done.wait(20)

    connections[alias].ensure_connection()
    sides = [
        start(alias, lambda: side(lambda: waiting(alias))),
        start(alias, lambda: side(lambda: publish(alias, ttl=60))),
    ]
    for each in sides if first == "job" else reversed(sides):
        finish(each)
    rounds(alias)
    assert Job.objects.using(alias).count() == 1


@servers
@pytest.mark.every_database
def test_a_look_that_began_before_the_publication_loses_nothing(alias, monkeypatch):
    """A node looks for the messages of a new job, sees none, and is overtaken by the whole delivery of one."""
    row = waiting(alias)
    seen, go = threading.Event(), threading.Event()
    real = delivering._messages_of

    def slow(*args, **how):
        found = real(*args, **how)
        if threading.current_thread() is not threading.main_thread():
            seen.set()
            assert go.wait(20)
        return found

    monkeypatch.setattr(delivering, "_messages_of", slow)
    looking = start(alias, lambda: deliver(alias, 10))
    assert seen.wait(20)
    publish(alias)  # without ttl: it has to reach the job whose row is locked
    assert deliver(alias, 10).received == 0
    assert Message.objects.using(alias).exists()
    go.set()
    finish(looking)
    Message.objects.using(alias).update(delivery_time=Message.objects.using(alias).get().create_time)
    rounds(alias)
    assert table_of(alias, row) is Job
    assert not Message.objects.using(alias).exists()


@servers
@pytest.mark.every_database
def test_a_job_that_is_being_moved_still_receives_it(alias):
    row = waiting(alias)
    with held(alias) as inside:
        inside(lambda: suspend(row.pk, using=alias))
        publish(alias)
        assert deliver(alias, 10).received == 0
        assert Message.objects.using(alias).exists()
    assert table_of(alias, row) is SuspendedJob
    Message.objects.using(alias).update(delivery_time=Message.objects.using(alias).get().create_time)
    assert deliver(alias, 10).received == 1
    activate(row.pk, using=alias)
    assert table_of(alias, row) is Job


@pytest.mark.gate
def test_several_nodes_deliver_each_message_once(alias):
    rows = [waiting(alias, str(number % 3)) for number in range(60)]
    for key in range(3):
        publish(alias, str(key), ttl=60)
    received = together(alias, *(lambda: rounds(alias, 7) for _ in range(4)))
    received.append(rounds(alias))
    assert sum(received) == 60
    assert {table_of(alias, row) for row in rows} == {Job}
    assert 0 < sum(Message.objects.using(alias).values_list("delivered", flat=True)) <= 60


@pytest.mark.gate
def test_jobs_and_messages_that_come_at_the_same_time(alias):
    def jobs():
        for number in range(40):
            waiting(alias, str(number % 5))

    def messages():
        for number in range(5):
            publish(alias, str(number), ttl=60)

    together(alias, jobs, messages, lambda: rounds(alias), lambda: rounds(alias), jobs)
    rounds(alias)
    assert (Job.objects.using(alias).count(), BlockedJob.objects.using(alias).count()) == (80, 0)


@servers
@pytest.mark.every_database
@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_the_same_message_id_in_two_transactions(alias, ending):
    class Stop(Exception):
        pass

    def other():
        return publish(alias, ttl=60, message_id="m")

    published = threading.Event()
    go = threading.Event()

    def first():
        try:
            with transaction.atomic(using=alias):
                row = publish(alias, ttl=60, message_id="m")
                published.set()
                assert go.wait(20)
                if ending == "rollback":
                    raise Stop
        except Stop:
            return None
        return row

    one = start(alias, first)
    assert published.wait(20)
    two = start(alias, other)
    wait_until_waiting(alias, two)
    go.set()
    kept, found = finish(one), finish(two)
    assert found.is_duplicate == (ending == "commit")
    assert Message.objects.using(alias).count() == 1
    assert kept is None or kept.pk == found.pk


@servers
@pytest.mark.every_database
def test_an_open_publication_keeps_no_one_waiting(alias):
    """Jobs begin to wait, others are delivered, while a transaction that publishes stays open."""
    publish(alias, "2", ttl=60, message_id="m")
    rounds(alias)
    with held(alias) as inside:
        inside(lambda: publish(alias, "1", ttl=60, message_id="n"))
        assert inside(lambda: publish(alias, "2", ttl=60, message_id="m")).is_duplicate
        rows = [waiting(alias, "1"), waiting(alias, "2")]
        assert rounds(alias) == 1
        assert [table_of(alias, row) for row in rows] == [BlockedJob, Job]
        cancel(rows[0].pk, using=alias)


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("line", ["_messages_of", "go_on", "_note"])
def test_a_process_killed_at_any_line_leaves_nothing_undone(alias, line, monkeypatch):
    """What a delivery has not committed when its process is killed is done by the next one."""
    rows = [waiting(alias) for _ in range(3)]
    deliver(alias, 10)
    publish(alias)
    late = waiting(alias, "2")
    publish(alias, "2", ttl=60)
    connections[alias].close()
    child = os.fork()
    if not child:
        real = getattr(delivering, line)

        def killed(*args, **how):
            real(*args, **how)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(delivering, line, killed)
        try:
            rounds(alias)
        finally:
            os._exit(3)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    rounds(alias)
    assert {table_of(alias, row) for row in (*rows, late)} == {Job}
    assert Message.objects.using(alias).count() == 1
