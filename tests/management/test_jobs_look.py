"""`manage.py jobs`: list, show and why, for people and for programs."""

import json
import re
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connections

from jobexec import clock
from jobexec.clock import FrozenClock
from jobexec.identifiers import least_uuid7
from jobexec.management.commands.jobs import Command
from jobexec.management.jobs.actions import ACTIONS
from jobexec.models import (
    JOB_TABLES,
    DeadLetterJob,
    HistoryJob,
    Job,
    JobDefinition,
    JobProgress,
    Message,
    SuspendedJob,
    TimerJob,
)
from jobexec.operations import complete_jobs, fail_job
from jobexec.operations.batches.control import start_batch
from jobexec.operations.reports import counts
from jobexec.operations.values.messages import as_text
from tests.support.factories import HANDLER, a_failure, a_run, make_job, make_node, make_row, work
from tests.support.jobs_command import jobs, objects

DAY = timedelta(days=1)
ESCAPE = "\x1b[31m"


@pytest.fixture(autouse=True)
def engines(settings):
    settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}, "CATEGORIES": ["default", "mail"]}


@pytest.fixture(autouse=True)
def frozen():
    with FrozenClock(datetime(2026, 3, 1, 12, tzinfo=UTC)) as frozen:
        yield frozen


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")


def _ids_of_different_milliseconds(count):
    """Those of the same millisecond differ only in their last digits, and a list then shows nearly all of each."""
    return [least_uuid7(clock.now() + timedelta(milliseconds=number)) for number in range(count)]


