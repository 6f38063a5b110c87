"""Workers complete external jobs, or fail: what is written, who is refused, what happens next."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from jobexec import signals
from jobexec.exceptions import (
    InvalidJob,
    JobNotFound,
    JobStateError,
    NotAllowed,
    StaleLease,
    WorkerFailed,
    WrongWorker,
)
from jobexec.models import (
    DeadLetterJob,
    ExclusiveLock,
    ExternalWorkerJob,
    FailureGroup,
    Incident,
    Job,
    JobLog,
    SuspendedJob,
)
from jobexec.operations import activate, cancel, move_to_dead_letter, suspend
from jobexec.operations.external import (
    Caller,
    complete_external_job,
    fail_external_job,
    find_external_job,
    throw_external_error,
    unlock_external_job,
    yield_jobs,
)
from jobexec.operations.nodes.deployments import write_job_definitions
from jobexec.operations.notify import wake_workers
from jobexec.operations.reports import failure_groups
from tests.support.factories import fetch, in_hands, make_external, reload, tables_of

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def lines(alias, *columns):
    found = JobLog.objects.using(alias).order_by("pk").values_list("state", "node", *columns)
    return [tuple(line) for line in found]


@pytest.fixture
def told(alias, django_capture_on_commit_callbacks):
    """A function that tells which signals a call sends after its commit, with what."""
    found = []

    def receive(signal, sender, **values):
        named = next(name for name, each in vars(signals).items() if each is signal)
        found.append((named, sender, values.get("job") or values["jobs"][0], values.get("error")))

    names = ("job_completed", "job_failed", "job_dead_lettered", "job_cancelled", "job_requeued", "job_suspended")
    for name in names:
        getattr(signals, name).connect(receive)

    def during(call):
        found.clear()
        with django_capture_on_commit_callbacks(using=alias, execute=True):
            call()
        return list(found)

    yield during
    for name in names:
        getattr(signals, name).disconnect(receive)


@pytest.fixture
def woken(alias, django_capture_on_commit_callbacks):
    """A function that tells of which types waiting workers hear during a call."""
    found = []

    def listen(using, types):
        found.append(set(types))

    wake_workers.add_worker_listener(listen)

    def during(call):
        found.clear()
        with django_capture_on_commit_callbacks(using=alias, execute=True):
            call()
        return list(found)

    yield during
    wake_workers.remove_worker_listener(listen)


# Completing.


def test_what_is_completed_is_gone_and_in_the_log(alias):
    job = in_hands(alias, worker="w", variables={"a": 1})
    complete_external_job(alias, job.key, {"b": 2}, caller=Caller("shop"))
    assert tables_of(alias) == {}
    assert lines(alias, "client", "attempt", "retries", "exception_message") == [("successful", "w", "shop", 1, 3, "")]


def test_it_is_told_after_the_commit(alias, told):
    job = in_hands(alias)
    ((name, sender, row, error),) = told(lambda: complete_external_job(alias, job.key))
    assert (name, sender, row.pk, error) == ("job_completed", ExternalWorkerJob, job.id, None)


@pytest.mark.parametrize("key", [12345, 0, -1, 2**63, 2**70])
def test_what_is_not_there_is_not_found(alias, key):
    with pytest.raises(JobNotFound, match=f"complete job with key '{key}', but no such job was found"):
        complete_external_job(alias, key)


def test_the_second_completion_finds_nothing_and_neither_does_a_failure_after_it(alias):
    job = in_hands(alias)
    complete_external_job(alias, job.key)
    with pytest.raises(JobNotFound):
        complete_external_job(alias, job.key)
    with pytest.raises(JobNotFound):
        fail_external_job(alias, job.key, retries=0)
    assert not Incident.objects.using(alias).exists()
    assert len(lines(alias)) == 1


def test_a_refusal_does_not_spoil_the_callers_transaction(alias):
    job = in_hands(alias)
    with transaction.atomic(using=alias):
        with pytest.raises(JobNotFound):
            complete_external_job(alias, 1)
        complete_external_job(alias, job.key)
    assert tables_of(alias) == {}


def test_late_is_early_enough_while_nobody_else_has_finished(alias, frozen):
    job = in_hands(alias, worker="slow")
    frozen.tick(timedelta(hours=1))
    (again,) = fetch(alias, worker="quick")
    assert again.id == job.id
    complete_external_job(alias, job.key)
    with pytest.raises(JobNotFound):
        complete_external_job(alias, again.key)
    assert lines(alias) == [("successful", "quick")]


def test_one_that_nobody_has_fetched_may_be_completed(alias):
    row = make_external(alias)
    complete_external_job(alias, row.job_key)
    assert tables_of(alias) == {}


def test_whoever_gives_its_name_must_have_fetched_last(alias, frozen):
    job = in_hands(alias, worker="slow")
    frozen.tick(timedelta(hours=1))
    fetch(alias, worker="quick")
    with pytest.raises(WrongWorker, match="as worker 'slow', but it was last fetched by 'quick'"):
        complete_external_job(alias, job.key, worker="slow")
    frozen.tick(timedelta(hours=1))
    complete_external_job(alias, job.key, worker="quick")
    assert tables_of(alias) == {}


def test_a_name_is_compared_letter_by_letter(alias):
    job = in_hands(alias, worker="One")
    with pytest.raises(WrongWorker):
        complete_external_job(alias, job.key, worker="one")


def test_what_nobody_has_fetched_is_no_workers(alias):
    row = make_external(alias)
    with pytest.raises(WrongWorker, match="no worker has fetched it"):
        complete_external_job(alias, row.job_key, worker="one")


@pytest.mark.parametrize(
    "finish",
    [
        lambda alias, key, lease: complete_external_job(alias, key, lease=lease),
        lambda alias, key, lease: fail_external_job(alias, key, retries=1, lease=lease),
    ],
)
def test_a_lease_must_be_that_of_the_last_fetch(alias, frozen, finish):
    first = in_hands(alias, lease=True)
    assert first.lease_token
    for wrong in (None, "", "another"):
        with pytest.raises(StaleLease):
            finish(alias, first.key, wrong)
    frozen.tick(timedelta(hours=1))
    (second,) = fetch(alias, with_lease=True)
    with pytest.raises(StaleLease, match="not from the last fetch"):
        finish(alias, first.key, first.lease_token)
    finish(alias, second.key, second.lease_token)


def test_once_leased_a_job_is_not_given_to_whoever_could_not_prove_it(alias):
    job = in_hands(alias, lease=True)
    fail_external_job(alias, job.key, retries=1, lease=job.lease_token)
    assert fetch(alias) == []
    (again,) = fetch(alias, with_lease=True)
    assert again.lease_token != job.lease_token
    with pytest.raises(StaleLease):
        complete_external_job(alias, job.key, lease=job.lease_token)
    complete_external_job(alias, job.key, lease=again.lease_token)


def test_a_lease_of_before_does_not_fit_a_job_that_has_none(alias):
    job = in_hands(alias, lease=True)
    unlock_external_job(alias, job.key)
    fetch(alias)
    with pytest.raises(StaleLease):
        complete_external_job(alias, job.key, lease=job.lease_token)
    complete_external_job(alias, job.key)


def test_a_tenants_job_is_not_there_for_others(alias):
    job = in_hands(alias, tenant_id="acme")
    for tenants in ({"other"}, {""}, set()):
        with pytest.raises(JobNotFound):
            complete_external_job(alias, job.key, caller=Caller("c", None, frozenset(tenants)))
    complete_external_job(alias, job.key, caller=Caller("c", None, frozenset({"acme"})))


def test_a_type_that_is_not_the_callers_is_refused(alias):
    job = in_hands(alias)
    with pytest.raises(NotAllowed, match="'c' may not work on job with key"):
        complete_external_job(alias, job.key, caller=Caller("c", frozenset({"mail"})))
    complete_external_job(alias, job.key, caller=Caller("c", frozenset({"pay*"})))


def test_dead_letters_and_suspended_jobs_cannot_be_completed(alias):
    dead, held = in_hands(alias), in_hands(alias, "mail")
    fail_external_job(alias, dead.key, retries=0)
    unlock_external_job(alias, held.key)
    suspend(held.id, using=alias)
    with pytest.raises(JobStateError, match=f"'{dead.key}', but it is in state 'FAILED'"):
        complete_external_job(alias, dead.key)
    with pytest.raises(JobStateError, match="'SUSPENDED'"):
        fail_external_job(alias, held.key, retries=1)
    with pytest.raises(JobNotFound):
        complete_external_job(alias, dead.key, caller=Caller("c", None, frozenset({"other"})))


@pytest.mark.parametrize("bad", [[], "x", 5, {1: 2}, {"a": object()}, {"a": float("nan")}, {"a": "\x00"}])
@pytest.mark.parametrize("name", ["variables", "local_variables"])
def test_variables_are_a_json_object(alias, bad, name):
    job = in_hands(alias)
    with pytest.raises(InvalidJob, match=f"^{name}"):
        complete_external_job(alias, job.key, **{name: bad})
    assert find_external_job(alias, job.key).locked


def test_variables_may_not_be_endless(alias, configure):
    job = in_hands(alias)
    configure(EXTERNAL_MAX_PAYLOAD=1000)
    with pytest.raises(InvalidJob, match=r"at most 1,000 bytes of JSON \(setting EXTERNAL_MAX_PAYLOAD\), got 1,0"):
        complete_external_job(alias, job.key, {"a": "x" * 1000})
    # In UTF-8, not as \uXXXX.
    complete_external_job(alias, job.key, {"a": "ü" * 480})


def test_the_process_instance_is_free_with_the_completion(alias):
    job = in_hands(alias, process_instance_id="p")
    make_external(alias, process_instance_id="p")
    assert fetch(alias) == []
    complete_external_job(alias, job.key)
    assert not ExclusiveLock.objects.using(alias).exists()
    assert len(fetch(alias)) == 1


def test_one_that_was_cancelled_meanwhile_is_done_if_it_is_done(alias):
    job = in_hands(alias)
    assert cancel(job.id, using=alias)
    complete_external_job(alias, job.key)
    assert lines(alias) == [("successful", "one")]


# Failing.


def test_the_worker_says_how_many_retries_are_left(alias):
    job = in_hands(alias, worker="w")
    fail_external_job(alias, job.key, retries=7, message="no card", details="Trace", caller=Caller("shop"))
    row = find_external_job(alias, job.key)
    assert (type(row), row.retries, row.exception_message, row.exception_stack) == (
        ExternalWorkerJob,
        7,
        "no card",
        "Trace",
    )
    assert (row.lock_owner, row.lock_expiration_time, row.lease_token, row.due_date) == (None, None, "", None)
    told = lines(alias, "client", "attempt", "retries", "exception_message", "exception_stack")
    assert told == [("failed", "w", "shop", 1, 7, "no card", "Trace")]
    assert JobLog.objects.using(alias).get().fingerprint
    (again,) = fetch(alias)
    assert (again.retries, again.failures, again.error_message, again.error_details) == (7, 1, "no card", "Trace")


def test_a_back_off_is_waited_for(alias, frozen, woken):
    job = in_hands(alias)
    assert woken(lambda: fail_external_job(alias, job.key, retries=2, back_off=MINUTE)) == [{"payment"}]
    row = find_external_job(alias, job.key)
    assert (row.available_at, row.due_date, row.locked) == (NOW + MINUTE, NOW + MINUTE, False)
    assert fetch(alias) == []
    frozen.tick(MINUTE)
    assert [each.id for each in fetch(alias)] == [job.id]
    assert find_external_job(alias, job.key).lost_runs == 0, "nobody has missed a deadline"


def test_the_plan_has_a_pause_for_a_worker_that_names_none(alias, frozen, woken):
    job, now = in_hands(alias, retries="PT1M,PT10M,PT1H"), NOW
    for pause, left in ((MINUTE, 5), (10 * MINUTE, 1), (60 * MINUTE, 9), (60 * MINUTE, 2)):  # the worker counts
        assert woken(lambda left=left: fail_external_job(alias, job.key, retries=left)) == [{"payment"}]
        now += pause
        row = find_external_job(alias, job.key)
        assert (row.available_at, row.due_date, row.retries) == (now, now, left)
        assert fetch(alias) == []
        frozen.tick(pause)
        assert [each.id for each in fetch(alias)] == [job.id]


def test_the_pause_that_a_worker_names_comes_before_the_plan(alias, frozen):
    job = in_hands(alias, retries="R5/PT1H")
    fail_external_job(alias, job.key, retries=4, back_off=MINUTE)
    assert find_external_job(alias, job.key).available_at == NOW + MINUTE


def test_a_plan_gives_no_retry_that_the_worker_does_not(alias):
    job = in_hands(alias, retries="R5/PT1M")
    fail_external_job(alias, job.key, retries=0)
    assert (find_external_job(alias, job.key).retries, Incident.objects.using(alias).count()) == (0, 1)


def test_a_plan_that_someone_has_broken_is_the_default_plan(alias, frozen, settings, caplog):
    settings.JOBEXEC = {**settings.JOBEXEC, "DEFAULT_RETRY_PLAN": "R3/PT7M"}
    job = in_hands(alias, retries="R5/PT1M")
    ExternalWorkerJob.objects.using(alias).update(retry_plan="soon")
    fail_external_job(alias, job.key, retries=1)
    assert find_external_job(alias, job.key).available_at == NOW + 7 * MINUTE
    assert "its retry plan is broken" in caplog.text


def test_without_a_back_off_waiting_workers_are_woken(alias, woken):
    job = in_hands(alias)
    assert woken(lambda: fail_external_job(alias, job.key, retries=2)) == [{"payment"}]


@pytest.mark.parametrize("left", [0, -1])
@pytest.mark.parametrize("given", ["no card", ""])
def test_without_retries_there_is_an_incident(alias, left, given, told):
    job = in_hands(alias, tenant_id="acme", process_instance_id="p")
    sent = told(lambda: fail_external_job(alias, job.key, retries=left, message=given, details="Trace"))
    dead, incident = DeadLetterJob.objects.using(alias).get(), Incident.objects.using(alias).get()
    message = given or "No more retries left."
    assert (dead.pk, dead.job_key, dead.retries, dead.exception_message) == (job.id, job.key, 0, message)
    assert (incident.type, incident.message, incident.job_id, incident.tenant_id) == (
        "failedJob",
        message,
        job.id,
        "acme",
    )
    assert incident.incident_key > 0
    assert incident.incident_key != job.key
    ((name, sender, row, error),) = sent
    assert (name, sender, row.pk, type(error), str(error)) == (
        "job_dead_lettered",
        DeadLetterJob,
        job.id,
        WorkerFailed,
        message,
    )
    assert not ExclusiveLock.objects.using(alias).exists()
    assert lines(alias, "retries") == [("failed", "one", 0)]


def test_a_failure_is_told(alias, told):
    job = in_hands(alias)
    ((name, sender, row, error),) = told(lambda: fail_external_job(alias, job.key, retries=1, message="no"))
    assert (name, sender, row.pk, str(error)) == ("job_failed", ExternalWorkerJob, job.id, "no")


def test_what_a_dead_letter_by_hand_opens_has_a_key_too(alias):
    row = make_external(alias)
    assert move_to_dead_letter(row.pk, "enough", using=alias)
    incident = Incident.objects.using(alias).get()
    assert (incident.type, incident.message) == ("failedJob", "enough")
    assert incident.incident_key


def test_local_variables_are_seen_by_the_next_worker_and_by_nobody_else(alias, handle):
    handle(lambda variables: None, name="tests.after")
    job = in_hands(alias, variables={"a": 1, "b": 1}, on_complete="tests.after")
    fail_external_job(alias, job.key, retries=2, local_variables={"a": 2, "c": 2})
    (again,) = fetch(alias)
    assert again.variables == {"a": 2, "b": 1, "c": 2}
    fail_external_job(alias, job.key, retries=2, local_variables={"c": 3}, variables={"b": 3})
    (again,) = fetch(alias)
    assert (again.variables, again.failures) == ({"a": 2, "b": 3, "c": 3}, 2)
    complete_external_job(alias, job.key, {"d": 4}, local_variables={"e": 5})
    after = Job.objects.using(alias).get()
    assert after.handler_configuration["kwargs"]["variables"] == {"a": 1, "b": 3, "d": 4}


@pytest.mark.parametrize("name", ["variables", "local_variables"])
def test_what_has_grown_too_large_is_an_incident_of_its_own_type_and_stands_in_nobodys_way(alias, configure, name):
    job, other = in_hands(alias, variables={"a": "x" * 600}), make_external(alias)
    configure(EXTERNAL_MAX_PAYLOAD=1000)
    fail_external_job(alias, job.key, retries=2, **{name: {"b": "x" * 600}})
    assert [each.id for each in fetch(alias)] == [other.pk]
    incident = Incident.objects.using(alias).get()
    assert (incident.type, incident.job_id) == ("messageSizeExceeded", job.id)
    assert incident.incident_key
    assert "EXTERNAL_MAX_PAYLOAD" in incident.message


def test_failures_make_no_row_larger_than_the_limit(alias, configure):
    configure(EXTERNAL_MAX_PAYLOAD=1000)
    job = in_hands(alias, variables={"a": "x" * 600})
    fail_external_job(alias, job.key, retries=2, variables={"b": "x" * 200})
    (again,) = fetch(alias)
    sent = {"variables": {"c": "x" * 800}, "local_variables": {"d": "x" * 800}}
    fail_external_job(alias, again.key, retries=2, message="no", details="where", **sent)
    dead = DeadLetterJob.objects.using(alias).get()
    assert len(json.dumps(dead.handler_configuration)) < 1000
    assert set(dead.handler_configuration["variables"]) == {"a", "b"}
    assert dead.exception_message.endswith("(setting EXTERNAL_MAX_PAYLOAD). no")
    assert (dead.retries, dead.exception_stack) == (0, "where")


def test_texts_of_a_worker_make_no_endless_number_of_groups(alias, monkeypatch):
    monkeypatch.setattr(failure_groups, "MOST_GROUPS_BY_TEXT", 3)
    monkeypatch.setattr(failure_groups, "groups_by_text", failure_groups._GroupsByText())
    for word in ("one", "two", "three", "four", "five", "six", "one"):
        job = in_hands(alias)
        if word in ("two", "five"):
            throw_external_error(alias, job.key, code=word)
        else:
            fail_external_job(alias, job.key, retries=0, message=word)
    groups = FailureGroup.objects.using(alias)
    assert sorted(groups.values_list("count", flat=True)) == [1, 1, 2, 3]
    named = DeadLetterJob.objects.using(alias).values_list("fingerprint", flat=True)
    assert set(named) == set(groups.values_list("fingerprint", flat=True))


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("retries", "3"),
        ("retries", None),
        ("retries", True),
        ("retries", 2**31),
        ("back_off", timedelta(seconds=-1)),
        ("back_off", 5),
        ("back_off", timedelta.max),
        ("message", 5),
        ("details", b"x"),
        ("variables", []),
        ("local_variables", "x"),
    ],
)
def test_what_makes_no_sense_is_refused(alias, name, bad):
    job = in_hands(alias)
    with pytest.raises(InvalidJob, match=f"^{name}: "):
        fail_external_job(alias, job.key, **{"retries": 1, name: bad})
    assert find_external_job(alias, job.key).locked


def test_what_a_worker_says_is_cut_and_made_storable(alias):
    job = in_hands(alias)
    fail_external_job(alias, job.key, retries=0, message="m\x00" + "x" * 5000, details="y" * 200_000)
    dead, incident = DeadLetterJob.objects.using(alias).get(), Incident.objects.using(alias).get()
    assert len(dead.exception_message) == len(incident.message) == 4000
    assert dead.exception_message.startswith("m\\x00x")
    assert 100_000 <= len(dead.exception_stack) < 101_000
    assert "characters left out" in JobLog.objects.using(alias).get().exception_stack


def test_what_is_sensitive_is_not_quoted(alias):
    job = in_hands(alias, variables={"card": {"secret": "4711-0815"}}, headers={"Authorization": "Basic abcdef"})
    text = "4711-0815 and Basic abcdef and swordfish"
    fail_external_job(alias, job.key, retries=0, message=text, details=text, local_variables={"password": "swordfish"})
    dead = DeadLetterJob.objects.using(alias).get()
    assert dead.exception_message == dead.exception_stack == "●●● and ●●● and ●●●"
    assert JobLog.objects.using(alias).get().exception_message == "●●● and ●●● and ●●●"
    assert Incident.objects.using(alias).get().message == "●●● and ●●● and ●●●"


@pytest.mark.parametrize("known", ["tests.charge", "tests.of_another_name"])
def test_what_a_callback_calls_sensitive_is_not_quoted(alias, known):
    """By its definition; by those of all, if it has none."""
    definition = {"id": known, "handler_type": known, "category": "default", "sensitive": ["iban"]}
    write_job_definitions([definition], using=alias)
    job = in_hands(alias, variables={"iban": "DE02 1203 0000"})
    row = ExternalWorkerJob.objects.using(alias).get()
    callback = {"on_complete": {"handler": "tests.charge", "kwargs": {}, "columns": {}}}
    ExternalWorkerJob.objects.using(alias).update(handler_configuration={**row.handler_configuration, **callback})
    fail_external_job(alias, job.key, retries=0, message="no DE02 1203 0000", details="DE02 1203 0000!")
    dead = DeadLetterJob.objects.using(alias).get()
    assert (dead.exception_message, dead.exception_stack) == ("no ●●●", "●●●!")


def test_a_retry_of_what_is_suspended_waits_there_with_its_date(alias, frozen, told):
    job = in_hands(alias, process_instance_id="p")
    suspend(process_instance_id="p", using=alias)
    assert find_external_job(alias, job.key).locked, "it goes on"
    ((name, sender, row, _),) = told(lambda: fail_external_job(alias, job.key, retries=2, back_off=MINUTE))
    assert (name, sender, row.pk) == ("job_failed", SuspendedJob, job.id)
    held = SuspendedJob.objects.using(alias).get()
    assert (held.due_date, held.retries, held.job_key) == (NOW + MINUTE, 2, job.key)
    assert not ExclusiveLock.objects.using(alias).exists()
    activate(process_instance_id="p", using=alias)
    assert fetch(alias) == []
    frozen.tick(MINUTE)
    assert [each.id for each in fetch(alias)] == [job.id]


def test_so_does_that_of_a_job_that_was_suspended_itself(alias):
    job = in_hands(alias)
    assert suspend(job.id, using=alias)
    fail_external_job(alias, job.key, retries=2)
    assert SuspendedJob.objects.using(alias).get().suspend_requested


def test_one_that_was_cancelled_meanwhile_is_not_tried_again(alias, told):
    job = in_hands(alias, process_instance_id="p")
    assert cancel(job.id, using=alias)
    sent = told(lambda: fail_external_job(alias, job.key, retries=5, message="no"))
    assert [each[:2] for each in sent] == [("job_cancelled", ExternalWorkerJob)]
    assert tables_of(alias) == {}
    assert lines(alias, "exception_message") == [("cancelled", "one", "no")]
    assert not ExclusiveLock.objects.using(alias).exists()


def test_a_failure_counts_also_when_the_deadline_is_over(alias, frozen):
    job = in_hands(alias, process_instance_id="p")
    frozen.tick(timedelta(hours=1))
    fail_external_job(alias, job.key, retries=1)
    row = find_external_job(alias, job.key)
    assert (row.retries, row.lock_owner) == (1, None)


def test_after_a_failure_what_was_fetched_before_cannot_be_given_back(alias):
    job = in_hands(alias)
    fail_external_job(alias, job.key, retries=1)
    (again,) = fetch(alias, worker="two")
    assert yield_jobs(alias, [job]) == 0
    assert reload(alias, again).lock_owner == "two"


@pytest.mark.parametrize("level", ["none", "failures"])
def test_the_log_says_what_the_level_asks_for(alias, configure, level):
    configure(HISTORY_LEVEL=level)
    job, other = in_hands(alias), in_hands(alias)
    complete_external_job(alias, job.key)
    fail_external_job(alias, other.key, retries=1)
    assert lines(alias) == ([] if level == "none" else [("failed", "one")])
