"""A whole executor runs tasks beside jobs, on every database."""

import threading
from datetime import timedelta

import pytest

import jobexec
from jobexec import clock
from jobexec.backends.compat import TaskResultStatus, task_backends, task_finished, task_started
from jobexec.models import BlockedJob, DeadLetterJob, JobDefinition
from jobexec.operations import requeue
from tests.support.executor import all_gone
from tests.support.gate import Counted
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.transactional
sqlite = pytest.mark.databases("sqlite")


def refreshed(result):
    result.refresh()
    return result


@pytest.mark.gate
def test_tasks_run_beside_jobs_and_their_results_stay(alias, shop, make_executor):
    executor = make_executor(NODE_NAME="berlin")
    ran = threading.Event()
    plain = jobexec.job(name="tests.plain")(ran.set)
    results = [shop.greet.enqueue(f"number {number}") for number in range(20)]
    results += [shop.wait.enqueue(number) for number in range(20)]
    mail, later = shop.send.enqueue(1), shop.greet.using(delay=0.2).enqueue("later")
    plain.using(database=alias).enqueue()
    executor.start()
    until(lambda: all_gone(alias))
    assert executor.stop()
    assert ran.is_set()
    assert {refreshed(result).status for result in (*results, mail, later)} == {TaskResultStatus.SUCCESSFUL}
    assert [result.return_value for result in results[20:]] == list(range(1, 21))
    assert {tuple(result.worker_ids) for result in results} == {("berlin",)}
    assert later.started_at >= later.enqueued_at
    assert all("async" in thread for _, thread in shop.seen["wait"]), "async tasks run on the lane"
    row = JobDefinition.objects.using(alias).get(pk=shop.pay.module_path)
    assert (row.retry_plan, row.exclusive, row.sensitive) == ("R3/PT1S", False, ["card"])


@pytest.mark.gate
def test_tasks_wait_for_their_resource(alias, shop, make_executor):
    counted = Counted()
    shop.hooks.append(counted.run)
    executor = make_executor(RESOURCES={"pay.example": {"limit": 1}})
    charge = jobexec.options(resource="pay.example")(shop.hooked)
    results = [charge.enqueue() for _ in range(3)]
    assert {refreshed(result).status for result in results} == {TaskResultStatus.READY}
    assert BlockedJob.objects.using(alias).filter(resource="pay.example", task_backend="default").count() == 3
    executor.start()
    until(lambda: counted.now == 1)
    other = shop.greet.enqueue("Ada")
    until(lambda: refreshed(other).is_finished)
    assert (counted.now, BlockedJob.objects.using(alias).count()) == (1, 2), "a thread is free"
    counted.gate.set()
    until(lambda: all_gone(alias))
    assert (counted.most, counted.done) == (1, 3)
    assert {refreshed(result).status for result in results} == {TaskResultStatus.SUCCESSFUL}


@pytest.mark.gate
def test_retries_dead_letter_and_requeue(alias, shop, make_executor):
    finished = []

    def receive(sender, task_result, **kwargs):
        finished.append(str(task_result.status))

    tries, healed = [], threading.Event()

    def work(context):
        tries.append(context.attempt)
        if not healed.is_set():
            raise KeyError("no")
        return context.attempt

    shop.hooks.append(work)
    task_finished.connect(receive)
    try:
        executor = make_executor()
        result = jobexec.options(shop.with_context, retries="R2/PT0.05S").enqueue()
        executor.start()
        until(lambda: refreshed(result).is_finished)
        assert (result.status, result.attempts, len(result.errors)) == (TaskResultStatus.FAILED, 2, 2)
        healed.set()
        requeue(DeadLetterJob.objects.using(alias).get())
        until(lambda: refreshed(result).is_finished)
        assert (result.status, result.return_value, tries) == (
            TaskResultStatus.SUCCESSFUL,
            tries[-1],
            [1, 2, tries[-1]],
        )
        until(lambda: len(finished) == 2)
        assert finished == ["FAILED", "SUCCESSFUL"]
        assert executor.stop()
    finally:
        task_finished.disconnect(receive)


@pytest.mark.gate
def test_exclusive_tasks_of_a_process_instance_run_one_after_the_other(alias, shop, make_executor):
    lock, running, most = threading.Lock(), set(), []
    beside = threading.Event()

    def work(number):
        with lock:
            running.add(number)
            most.append(len(running))
            if len(running) > 1:
                beside.set()
        beside.wait(0.01)  # long enough for another one to come, if anything lets it
        with lock:
            running.discard(number)

    shop.hooks.append(work)
    for number in range(10):
        shop.hooked.using(process_instance_id="order-1").enqueue(number)
    make_executor(THREADS=4).start()
    until(lambda: all_gone(alias))
    assert most == [1] * 10