class TestList:
    def test_for_people(self, alias):
        job = make_job(alias, handler_type="shop.ship", process_instance_id="order-1", priority=7)
        make_job(alias, due_date=clock.now() + DAY)
        make_row(DeadLetterJob, alias, exception_message=f"{ESCAPE}ValueError:\nno")
        code, text = jobs("list", alias=alias)
        head, first, second, third = text.splitlines()
        assert code == 0
        assert head.split()[:5] == ["id", "state", "call", "due", "age"]
        assert first.split()[:3] == [str(job.pk), "executable", "ship()"] and "order-1" in first and " 7 " in first
        assert "timer" in second and "in 1 d" in second
        assert "dead letter" in third and "ValueError: no" in third and ESCAPE not in third

    @pytest.mark.parametrize("width", [80, 120, 200])
    def test_fits_the_terminal(self, alias, monkeypatch, width):
        monkeypatch.setenv("COLUMNS", str(width))
        long = {"handler_type": "shop.orders.jobs.send_a_rather_long_letter", "exception_message": "e" * 300}
        ids = _ids_of_different_milliseconds(len(JOB_TABLES))
        rows = [make_row(table, alias, id=id, **long) for table, id in zip(JOB_TABLES, ids, strict=True)]
        _, text = jobs("list", alias=alias, terminal=True)
        plain = [_without_colours(line) for line in text.splitlines()]
        assert max(map(len, plain)) <= width
        for row, line in zip(rows, plain[1:], strict=True):
            beginning = line.split()[0].removesuffix("…")
            assert [str(each.pk).startswith(beginning) for each in rows].count(True) == 1
            assert str(row.pk).startswith(beginning) and "letter(" in line and "eeee" in line
        assert "\x1b[" in text
        assert "call" in plain[0] and "last exception" in plain[0]

    def test_the_call_and_the_failure_fit_beside_the_beginning_of_the_id(self, alias, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        JobDefinition.objects.using(alias).create(pk="shop.jobs.charge", handler_type="shop.jobs.charge", category="a")
        given = {"handler_type": "shop.jobs.charge", "exception_message": "DoesNotExist: No such order"}
        kwargs = [{"order_id": 17, "password": "hush"}, {"order_id": 4711}]
        rows = [
            make_row(DeadLetterJob, alias, id=id, handler_configuration={"kwargs": each}, **given)
            for id, each in zip(_ids_of_different_milliseconds(2), kwargs, strict=True)
        ]
        _, text = jobs("list", alias=alias, terminal=True)
        first, second = (_without_colours(line) for line in text.splitlines()[1:])
        assert "charge(order_id=17, " in first and "hush" not in text and "  charge(order_id=4711)  " in second
        assert "  DoesNotExist:" in first and "  DoesNotExist:" in second
        beginning = second.split()[0]
        assert beginning.endswith("…") and str(rows[1].pk).startswith(beginning[:-1])
        assert str(rows[1].pk) in jobs("show", beginning, alias=alias)[1]
        _, text = jobs("list", alias=alias)
        assert str(rows[0].pk) in text and "charge(order_id=17, password=●●●)" in text

    def test_a_list_of_one_state_does_not_repeat_it(self, alias, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        make_row(DeadLetterJob, alias, exception_message="DoesNotExist: No such order")
        _, text = jobs("list", alias=alias, terminal=True)
        assert "  dead letter  " in _without_colours(text)
        _, text = jobs("list", "--state", "dead_letter", alias=alias, terminal=True)
        assert "state" not in text and "dead letter" not in text and "DoesNotExist" in text
        make_row(TimerJob, alias)
        make_row(TimerJob, alias, attempts=1)
        _, text = jobs("list", "--state", "timer", alias=alias)
        assert "state" in text and "retry" in text, "timers are of two kinds"

    def test_what_a_search_does_not_look_at_is_said(self, alias):
        make_row(DeadLetterJob, alias, exception_message="No such order")
        told = "No jobs. --text does not look at arguments and exceptions; --exception looks at the latter.\n"
        assert jobs("list", "--text", "order", alias=alias) == (0, told)

    @pytest.mark.every_database
    def test_jobs_of_one_millisecond_are_told_apart_by_the_ends_of_their_ids(self, alias, monkeypatch):
        """Their beginnings would leave no room for their exceptions."""
        monkeypatch.setenv("COLUMNS", "80")
        given = {"handler_type": "shop.jobs.charge", "exception_message": "DoesNotExist: No such order"}
        ids = [UUID(f"01a200b7-cceb-7489-b61b-4096ce0aac{number}") for number in (17, 18)]
        ids.append(UUID("01a200b7-cceb-7489-b61b-4097c50aac17"))
        rows = [make_row(DeadLetterJob, alias, id=id, **given) for id in ids]
        _, text = jobs("list", alias=alias, terminal=True)
        lines = [_without_colours(line) for line in text.splitlines()[1:]]
        shown = [line.split()[0] for line in lines]
        assert shown == ["01a200b7-cceb…e0aac17", "01a200b7-cceb…e0aac18", "01a200b7-cceb…50aac17"]
        assert all("  DoesNotExist:" in line and len(line) <= 80 for line in lines)
        for row, id in zip(rows, shown, strict=True):
            assert jobs("show", id, alias=alias)[1].startswith(str(row.pk))
        code, text = jobs("show", "01a200b7…aac17", alias=alias)
        assert code == 2 and all(str(ids[number]) in text for number in (0, 2)) and str(ids[1]) not in text
        code, text = jobs("show", "01a200b7…123456", alias=alias)
        assert code == 2 and "No job has an id that begins with 01a200b7…123456" in text

    @pytest.mark.gate
    def test_states_that_a_glance_should_tell(self, alias):
        make_row(Job, alias, lock_owner="berlin:1")
        make_row(Job, alias, lock_owner="berlin:1", cancel_requested=True)
        make_row(Job, alias, suspend_requested=True)
        make_row(TimerJob, alias, attempts=1)
        make_row(SuspendedJob, alias)
        _, text = jobs("list", alias=alias)
        words = ("in progress", "cancelling", "suspending", "retry", "suspended")
        for word, line in zip(words, text.splitlines()[1:], strict=True):
            assert f"  {word}" in line
        assert text.splitlines()[1].split()[-2] == "berlin"

    def test_conditions_orders_and_limits(self, alias):
        rows = [make_job(alias, priority=priority, tenant_id="acme") for priority in (1, 3, 2)]
        make_job(alias, priority=9)
        _, text = jobs("list", "--tenant", "acme", "--order=-priority", "--limit", 2, alias=alias)
        _, first, second, more = text.splitlines()
        assert str(rows[1].pk) in first and str(rows[2].pk) in second
        assert more.startswith("There are more")
        _, text = jobs("list", "--tenant", "acme", "--limit", 3, alias=alias)
        assert "There are more" not in text and len(text.splitlines()) == 4
        assert jobs("list", "--tenant", "nobody", alias=alias) == (0, "No jobs.\n")

    def test_for_programs_it_streams_and_is_exact(self, alias):
        due = datetime(2026, 3, 1, 14, 0, 0, 123456, tzinfo=UTC)
        job = make_row(TimerJob, alias, priority=7, due_date=due, rank=2**62 + 1, timeout=timedelta(seconds=1.5))
        make_row(DeadLetterJob, alias)
        code, (first, second) = objects("list", alias=alias)
        assert code == 0
        assert (first["id"], first["state"], second["state"]) == (str(job.pk), "timer", "dead_letter")
        assert (first["due_date"], first["rank"], first["timeout"]) == (due.isoformat(), 2**62 + 1, 1.5)
        assert first["lock_owner"] is None and "handler_configuration" not in first
        assert {field.name for field in TimerJob._meta.fields} - set(first) == {
            "handler_configuration",
            "custom_headers",
            "exception_stack",
        }
        assert len(objects("list", "--limit", 1, alias=alias)[1]) == 1
        assert [each["state"] for each in objects("list", "--order=-id", alias=alias)[1]] == ["dead_letter", "timer"]

    def test_counts(self, alias):
        for table in (Job, Job, DeadLetterJob):
            make_row(table, alias)
        assert objects("list", "--count", "--state", "executable", "--state", "dead-letter", alias=alias) == (
            0,
            [{"executable": 2, "dead_letter": 1, "at_least": []}],
        )
        assert jobs("list", "--count", alias=alias)[1].splitlines()[0].split() == ["2", "jobs"]

    @pytest.mark.parametrize("command", [["list", "--count"], ["delete", "--dry-run", "--all-matching"]])
    def test_large_numbers_are_estimated(self, alias, monkeypatch, settings, command):
        settings.USE_THOUSAND_SEPARATOR = True  # it is Django's templates that group digits
        monkeypatch.setattr(counts, "COUNT_LIMIT", 3)
        monkeypatch.setattr(counts, "estimated_rows", lambda using, table: {TimerJob: 1_046_239}.get(table))
        for table in (TimerJob, DeadLetterJob):
            for _ in range(5):
                make_row(table, alias)
        text = jobs(*command, alias=alias)[1]
        assert "\n≈1,050,000 timer jobs\n" in text and "\n        3+ dead letter jobs\n" in text

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--order", "revision"], "order: expected one of id"),
            (["--order=-priorty"], "Did you mean 'priority'?"),
            (["--state", "dead"], "Did you mean 'dead_letter'?"),
            (["--state", "running"], "states: expected one of executable"),
            (["--state", "dead-leter"], "Did you mean 'dead_letter'?"),
            (["--state", "failed"], "Did you mean 'dead_letter'?"),
            (["--handler", ""], "handler: expected a string that is not empty"),
            (["--min-priority", "5000000"], "priority_min: expected a number from"),
            (["--of-batch", "x"], "batch_id: expected a UUID, got 'x'"),
        ],
    )
    def test_bad_input_is_usage(self, alias, arguments, message):
        code, text = jobs("list", *arguments, alias=alias)
        assert code == 2 and message in text

    def test_a_database_that_is_no_engine(self, alias, settings):
        settings.JOBEXEC = {"ENGINES": {name: {} for name in connections if name != alias}}
        code, text = jobs("list", alias=alias)
        assert code == 2 and f"--database: The database '{alias}' is not a job engine" in text


