"""`manage.py jobs schedules`: what is done again and again."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError

from jobexec import job
from jobexec.handlers.registry import isolated
from jobexec.models import Job, JobDefinition, Schedule, ScheduleFiring
from jobexec.operations.schedules.manage import save_schedule
from tests.support.jobs_command import jobs, objects

pytestmark = pytest.mark.usefixtures("engines", "frozen")

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)  # a Sunday


@pytest.fixture(autouse=True)
def handlers():
    with isolated():

        @job(name="tests.report")
        def report(shop, token=""): ...

        yield


@pytest.fixture
def schedule(alias):
    return save_schedule(
        alias,
        name="report",
        handler_type="tests.report",
        expression="0 3 * * *",
        timezone="UTC",
        kwargs={"shop": 4711, "token": "tok-1"},
        options={"priority": 5},
    )


def names(alias):
    return list(Schedule.objects.using(alias).values_list("name", flat=True))


def test_nothing_is_there(alias):
    assert jobs("schedules", alias=alias) == (0, "No schedules.\n")
    assert objects("schedules", "list", alias=alias) == (0, [])
    assert jobs("schedules", "show", "report", alias=alias) == (3, "There is no such schedule.\n")
    assert objects("schedules", "show", "report", alias=alias) == (3, [])


def test_a_name_that_is_none_gets_the_one_that_is_meant(alias, schedule):
    _, text = jobs("schedules", "show", "reprot", alias=alias)
    assert text == "There is no such schedule. Did you mean report?\n"
    code, text = jobs("schedules", "disable", "reprot", alias=alias)
    assert code == 3 and text.endswith(" Did you mean 'report'?\n")


def test_the_list_says_when_next_and_hides_what_is_sensitive(alias, schedule):
    for arguments in ((), ("list",)):
        code, text = jobs("schedules", *arguments, alias=alias)
        (line,) = [line for line in text.splitlines() if line.startswith("report")]
        assert code == 0
        assert "every day at 03:00" in line and "in 15 h" in line and "enabled" in line and "tests.report" in line
        code, (told,) = objects("schedules", *arguments, alias=alias)
        assert (code, told["name"], told["next_time"]) == (0, "report", "2026-03-02T03:00:00+00:00")
        assert told["handler_configuration"]["kwargs"] == {"shop": 4711, "token": "●●●"}


@pytest.mark.gate
def test_show(alias, schedule):
    assert jobs("schedules", "fire", "report", alias=alias)[0] == 0
    made = str(Job.objects.using(alias).get().pk)
    code, text = jobs("schedules", "show", "report", "--times", "3", alias=alias)
    assert code == 0 and "tok-1" not in text and 'Options: {"priority": 5}' in text
    times = text.split("Next times")[1].split("Last firings")[0].split("\n")[1:-2]
    assert [line.split(" (")[1] for line in times] == ["in 15 h)", "in 1 d 15 h)", "in 2 d 15 h)"]
    assert made in text.split("Last firings")[1]
    code, (told,) = objects("schedules", "show", "report", alias=alias)
    assert (code, len(told["upcoming"]), told["problem"]) == (0, 5, "")
    assert [each["job_id"] for each in told["firings"]] == [made]


def test_show_says_why_it_would_not_fire_here(alias, schedule):
    Schedule.objects.using(alias).update(handler_type="tests.elsewhere")
    code, text = jobs("schedules", "show", "report", alias=alias)
    assert code == 0 and "This process could not fire the schedule: No handler 'tests.elsewhere'" in text


DEEP, LONG = "[" * 100_000 + "]" * 100_000, "{" + " " * 1_000_000 + "}"
ADD = ("schedules", "add", "nightly", "tests.report", "30 2 * * *")
SHOP = ("--timezone", "UTC", "--arguments", '{"shop": 1}')


def test_add(alias):
    code, text = jobs(*ADD, *SHOP, "--misfire", "skip", "--options", '{"priority": 3}', alias=alias)
    assert code == 0, text
    assert text.startswith("The schedule nightly fires:\n") and text.count("\n") == 6
    row = Schedule.objects.using(alias).get()
    assert (row.name, row.expression, row.timezone, row.misfire) == ("nightly", "30 2 * * *", "UTC", "skip")
    assert (row.handler_configuration, row.options) == ({"args": [], "kwargs": {"shop": 1}}, {"priority": 3})
    assert row.next_time == datetime(2026, 3, 2, 2, 30, tzinfo=UTC) and not row.from_code


def test_add_with_arguments_by_position(alias):
    code, text = jobs(*ADD, "--arguments", '[1, "x"]', alias=alias)
    assert code == 0, text
    assert Schedule.objects.using(alias).get().handler_configuration == {"args": [1, "x"], "kwargs": {}}


def test_add_without_consequences(alias):
    code, text = jobs(*ADD, *SHOP, "--dry-run", alias=alias)
    assert code == 0 and "Nothing has been changed." in text and names(alias) == []
    code, (told,) = objects(*ADD, *SHOP, "--dry-run", alias=alias)
    assert (code, told["dry_run"], len(told["upcoming"]), names(alias)) == (0, True, 5, [])


def test_add_disabled(alias):
    code, text = jobs(*ADD, *SHOP, "--disabled", alias=alias)
    assert code == 0 and "When enabled, the schedule " in text
    assert Schedule.objects.using(alias).get().next_time is None


def test_add_does_not_change_what_is_there_unless_told_to(alias, schedule):
    again = ("schedules", "add", "report", "tests.report", "@hourly", *SHOP)
    assert jobs(*again, alias=alias) == (3, "The schedule report already exists; --replace changes it.\n")
    code, (told,) = objects(*again, alias=alias)
    assert (code, told["skipped"]) == (3, {"report": "it already exists"})
    assert jobs(*again, "--replace", "--dry-run", alias=alias)[0] == 0
    assert Schedule.objects.using(alias).get().expression == "0 3 * * *"
    assert jobs(*again, "--replace", alias=alias)[0] == 0
    assert Schedule.objects.using(alias).get().expression == "@hourly"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((*ADD[:4], "61 * * * *", *SHOP), "61 * * * *"),
        ((*ADD[:3], "tests.nobody", ADD[4], *SHOP), "there is no handler 'tests.nobody'"),
        ((*ADD, "--timezone", "Mars/Base"), "Mars/Base"),
        (ADD, "shop"),
    ],
)
def test_what_cannot_be_is_wrong_usage(alias, arguments, told):
    code, text = jobs(*arguments, alias=alias)
    assert code == 2 and told in text and names(alias) == []


@pytest.mark.parametrize(
    "option",
    ["--arguments=1", "--options=[]", "--options=1", "--arguments=[", "--misfire=never"],
)
@pytest.mark.databases("sqlite")
def test_what_is_no_such_json_is_refused_when_it_is_read(alias, option):
    with pytest.raises(CommandError, match=f"argument {option.split('=')[0]}: "):
        jobs(*ADD, option, alias=alias)


@pytest.mark.parametrize("option", [f"--arguments={DEEP}", f"--options={LONG}"], ids=["deep", "long"])
@pytest.mark.databases("sqlite")
def test_json_beyond_its_limits_is_refused(alias, option):
    with pytest.raises(CommandError, match="expected JSON of at most 1,000,000 characters, nested at most 200 deep"):
        jobs(*ADD, option, alias=alias)


def test_a_handler_of_another_process(alias):
    JobDefinition.objects.using(alias).create(id="shop.elsewhere", handler_type="shop.elsewhere")
    assert jobs(*ADD[:3], "shop.elsewhere", "R/PT1H", alias=alias)[0] == 0
    code, text = jobs("schedules", "fire", "nightly", alias=alias)
    assert code == 3 and "No handler 'shop.elsewhere'" in text


def test_disable_and_enable(alias, schedule):
    assert jobs("schedules", "disable", "report", alias=alias) == (0, "1 schedule disabled.\n")
    assert Schedule.objects.using(alias).get().next_time is None
    code, text = jobs("schedules", "enable", "report", "nobody", "report", alias=alias)
    assert code == 3 and text.startswith("1 schedule enabled.\n1 schedule was skipped:\n  nobody  ")
    assert Schedule.objects.using(alias).get().next_time == NOW.replace(hour=3) + timedelta(days=1)


def test_fire(alias, schedule):
    code, (told,) = objects("schedules", "fire", "report", "nobody", alias=alias)
    made = Job.objects.using(alias).get()
    assert (code, told["changed"], told["jobs"]) == (3, ["report"], {"report": str(made.pk)})
    assert list(told["skipped"]) == ["nobody"] and made.priority == 5
    assert Schedule.objects.using(alias).get().next_time == schedule.next_time


@pytest.mark.parametrize("verb", ["enable", "disable", "fire", "delete"])
def test_without_consequences(alias, schedule, verb):
    before = Schedule.objects.using(alias).values().get()
    code, text = jobs("schedules", verb, "--dry-run", "report", alias=alias)
    assert code == 0 and "report" in text and text.endswith("Nothing has been changed.\n")
    assert jobs("schedules", verb, "--dry-run", "report", "nobody", alias=alias)[0] == 3
    assert Schedule.objects.using(alias).values().get() == before
    assert not Job.objects.using(alias).exists()


def test_delete_asks(alias, schedule):
    jobs("schedules", "fire", "report", alias=alias)
    code, text = jobs("schedules", "delete", "report", alias=alias)
    assert code == 2 and "use --yes" in text and names(alias) == ["report"]
    assert jobs("schedules", "delete", "--yes", "report", alias=alias) == (0, "1 schedule deleted.\n")
    assert names(alias) == [] and not ScheduleFiring.objects.using(alias).exists()
    assert Job.objects.using(alias).count() == 1
