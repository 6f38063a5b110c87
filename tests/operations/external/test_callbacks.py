"""What runs in Django when a worker has ended its job: an ordinary job, which fails, waits and ends like all others."""

from datetime import UTC, datetime, timedelta

import pytest

from jobexec import signals
from jobexec.exceptions import JobNotFound
from jobexec.executor.execute_now import execute_by_hand, execute_now
from jobexec.handlers.registry import get_handler
from jobexec.models import (
    EXTERNAL_TABLES,
    DeadLetterJob,
    ExclusiveLock,
    ExternalWorkerJob,
    Incident,
    Job,
    JobLog,
    JobType,
    SuspendedJob,
    TimerJob,
)
from jobexec.operations import (
    activate,
    cancel,
    complete_jobs,
    fail_job,
    move_to_dead_letter,
    recalculate_due_date,
    requeue,
    set_retries,
    suspend,
    sweep_suspensions,
)
from jobexec.operations.external import (
    complete_external_job,
    fail_external_job,
    find_external_job,
    throw_external_error,
)
from jobexec.operations.external.callbacks import on_error
from jobexec.operations.external.search import external_rows, external_types
from jobexec.operations.notify import wake
from jobexec.operations.query.job_query import JobQuery
from jobexec.operations.reports.counts import job_counts
from jobexec.operations.why.explain import why
from jobexec.redaction import redact_job
from tests.support.factories import (
    a_failure,
    a_run,
    acquire,
    fetch,
    in_hands,
    make_external,
    make_job,
    reload,
    table_of,
    tables_of,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def calls(handle):
    """What the callbacks of this test were called with."""
    found = []

    def after(variables, order=0):
        found.append((variables, order))

    def caught(variables, error_code, error_message, order=0):
        found.append((variables, error_code, error_message, order))

    handle(after, name="tests.after", retries="R5/PT1M", category="default", priority=7, timeout=90, atomic=True)
    handle(caught, name="tests.caught", retries="R2/PT1M")
    return found


def test_it_is_called_with_the_variables_of_the_job_and_of_the_worker(alias, calls):
    job = in_hands(alias, variables={"a": 1, "b": 1}, on_complete=("tests.after", {"order": 5}))
    complete_external_job(alias, job.key, {"b": 2, "ä": ["\u2028"]})
    execute_now(job.id, using=alias)
    assert calls == [({"a": 1, "b": 2, "ä": ["\u2028"]}, 5)]
    assert tables_of(alias) == {}


def test_it_is_the_same_job_with_the_options_of_its_function(alias, calls, frozen):
    job = in_hands(
        alias,
        on_complete="tests.after",
        process_instance_id="p",
        tenant_id="acme",
        headers={"x": 1},
        correlation_id="c",
        process_definition_key="shop",
        execution_id="e",
    )
    frozen.tick(60)
    complete_external_job(alias, job.key)
    row = Job.objects.using(alias).get()
    assert (row.pk, row.job_key, row.type, row.handler_type) == (job.id, None, JobType.EXTERNAL, "tests.after")
    assert row.handler_configuration == {"args": [], "kwargs": {"variables": {}}}
    assert (row.retries, row.retry_plan, row.timeout, row.atomic) == (5, "R5/PT1M", timedelta(seconds=90), True)
    assert (row.priority, row.category, row.exclusive, row.job_definition_id) == (7, "default", True, "tests.after")
    assert (row.process_instance_id, row.tenant_id, row.custom_headers) == ("p", "acme", {"x": 1})
    assert (row.correlation_id, row.process_definition_key, row.execution_id) == ("c", "shop", "e")
    assert (row.attempts, row.lock_owner, row.due_date) == (0, None, NOW + timedelta(seconds=60))
    assert row.create_time == NOW


def test_what_its_function_does_not_say_is_as_ever(alias, handle):
    handle(lambda variables: None, name="tests.plain")
    job = in_hands(alias, on_complete="tests.plain", priority=3, retries=9)
    complete_external_job(alias, job.key)
    row = Job.objects.using(alias).get()
    assert (row.retries, row.retry_plan, row.timeout, row.category, row.priority) == (3, "", None, "default", 3)


def test_a_job_that_was_stored_by_hand_needs_no_options(alias):
    row = make_external(alias)
    configuration = {"variables": {}, "on_complete": {"handler": "tests.after", "kwargs": {}, "columns": {}}}
    ExternalWorkerJob.objects.using(alias).filter(pk=row.pk).update(handler_configuration=configuration)
    complete_external_job(alias, row.job_key)
    job = Job.objects.using(alias).get()
    assert (job.handler_type, job.retries, job.timeout, job.priority) == ("tests.after", 3, None, 0)


def test_what_happened_to_the_workers_is_in_the_log_and_not_in_the_job(alias, calls):
    job = in_hands(alias, on_complete="tests.after")
    fail_external_job(alias, job.key, retries=1, message="no")
    (again,) = fetch(alias)
    complete_external_job(alias, again.key)
    row = Job.objects.using(alias).get()
    assert (row.exception_message, row.attempts, row.lost_runs) == ("", 0, 0)
    execute_now(row.pk, using=alias)
    log = JobLog.objects.using(alias).order_by("pk").values_list("state", "handler_type", "job_id")
    assert list(log) == [
        ("failed", "payment", job.id),
        ("successful", "payment", job.id),
        ("successful", "tests.after", job.id),
    ]


def test_executors_are_woken(alias, calls, django_capture_on_commit_callbacks):
    heard = []
    listen = lambda using, content: heard.append(content)  # noqa: E731
    wake.add_listener(listen)
    try:
        job = in_hands(alias, on_complete="tests.after")
        with django_capture_on_commit_callbacks(using=alias, execute=True):
            complete_external_job(alias, job.key)
    finally:
        wake.remove_listener(listen)
    assert heard == [wake.JOBS]


def test_executors_acquire_it_and_free_the_instance_that_the_worker_held(alias, calls):
    job = in_hands(alias, on_complete="tests.after", process_instance_id="p")
    assert ExclusiveLock.objects.using(alias).get().lock_owner == f"external:{job.id}"
    complete_external_job(alias, job.key)
    assert not ExclusiveLock.objects.using(alias).exists()
    (acquired,) = acquire(alias, "node:1")
    assert ExclusiveLock.objects.using(alias).get().lock_owner == "node:1"
    complete_jobs(alias, [(acquired, a_run(alias))])
    assert not ExclusiveLock.objects.using(alias).exists()


def test_when_it_fails_it_is_tried_again_by_its_own_plan_and_no_worker_sees_it(alias, calls, frozen):
    job = in_hands(alias, on_complete="tests.after")
    complete_external_job(alias, job.key)
    (acquired,) = acquire(alias)
    fail_job(alias, acquired, a_failure(), a_run(alias))
    timer = TimerJob.objects.using(alias).get()
    assert (timer.retries, timer.due_date) == (4, NOW + timedelta(minutes=1))
    assert fetch(alias) == []
    with pytest.raises(JobNotFound):
        find_external_job(alias, job.key)


def test_when_it_has_failed_for_good_its_incident_is_not_the_workers(alias, calls):
    job = in_hands(alias, on_complete="tests.after")
    complete_external_job(alias, job.key)
    (acquired,) = acquire(alias)
    fail_job(alias, acquired, a_failure(kind="fatal"), a_run(alias))
    dead, incident = DeadLetterJob.objects.using(alias).get(), Incident.objects.using(alias).get()
    assert (dead.pk, dead.job_key, incident.incident_key) == (job.id, None, None)
    assert requeue(dead.pk, using=alias)
    assert tables_of(alias) == {job.id: [Job]}


def test_in_a_suspended_scope_it_waits(alias, calls):
    job = in_hands(alias, on_complete="tests.after", process_instance_id="p")
    suspend(process_instance_id="p", using=alias)
    complete_external_job(alias, job.key)
    assert acquire(alias) == []


def test_the_job_itself_being_suspended_holds_it_too(alias, calls):
    job = in_hands(alias, on_complete="tests.after")
    suspend(job.id, using=alias)
    complete_external_job(alias, job.key)
    assert acquire(alias) == []


def test_a_cancelled_job_that_is_done_all_the_same_runs_it(alias, calls):
    job = in_hands(alias, on_complete="tests.after")
    assert cancel(job.id, using=alias)
    complete_external_job(alias, job.key)
    execute_now(job.id, using=alias)
    assert calls == [({}, 0)]


@pytest.mark.parametrize("ends", ["completed", "error thrown"])
@pytest.mark.parametrize(
    ("of_job", "of_function", "expected"),
    [
        ({}, {}, "shop:7"),
        ({}, {"deployment": "billing:2"}, "billing:2"),
        ({}, {"deployment": None}, ""),
        ({"deployment": "mail:1"}, {}, "mail:1"),
        ({"deployment": "mail:1"}, {"deployment": "billing:2"}, "mail:1"),
        ({"deployment": None}, {"deployment": "billing:2"}, ""),
        ({"deployment": None}, {}, ""),
    ],
)
def test_which_nodes_may_run_it(alias, calls, configure, of_job, of_function, expected, ends):
    configure(DEPLOYMENT="shop:7")
    after, caught = (get_handler(name).using(**of_function) for name in ("tests.after", "tests.caught"))
    job = in_hands(alias, on_complete=after, on_error=caught, **of_job)
    own = of_job["deployment"] or "" if of_job else "shop:7"
    assert ExternalWorkerJob.objects.using(alias).get().deployment_id == own
    configure(DEPLOYMENT="gateway:1")
    if ends == "completed":
        complete_external_job(alias, job.key)
    else:
        throw_external_error(alias, job.key, code="STOLEN")
    assert Job.objects.using(alias).get().deployment_id == expected
    assert acquire(alias, deployments=("other:1",)) == [] or not expected


def test_what_was_stored_without_a_deployment_is_run_by_any_node(alias, calls, configure):
    job = in_hands(alias, on_complete="tests.after")
    configure(DEPLOYMENT="shop:7")
    complete_external_job(alias, job.key)
    assert Job.objects.using(alias).get().deployment_id == ""


# Where it came from is kept; that workers do it no more is said by its table, and by its key, which it has lost.


@pytest.fixture(params=["completed", "error thrown", "message"])
def following(request, alias, calls):
    """Three jobs that follow jobs of workers; "message": as earlier releases made them."""
    jobs = [in_hands(alias, on_complete="tests.after", on_error="tests.caught") for _ in range(3)]
    for job in jobs:
        if request.param == "error thrown":
            throw_external_error(alias, job.key, code="STOLEN")
        else:
            complete_external_job(alias, job.key)
    if request.param == "message":
        Job.objects.using(alias).update(type=JobType.MESSAGE)
    return [Job.objects.using(alias).get(pk=job.id) for job in jobs]


def check_that_executors_have_them(alias, jobs, table=Job):
    rows = [reload(alias, job) for job in jobs]
    assert {(type(row), row.type, row.job_key) for row in rows} == {(table, jobs[0].type, None)}
    assert not ExternalWorkerJob.objects.using(alias).exists()
    assert fetch(alias, rows[0].handler_type) == [] == fetch(alias)
    if table is Job:
        assert {each.id for each in acquire(alias)} == {job.pk for job in jobs}


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("verb", [requeue, lambda jobs, using: set_retries(jobs, 2, using=using)])
@pytest.mark.parametrize("fatal", [True, False])
def test_a_dead_letter_of_it_goes_back_to_executors(alias, following, verb, count, fatal):
    chosen = following[:count]
    if fatal:
        for work in acquire(alias):
            fail_job(alias, work, a_failure(kind="fatal"), a_run(alias))
    else:
        move_to_dead_letter([job.pk for job in following], using=alias)
    assert {row.type for row in DeadLetterJob.objects.using(alias)} == {following[0].type}
    assert verb([job.pk for job in chosen], using=alias).changed
    check_that_executors_have_them(alias, chosen)


@pytest.mark.parametrize("count", [1, 3])
def test_suspended_and_activated_it_goes_back_to_executors(alias, following, count):
    ids = [job.pk for job in following[:count]]
    assert len(suspend(ids, using=alias).changed) == count
    check_that_executors_have_them(alias, following[:count], SuspendedJob)
    assert len(activate(ids, using=alias).changed) == count
    check_that_executors_have_them(alias, following)


def test_suspended_with_its_scope_it_goes_back_to_executors(alias, following):
    definition = following[0].job_definition_id
    suspend(job_definition_id=definition, using=alias)
    sweep_suspensions(alias)
    check_that_executors_have_them(alias, following, SuspendedJob)
    activate(job_definition_id=definition, using=alias)
    sweep_suspensions(alias)
    check_that_executors_have_them(alias, following)


def test_a_retry_that_waits_is_that_of_an_executor(alias, following, frozen):
    for work in acquire(alias):
        fail_job(alias, work, a_failure(), a_run(alias))
    check_that_executors_have_them(alias, following, TimerJob)
    assert recalculate_due_date([job.pk for job in following], using=alias).skipped == {}
    ids = [job.pk for job in following]
    suspend(ids, using=alias)
    activate(ids, using=alias)
    check_that_executors_have_them(alias, following, TimerJob)


def test_a_failure_of_it_takes_no_more_statements_than_that_of_any_job(alias, following, django_assert_max_num_queries):
    works = acquire(alias)
    with django_assert_max_num_queries(20, using=alias) as told:
        fail_job(alias, works[0], a_failure(kind="fatal"), a_run(alias))
    make_job(alias, handler_type=works[0].handler_type)
    (other,) = acquire(alias)
    with django_assert_max_num_queries(len(told), using=alias):
        fail_job(alias, other, a_failure(kind="fatal"), a_run(alias))


def test_by_its_type_it_is_found_with_the_jobs_of_workers(alias, following):
    waiting = make_external(alias)
    found = {job.pk for job in JobQuery(type=following[0].type).find(alias)}
    assert found >= {job.pk for job in following}
    assert (waiting.pk in found) == (following[0].type == JobType.EXTERNAL)


def test_workers_see_nothing_of_it(alias, following):
    move_to_dead_letter(following[0].pk, using=alias)
    suspend(following[1].pk, using=alias)
    assert [row for table in EXTERNAL_TABLES for row in external_rows(alias, table)] == []
    assert external_types(alias) == set()
    assert job_counts(alias).external == 0


def test_what_its_function_calls_sensitive_is_hidden(alias, handle):
    handle(lambda variables, order: None, name="tests.after", sensitive=["order"])
    job = in_hands(alias, variables={"iban": 1}, on_complete=("tests.after", {"order": 5}))
    complete_external_job(alias, job.key)
    row = Job.objects.using(alias).get()
    assert redact_job(row)["kwargs"] == {"variables": {"iban": 1}, "order": "●●●"}


def test_an_operator_executes_it(alias, following):
    assert execute_by_hand(following[0].pk, using=alias) is None
    assert table_of(alias, following[0]) is None


def test_why_it_waits_is_a_matter_of_nodes(alias, following):
    suspend(following[0].pk, using=alias)
    reasons = {reason.code for job in following[:2] for reason in why(job.pk, using=alias).reasons}
    assert "no_worker" not in reasons and "no_node" in reasons


# Errors.


def test_an_error_runs_what_catches_its_code(alias, calls):
    caught = {"STOLEN": ("tests.caught", {"order": 1}), "": ("tests.caught", {"order": 2})}
    stolen, other = (in_hands(alias, variables={"a": 1}, on_error=caught) for _ in range(2))
    throw_external_error(alias, stolen.key, code="STOLEN", message="the card", variables={"b": 2})
    throw_external_error(alias, other.key, code="stolen")
    for job in (stolen, other):
        row = reload(alias, job)
        assert (type(row), row.job_key, row.handler_type, row.retries) == (Job, None, "tests.caught", 2)
        execute_now(job.id, using=alias)
    assert calls == [({"a": 1, "b": 2}, "STOLEN", "the card", 1), ({"a": 1}, "stolen", "", 2)]
    assert tables_of(alias) == {}


def test_one_for_all_codes(alias, calls):
    job = in_hands(alias, on_error="tests.caught")
    throw_external_error(alias, job.key, code="ANY")
    execute_now(job.id, using=alias)
    assert calls == [({}, "ANY", "", 0)]


def test_a_message_for_a_handler_is_not_endless_either(alias, calls):
    job = in_hands(alias, on_error="tests.caught")
    throw_external_error(alias, job.key, code="ANY", message="x" * 5000)
    assert len(reload(alias, job).handler_configuration["kwargs"]["error_message"]) == 4000


@pytest.mark.parametrize(
    ("configuration", "code", "found"),
    [
        ({}, "A", None),
        ({"on_error": None}, "A", None),
        ({"on_error": {"B": {"handler": "b"}}}, "A", None),
        ({"on_error": {"A": {"handler": "a"}, "": {"handler": "all"}}}, "A", {"handler": "a"}),
        ({"on_error": {"A": {"handler": "a"}, "": {"handler": "all"}}}, "B", {"handler": "all"}),
    ],
)
def test_which_one_catches_it(configuration, code, found):
    assert on_error(configuration, code) == found


def test_a_caught_error_is_in_the_log_and_is_told(alias, calls, django_capture_on_commit_callbacks):
    sent = []

    def receive(sender, job, error, **_):
        sent.append((sender, job.pk, str(error), error.code))

    signals.job_failed.connect(receive)
    try:
        job = in_hands(alias, worker="w", on_error="tests.caught")
        with django_capture_on_commit_callbacks(using=alias, execute=True):
            throw_external_error(alias, job.key, code="STOLEN", message="the card")
    finally:
        signals.job_failed.disconnect(receive)
    line = JobLog.objects.using(alias).get()
    assert (line.state, line.node, line.exception_message) == ("failed", "w", "STOLEN: the card")
    assert (line.handler_type, line.job_id) == ("payment", job.id)
    assert sent == [(Job, job.id, "STOLEN: the card", "STOLEN")]