class TestShow:
    def test_everything_of_a_job(self, alias):
        make_node(alias, "berlin")
        job = work(alias, "berlin:1", process_instance_id="order-1", handler_configuration={"args": [1], "kwargs": {}})
        JobProgress(job_id=job.id, attempt=1, done=3, total=7, update_time=clock.now()).save(using=alias)
        code, text = jobs("show", job.id, alias=alias)
        assert code == 0
        assert text.startswith(f"{job.id}  {HANDLER}  in progress\n")
        for field in Job._meta.fields:
            if field.name not in ("id", "handler_type", "handler_configuration", "custom_headers", "exception_stack"):
                assert f"  {str(field.verbose_name).capitalize()} " in text
        assert "03/01/2026 12:05:00 UTC (in 5 min 0 s)" in text or "03/01/2026 12:05:00 UTC (in 5 min)" in text
        assert "Progress" in text and "3 / 7" in text and '"args": [' in text

    def test_its_attempts_and_its_stack(self, alias):
        job = work(alias, retries=1)
        stack = f"Traceback\n\t{ESCAPE}at line 1\nValueError: no"
        fail_job(alias, job, a_failure("ValueError: no", stack=stack), a_run(alias, 2.5))
        code, text = jobs("show", job.id, alias=alias)
        assert code == 0 and "dead letter" in text.splitlines()[0]
        assert "failed" in text and "2 s" in text and "ValueError: no" in text
        assert ESCAPE not in text and "      [31mat line 1" in text
        _, (told,) = objects("show", job.id, alias=alias)
        assert told["exception_stack"] == stack and told["state"] == "dead_letter"
        (entry,) = told["log"]
        assert (entry["state"], entry["duration"], entry["attempt"], entry["node"]) == ("failed", 2.5, 1, "node")
        assert entry["timestamp"] == clock.now().isoformat()

    def test_one_that_is_gone_and_one_that_never_was(self, alias):
        job = work(alias)
        complete_jobs(alias, [(job, a_run(alias))])
        code, text = jobs("show", job.id, alias=alias)
        assert code == 0 and "these are its log entries" in text and "successful" in text
        id = uuid4()
        assert jobs("show", id, alias=alias) == (3, f"{id}  There is no such job.\n")
        assert objects("show", id, alias=alias) == (3, [{"id": str(id), "state": None, "log": []}])

    def test_history_that_is_still_to_be_written(self, alias):
        row = make_row(HistoryJob, alias)
        code, text = jobs("show", row.pk, alias=alias)
        assert code == 0 and text.startswith(f"{row.pk}  {HANDLER}  history\n")
        assert objects("show", row.pk, alias=alias)[1][0]["state"] == "history"

    def test_sensitive_arguments_are_hidden(self, alias):
        JobDefinition.objects.using(alias).create(id="shop.pay", handler_type="shop.pay", sensitive=["card"])
        columns = {"handler_type": "shop.pay", "handler_configuration": {"args": ["4111"], "kwargs": {"card": "4111"}}}
        job = make_job(alias, **columns)
        for text in (jobs("show", job.pk, alias=alias)[1], json.dumps(objects("show", job.pk, alias=alias)[1])):
            assert "4111" not in text and "card" in text

    def test_sensitive_values_of_a_received_message_are_hidden(self, alias):
        row = Message(pk=7, name="paid", key="1", payload={"by": "ann", "password": "4111"})
        job = make_job(alias, message=as_text(row))
        told = [jobs("show", job.pk, alias=alias)[1], jobs("show", job.pk, "--json", alias=alias)[1]]
        for text in (*told, jobs("list", "--json", alias=alias)[1]):
            assert "4111" not in text and "ann" in text
        Job.objects.using(alias).update(message="{broken 4111")
        assert "4111" not in jobs("show", job.pk, alias=alias)[1] + jobs("list", "--json", alias=alias)[1]

    @pytest.mark.databases("sqlite")
    def test_arguments_that_cannot_be_read_are_shown_as_they_are(self, alias):
        job = make_job(alias)
        with connections[alias].cursor() as cursor:
            cursor.execute("PRAGMA ignore_check_constraints = ON")
            cursor.execute("UPDATE jobexec_job SET handler_configuration = %s", ["{broken"])
            cursor.execute("PRAGMA ignore_check_constraints = OFF")
        assert "{broken" in jobs("show", job.pk, alias=alias)[1]
        assert objects("show", job.pk, alias=alias)[1][0]["handler_configuration"] == "{broken"