def test_priority_order_in_one_thread(alias, shop, make_executor, configure):
    seen = []
    shop.hooks.append(seen.append)
    executor = make_executor({"PRIORITY_AGEING": None}, THREADS=1, ASYNC_JOBS=0)
    for priority in (0, -100, 100, 5):
        shop.hooked.using(priority=priority).enqueue(priority)
    executor.start()
    until(lambda: all_gone(alias))
    assert seen == [100, 5, 0, -100]


@pytest.mark.gate
def test_a_task_for_later_waits(alias, shop, make_executor):
    times = []
    shop.hooks.append(lambda: times.append(clock.now(alias)))
    executor = make_executor()
    executor.start()
    due = clock.now(alias) + timedelta(seconds=0.5)
    shop.hooked.using(run_after=due).enqueue()
    until(lambda: times)
    assert times[0] > due - timedelta(seconds=0.3)  # a heartbeat may have set the clock anew


@sqlite
def test_async_tasks_with_their_context_on_the_lane(alias, shop, make_executor):
    executor = make_executor()
    result = shop.wait_with_context.enqueue(5)
    executor.start()
    until(lambda: refreshed(result).is_finished)
    assert result.return_value == 5
    ((number, attempt, status, enqueued_at, workers),) = shop.seen["wait_with_context"]
    assert (number, attempt, status, len(workers)) == (5, 1, TaskResultStatus.RUNNING, 1)
    assert enqueued_at == result.enqueued_at


@sqlite
def test_async_receivers_read_the_results_of_tasks_on_the_lane(alias, shop, make_executor):
    seen = []

    async def started(sender, task_result, **kwargs):
        seen.append((task_result.enqueued_at, str(task_result.status)))

    async def finished(sender, task_result, **kwargs):
        seen.append((task_result.return_value, str(task_result.status)))

    executor = make_executor()
    result = shop.wait.enqueue(5)
    task_started.connect(started)
    task_finished.connect(finished)
    try:
        executor.start()
        until(lambda: len(seen) == 2)
    finally:
        task_started.disconnect(started)
        task_finished.disconnect(finished)
    assert seen == [(result.enqueued_at, "RUNNING"), (6, "SUCCESSFUL")]


@sqlite
def test_a_running_task_is_running(alias, shop, make_executor):
    begun, go = threading.Event(), threading.Event()

    def work():
        begun.set()
        go.wait(TIMEOUT)

    shop.hooks.append(work)
    executor = make_executor(NODE_NAME="berlin")
    result = shop.hooked.enqueue()
    executor.start()
    assert begun.wait(TIMEOUT)
    assert (refreshed(result).status, result.worker_ids, result.attempts) == (TaskResultStatus.RUNNING, ["berlin"], 1)
    go.set()
    until(lambda: refreshed(result).is_finished)
    assert result.attempts == 1


@pytest.mark.gate
@sqlite
def test_a_timeout_is_a_failure_with_its_class(alias, shop, make_executor):
    go = threading.Event()
    shop.hooks.append(lambda: go.wait(TIMEOUT))
    executor = make_executor()
    result = jobexec.options(shop.hooked, timeout=0.2, retries="R1/PT1S").enqueue()
    executor.start()
    until(lambda: refreshed(result).is_finished)
    assert [error.exception_class for error in result.errors] == [jobexec.JobTimeout]
    go.set()


@sqlite
def test_a_task_that_was_declared_for_another_backend_runs(alias, shop, backend, make_executor):
    from jobexec.backends.compat import task

    immediate = task.__module__.rpartition(".")[0] + ".backends.immediate.ImmediateBackend"
    backend(others={"now": {"BACKEND": immediate, "QUEUES": []}})
    executor = make_executor()
    result = task_backends["default"].get_result(
        jobexec.options(shop.greet, retries="R1/PT1S").using(backend="default").enqueue("Ada").id
    )
    executor.start()
    until(lambda: refreshed(result).is_finished)
    assert result.return_value == ["Hello Ada"]


@pytest.mark.gate
def test_a_database_that_is_away_before_the_call_of_an_async_task_costs_nothing(alias, shop, make_executor, away_once):
    result = jobexec.options(shop.wait_with_context, retries="R1/PT0.05S").enqueue(7)
    executor = make_executor()
    executor.start()
    until(lambda: refreshed(result).is_finished)
    assert away_once == [result.id]
    assert (result.status, result.return_value, result.errors) == (TaskResultStatus.SUCCESSFUL, 7, [])
    assert [attempt for _, attempt, *_ in shop.seen["wait_with_context"]] == [1]