class TestWhy:
    def test_for_people(self, alias):
        job = make_job(alias, due_date=clock.now() + DAY)
        code, text = jobs("why", job.pk, alias=alias)
        first, *reasons = text.splitlines()
        assert code == 0
        assert first == f"{job.pk}  do_nothing()  timer"
        assert [line[:2] for line in reasons] == ["* "] * 3
        assert "It is not due before 03/02/2026 12:00:00 UTC (in 1 d" in reasons[0]

    def test_is_wrapped_to_the_terminal(self, alias, monkeypatch):
        monkeypatch.setenv("COLUMNS", "60")
        job = make_row(DeadLetterJob, alias, exception_message=f"{ESCAPE}{'no ' * 80}")
        _, text = jobs("why", job.pk, alias=alias, terminal=True)
        lines = [_without_colours(line) for line in text.splitlines()[1:]]
        assert max(map(len, lines)) <= 60 and len(lines) > 4
        assert [line[0] for line in lines].count("*") == 1
        assert ESCAPE not in text

    def test_for_programs(self, alias):
        job = make_job(alias)
        code, (told,) = objects("why", job.pk, alias=alias)
        assert (code, told["id"], told["state"]) == (0, str(job.pk), "executable")
        assert next(reason["code"] for reason in told["reasons"]) == "no_node"

    def test_of_a_job_that_nothing_knows(self, alias):
        code, (told,) = objects("why", uuid4(), alias=alias)
        assert (code, told["reasons"][0]["code"]) == (0, "not_found")


def test_an_id_that_is_none_is_usage(capsys):
    for action in ("show", "why", "retry"):
        with pytest.raises(SystemExit) as ended:
            Command().run_from_argv(["manage.py", "jobs", action, "x"])
        assert ended.value.code == 2
        told = capsys.readouterr().err
        assert "expected the id of a job, a UUID or at least the first 6 digits of it, or the key of" in told
        assert f"usage: manage.py jobs {action} [options]" in told


def test_a_word_that_is_none_gets_the_one_that_is_meant(capsys):
    for arguments, meant in (
        (["lst"], "list"),
        (["schedules", "enabel"], "enable"),
        (["list", "--type", "tmer"], "timer"),
        (["list", "--handlr", "levy"], "--handler"),
        (["schedules", "show", "--tims=5", "report"], "--times"),
        (["enqueue", "levy", "--kwargs={}"], "--arguments"),
        (["enqueue", "levy", "--queue", "mail"], "--category"),
        (["enqueue", "levy", "--eta=+2h"], "--delay"),
    ):
        with pytest.raises(SystemExit) as ended:
            Command().run_from_argv(["manage.py", "jobs", *arguments])
        assert ended.value.code == 2 and f"Did you mean '{meant}'?" in capsys.readouterr().err


def test_without_an_action_it_lists_them(capsys):
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "jobs"])
    told = capsys.readouterr()
    listed = [line.split("  ", 1)[0] for line in told.err.splitlines()]
    assert (ended.value.code, told.out) == (2, "")
    assert told.err.startswith("usage: manage.py jobs ACTION [options]\n")
    assert set(ACTIONS) <= set(listed)
    assert "List jobs, oldest first." in told.err and "--pythonpath" not in told.err


class TestBeginnings:
    ONE, OTHER = UUID("01a200b7-cceb-7489-b61b-4096ce0aac17"), UUID("01a200b7-cc00-7489-b61b-4096ce0aac17")

    @pytest.mark.gate
    @pytest.mark.every_database
    def test_of_the_ids_of_jobs(self, alias):
        make_row(TimerJob, alias, id=self.ONE)
        make_row(DeadLetterJob, alias, id=self.OTHER, handler_type="shop.ship")
        make_job(alias)
        for text in ("01a200b7-cceb", "01A200B7CCEB", "01a200b7-cceb-7489-b61b-4096…"):
            assert objects("show", text, alias=alias)[1][0]["id"] == str(self.ONE)
        code, text = jobs("retry", "01a200b7-cceb", alias=alias)
        assert code == 0 and make_row(Job, alias, id=uuid4()) and Job.objects.using(alias).filter(pk=self.ONE).exists()

    def test_one_of_several_lists_them(self, alias):
        make_row(TimerJob, alias, id=self.ONE)
        make_row(DeadLetterJob, alias, id=self.OTHER, handler_type="shop.ship")
        code, text = jobs("why", "01a200", alias=alias)
        assert code == 2 and "Several ids begin with 01a200" in text
        assert f"  {self.ONE}  {HANDLER}" in text and f"  {self.OTHER}  shop.ship" in text
        code, text = jobs("why", "01a200b8", alias=alias)
        assert code == 2 and "No job has an id that begins with 01a200b8" in text

    def test_a_job_that_is_gone_is_found_in_the_log(self, alias):
        job = work(alias, handler_type="shop.ship")
        complete_jobs(alias, [(job, a_run(alias))])
        for text in (job.id.hex[:20], f"{job.id.hex[:13]}…{job.id.hex[-6:]}"):
            _, (told,) = objects("show", text, alias=alias)
            assert told["id"] == str(job.id) and told["state"] is None

    def test_digits_may_be_a_key_or_a_beginning(self, alias):
        job = make_row(TimerJob, alias, id=UUID("01220074-0000-7489-b61b-4096ce0aac17"))
        assert objects("show", "01220074", alias=alias)[1][0]["id"] == str(job.pk)

    @pytest.mark.gate
    def test_of_the_ids_of_batches(self, alias):
        batch = start_batch("requeue", DeadLetterJob.objects.using(alias), using=alias)
        assert objects("batches", "show", batch.pk.hex[:20], alias=alias)[1][0]["id"] == str(batch.pk)
        assert jobs("list", "--of-batch", batch.pk.hex[:20], "--state", "timer", alias=alias)[0] == 0
        code, text = jobs("batches", "show", "01a200b7", alias=alias)
        assert code == 2 and "Nothing here has an id that begins with 01a200b7" in text


@pytest.mark.gate
def test_names_that_nothing_has(alias):
    JobDefinition.objects.using(alias).create(pk="shop.jobs.levy", handler_type="shop.jobs.levy", category="a")
    for arguments, text in (
        (
            ["--handler", "shop.jobs.lvey"],
            "There is no handler 'shop.jobs.lvey'. Did you mean shop.jobs.levy?",
        ),
        (["--handler", "levy"], "Did you mean shop.jobs.levy?"),
        (["--category", "mial"], "There is no category 'mial'. Did you mean mail?"),
    ):
        assert text in jobs("list", *arguments, alias=alias)[1]
        assert text in jobs("cancel", "--all-matching", "--yes", *arguments, alias=alias)[1]
    assert jobs("list", "--handler", "shop.jobs.levy", "--category", "mail", alias=alias)[1] == "No jobs.\n"


def _without_colours(line):
    return re.sub(r"\x1b\[[0-9;]*m", "", line)
