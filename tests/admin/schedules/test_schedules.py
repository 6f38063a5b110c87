"""Schedules in the admin: what is told of them, the form, firing and switching off."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from jobexec import clock, job
from jobexec.admin.common import display
from jobexec.admin.schedules.form import EXPRESSIONS
from jobexec.admin.schedules.schedule import ScheduleAdmin
from jobexec.by_hand import restored
from jobexec.exceptions import InvalidSchedule
from jobexec.handlers.registry import isolated
from jobexec.models import Job, JobDefinition, Schedule, ScheduleFiring
from jobexec.operations.schedules import upcoming
from jobexec.operations.schedules.words import in_words
from jobexec.sensitive import HIDDEN
from tests.support.audit import audit_log

from .. import data
from ..conftest import Staff, list_url, page_url

ADD = "/admin/jobexec/schedule/add/"
HANDLER = "demo_project.bookings.jobs.book_hotel"
ANSWERS = {
    "name": "hotels",
    "handler_type": HANDLER,
    "expression": "0 3 * * *",
    "timezone": "Europe/Berlin",
    "misfire": "once",
    "enabled": "on",
    "args": "[4711]",
    "kwargs": "{}",
    "options": '{"priority": 5}',
}


def errors(response: Any) -> dict[str, list[str]]:
    """The errors of a form by field."""
    return {field: list(texts) for field, texts in response.context["adminform"].form.errors.items()}


def test_a_person_adds_one(admin):
    response = admin.post(ADD, ANSWERS)
    assert response.status_code == 302, errors(response)
    row = Schedule.objects.get()
    assert (row.name, row.handler_type, row.expression, row.timezone) == (
        "hotels",
        HANDLER,
        "0 3 * * *",
        "Europe/Berlin",
    )
    assert row.handler_configuration == {"args": [4711], "kwargs": {}}
    assert (row.options, row.enabled, row.from_code) == ({"priority": 5}, True, False)
    assert row.next_time is not None and row.next_time > clock.now()
    (entry,) = audit_log()
    assert (entry.verb, entry.object_type, entry.object_id, entry.operator) == (
        "save_schedule",
        "schedule",
        "hotels",
        "admin",
    )
    assert entry.new_value["expression"] == "0 3 * * *" and entry.old_value is None


def test_one_that_is_added_disabled_has_no_next_time(admin):
    answers = {name: value for name, value in ANSWERS.items() if name != "enabled"}
    assert admin.post(ADD, answers).status_code == 302
    assert (Schedule.objects.get().enabled, Schedule.objects.get().next_time) == (False, None)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("expression", "61 * * * *", "61 * * * *"),
        ("expression", "R1/2001-01-01T00:00Z/PT1H", "would never fire"),
        ("expression", "", "required"),
        ("timezone", "Europe/Berln", "Did you mean 'Europe/Berlin'?"),
        ("handler_type", "shop.nobody", "there is no handler 'shop.nobody'"),
        ("handler_type", "jobexec.batch_seed", "internal job of jobexec and cannot be scheduled"),
        ("args", "[", "valid JSON"),
        pytest.param("args", "[" * 201 + "]" * 201, "nested at most 200 deep", id="args-deep"),
        ("args", '{"a": 1}', "must be a JSON list"),
        ("args", "[1, 2, 3]", ""),
        ("args", "[NaN]", "args[0]: expected JSON, got nan"),
        ("kwargs", "[]", "must be a JSON object"),
        ("kwargs", '{"share": [NaN]}', "kwargs['share'][0]: expected JSON, got nan"),
        ("options", '{"nonsense": 1}', "nonsense"),
        ("options", '{"run_after": 1}', "run_after"),
        ("misfire", "never", "Select a valid choice"),
        ("name", "", "required"),
        ("name", "x" * 256, "255"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(admin, field, value, told):
    response = admin.post(ADD, {**ANSWERS, field: value})
    assert response.status_code == 200
    found = errors(response)
    assert list(found) == [field], found
    assert told.lower() in found[field][0].lower()
    assert not Schedule.objects.exists()
    assert b'class="errorlist"' in response.content


def test_what_only_saving_can_find_is_said(admin, monkeypatch):
    def refuse(using, **values):
        Schedule.objects.using(using).create(name="half", handler_type=HANDLER, expression="@daily")
        raise InvalidSchedule("expression: it has just ended.")

    monkeypatch.setattr("jobexec.admin.schedules.schedule.save_schedule", refuse)
    response = admin.post(ADD, ANSWERS)
    assert response.status_code == 302
    assert admin.told(response) == [("error", "expression: it has just ended.")]
    assert not Schedule.objects.exists() and not audit_log()


def test_a_name_that_is_taken_changes_nothing(admin):
    row = data.schedule(name="hotels")
    assert list(errors(admin.post(ADD, ANSWERS))) == ["name"]
    row.refresh_from_db()
    assert row.expression == "0 3 * * MON-FRI"


def change(admin: Staff, row: Schedule, **answers: str) -> Any:
    given = {"handler_type": row.handler_type, "expression": row.expression, "timezone": row.timezone}
    jobs = {"misfire": row.misfire, "args": "[4711]", "kwargs": "{}", "options": '{"priority": 5}'}
    return admin.post(page_url(row), {**given, **jobs, **answers})


def test_a_person_changes_it_and_the_times_begin_anew(admin):
    row = data.schedule(next_time=datetime(2099, 1, 1, tzinfo=UTC))
    response = change(admin, row, expression="*/5 * * * *", misfire="all", options="")
    assert response.status_code == 302, errors(response)
    row.refresh_from_db()
    assert (row.expression, row.misfire, row.options, row.name) == ("*/5 * * * *", "all", {}, "shop.reminders")
    assert row.next_time is not None and row.next_time <= clock.now() + timedelta(minutes=5)
    (entry,) = audit_log()
    assert (entry.old_value["expression"], entry.new_value["expression"]) == ("0 3 * * MON-FRI", "*/5 * * * *")
    assert "timezone" not in entry.new_value


def test_changing_leaves_it_disabled_and_its_name_as_it_is(admin):
    row = data.schedule(enabled=False, next_time=None)
    change(admin, row, expression="1 2 * * *", name="another", enabled="on")
    row.refresh_from_db()
    assert (row.name, row.expression, row.enabled, row.next_time) == ("shop.reminders", "1 2 * * *", False, None)


def test_the_page_shows_the_next_times_and_the_last_firings(admin):
    dead = data.dead_letter()
    row = data.schedule(fired_job=dead.pk)
    content = admin.get(page_url(row)).content.decode()
    times = content.split('<ol class="jobexec-times">')[1].split("</ol>")[0]
    assert times.count("<li>") == 5 and times.count("03:00:00 CE") == 5
    assert "Monday to Friday at 03:00" in content
    assert f"locate/{dead.pk}/" in content.split('id="jobexec-firings"')[1]
    assert "The schedule shop.reminders, for" in admin.get(page_url(dead)).content.decode()


def test_one_from_the_code_says_so_and_keeps_its_handler(admin):
    declared = "0 3 * * MON-FRI\nEurope/Berlin\nonce"
    row = data.schedule(declared=declared)
    content = admin.get(page_url(row)).content.decode()
    assert 'id="jobexec-from-code"' in content and 'name="handler_type"' not in content
    change(admin, row, expression="0 4 * * *", handler_type="demo_project.bookings.jobs.confirm_booking")
    row.refresh_from_db()
    assert (row.expression, row.handler_type, row.declared) == ("0 4 * * *", HANDLER, declared)
    content = admin.get(page_url(row)).content.decode()
    assert "The code declares it as <code>0 3 * * MON-FRI</code>" in content


def test_a_handler_that_nobody_knows_is_pointed_out(admin):
    data.schedule(name="known")
    data.schedule(name="recorded", handler_type="shop.recorded")
    JobDefinition.objects.create(id="shop.recorded", handler_type="shop.recorded")
    unknown = data.schedule(name="unknown", handler_type="shop.unknown")
    rows = admin.get(list_url(Schedule)).context["cl"].result_list
    assert {row.name: row.known for row in rows} == {"known": True, "recorded": True, "unknown": False}
    content = admin.get(page_url(unknown)).content.decode()
    assert "no executor knows its handler" in content and 'id="jobexec-problem"' in content


def test_handlers_and_time_zones_are_offered(admin):
    JobDefinition.objects.create(id="shop.recorded", handler_type="shop.recorded")
    content = admin.get(ADD).content.decode()
    for offered in (HANDLER, "shop.recorded", "Europe/Berlin"):
        assert f'<option value="{offered}"></option>' in content


def test_common_expressions_are_offered_in_words(admin):
    content = admin.get(ADD).content.decode()
    assert '<option value="0 3 * * MON-FRI" label="Monday to Friday at 03:00"></option>' in content
    for expression in EXPRESSIONS:
        assert in_words(expression) and upcoming(expression, 1)


class TestTimes:
    """What the form shows before it is saved."""

    URL = f"{list_url(Schedule)}times/"

    def times(self, client, expression, timezone="Europe/Berlin"):
        return client.get(self.URL, {"expression": expression, "timezone": timezone})

    def test_five_of_them_and_the_words(self, admin):
        content = self.times(admin, " 0 3 * * * ").content.decode()
        assert content.count("<li>") == 5 and content.count("03:00:00 CE") == 5
        assert "every day at 03:00" in content
        assert self.times(admin, "R2/PT1H").content.decode().count("<li>") == 2
        assert not Schedule.objects.exists()

    @pytest.mark.parametrize(
        ("expression", "timezone", "told"),
        [
            ("61 * * * *", "UTC", "61 * * * *"),
            ("<b>", "UTC", "&lt;b&gt;"),
            ("x" * 256, "UTC", "1 to 255 characters"),
            ("R1/2001-01-01T00:00Z/PT1H", "UTC", "would never fire"),
            ("R1/9999-12-31T12:00Z/PT1H", "Pacific/Kiritimati", "would never fire"),
            ("@daily", "Europe/Berln", "Did you mean"),
            ("@daily", "\0", "Expected the name of a time zone"),
            ("", "UTC", display.NONE),
            ("@daily", "", display.NONE),
        ],
    )
    def test_or_what_is_wrong(self, admin, expression, timezone, told):
        response = self.times(admin, expression, timezone)
        assert response.status_code == 200
        assert told in response.content.decode() and "<li>" not in response.content.decode()

    @pytest.mark.parametrize(
        ("permission", "status"), [("add_schedule", 200), ("change_schedule", 200), ("fire_schedule", 403)]
    )
    def test_only_who_may_save_one_asks(self, staff, permission, status):
        assert self.times(staff(permission), "@daily").status_code == status

    def test_who_is_not_logged_in_is_sent_to_the_login(self, client):
        assert self.times(client, "@daily").status_code == 302


def test_firing_now_makes_a_job_and_leaves_the_times(admin):
    row = data.schedule()
    response = admin.act(Schedule, "fire_now", [row], answered=False)
    assert admin.told(response) == [("success", "1 schedule fired: its job is due now; its times do not change.")]
    made = Job.objects.get()
    assert (made.handler_type, made.priority) == (HANDLER, 5)
    assert ScheduleFiring.objects.get().job_id == made.pk
    before, row = row.next_time, Schedule.objects.get()
    assert (row.next_time, row.fired) == (before, 42)


def test_a_handler_that_is_not_here_cannot_be_fired_from_here(admin):
    known, unknown = data.schedule(name="known"), data.schedule(name="unknown", handler_type="shop.unknown")
    told = admin.told(admin.act(Schedule, "fire_now", [known, unknown]))
    assert [level for level, _text in told] == ["success", "warning"]
    assert "No handler 'shop.unknown' is registered in this process" in told[1][1]


@pytest.mark.gate
def test_switching_off_and_on(admin):
    row = data.schedule()
    assert b'value="disable"' in admin.get(page_url(row)).content
    admin.act(Schedule, "disable", [row])
    row.refresh_from_db()
    assert (row.enabled, row.next_time) == (False, None)
    content = admin.get(page_url(row)).content
    assert b'value="enable"' in content and b'value="disable"' not in content
    admin.act(Schedule, "enable", [row])
    row.refresh_from_db()
    assert row.enabled and row.next_time is not None
    assert [entry.new_value for entry in audit_log()] == [{"enabled": False}, {"enabled": True}]


def test_deleting_takes_the_firings_along_and_leaves_the_jobs(admin):
    dead = data.dead_letter()
    row = data.schedule(fired_job=dead.pk)
    deletion = f"{list_url(Schedule)}{row.pk}/delete/"
    assert admin.post(deletion, {"post": "yes"}).status_code == 302
    assert Schedule.objects.exists(), "Django's own page would load all firings"
    assert b"is created again when" in admin.act(Schedule, "delete_selected", [row], answered=False).content
    admin.act(Schedule, "delete_selected", [row])
    assert not Schedule.objects.exists() and not ScheduleFiring.objects.exists()
    assert type(dead).objects.filter(pk=dead.pk).exists()
    assert [entry.verb for entry in audit_log()] == ["delete_schedule"]


def test_who_may_only_look_is_asked_nothing(staff):
    row = data.schedule()
    content = staff().get(page_url(row)).content.decode()
    assert "<textarea" not in content and 'name="expression"' not in content and 'name="_save"' not in content
    assert "4711" in content and "Monday to Friday at 03:00" in content


@pytest.mark.parametrize("permission", ["add_schedule", "change_schedule", "fire_schedule", "delete_schedule"])
def test_adding_and_changing_have_their_own_permissions(staff, permission):
    row, client = data.schedule(), staff(permission)
    added, changed = client.post(ADD, ANSWERS), change(client, row, expression="1 1 * * *")
    assert (added.status_code, changed.status_code) == (
        302 if permission == "add_schedule" else 403,
        302 if permission == "change_schedule" else 403,
    )


class TestSensitive:
    @pytest.fixture
    def row(self):
        with isolated():

            @job(name="tests.pay", sensitive=["card"])
            def pay(card, amount=0, token=""): ...

            @job(name="tests.tell")
            def tell(card, amount=0, token=""): ...

            configuration = {"args": ["4111"], "kwargs": {"token": "tok-1", "amount": 5}}
            yield data.schedule(handler_type="tests.pay", handler_configuration=configuration)

    def test_hidden_values_are_not_in_the_form_and_stay(self, admin, row):
        content = admin.get(page_url(row)).content.decode()
        assert "4111" not in content and "tok-1" not in content and HIDDEN in content
        kwargs = f'{{"token": "{HIDDEN}", "amount": 6}}'
        response = change(admin, row, args=f'["{HIDDEN}"]', kwargs=kwargs)
        assert response.status_code == 302, errors(response)
        row.refresh_from_db()
        assert row.handler_configuration == {"args": ["4111"], "kwargs": {"token": "tok-1", "amount": 6}}

    def test_they_do_not_wander_to_where_they_would_be_shown(self, admin, row):
        for answers in (
            {"kwargs": f'{{"amount": "{HIDDEN}x", "other": "{HIDDEN}"}}'},
            {"handler_type": "tests.tell", "args": f'["{HIDDEN}"]'},
        ):
            response = change(admin, row, **{"args": '["4112"]', "kwargs": "{}", **answers})
            assert "Enter hidden values" in str(errors(response))
        row.refresh_from_db()
        assert row.handler_configuration["args"] == ["4111"]

    def test_a_value_is_restored_at_its_own_place_only(self):
        stored = {"a": {"token": 1}, "b": [1, 2]}
        given = {"a": {"token": HIDDEN, "new": HIDDEN}, "b": [HIDDEN, 3, HIDDEN], "c": HIDDEN}
        assert restored(given, stored) == {"a": {"token": 1, "new": HIDDEN}, "b": [1, 3, HIDDEN], "c": HIDDEN}


class TestTenants:
    @pytest.fixture
    def acme(self, db, settings):
        settings.JOBEXEC = {"ADMIN_TENANTS": "tests.admin.tenants.of_user", "CATEGORIES": ["default", "mail"]}
        client = Staff()
        client.force_login(get_user_model().objects.create_superuser("clerk", last_name="acme"))
        return client

    @pytest.mark.parametrize("options", ["{}", '{"tenant_id": "beta"}'])
    def test_nobody_adds_or_changes_for_others(self, acme, options):
        mine = data.schedule(options={"tenant_id": "acme"})
        assert list(errors(acme.post(ADD, {**ANSWERS, "options": options}))) == ["options"]
        assert list(errors(change(acme, mine, options=options))) == ["options"]
        assert Schedule.objects.get().options == {"tenant_id": "acme"}

    def test_one_s_own(self, acme):
        reaching = '{"tenant_id": "acme", "process_instance_id": "batch:01a20982-59bb-7160-b3e3-d145ea09f6fe"}'
        answer = acme.post(ADD, {**ANSWERS, "options": reaching}).text
        assert "affect jobs of other tenants: process_instance_id" in answer
        # Unique keys and process instances belong to a tenant.
        own = '{"tenant_id": "acme", "unique": true, "on_conflict": "replace", "process_instance_id": "order-5"}'
        assert acme.post(ADD, {**ANSWERS, "options": own}).status_code == 302
        assert change(acme, Schedule.objects.get(), options=own).status_code == 302

    def test_handlers_are_offered_to_nobody_who_is_kept_to_tenants(self, acme):
        content = acme.get(ADD).content.decode()
        assert HANDLER not in content and "Europe/Berlin" in content

    def test_the_name_of_another_tenant_s_is_taken(self, acme):
        theirs = data.schedule(name="hotels", options={"tenant_id": "beta"})
        response = acme.post(ADD, {**ANSWERS, "options": '{"tenant_id": "acme"}'})
        assert list(errors(response)) == ["name"]
        theirs.refresh_from_db()
        assert theirs.options == {"tenant_id": "beta"}


@pytest.mark.parametrize("tenants", [{"acme"}, {"acme", ""}, {""}, set()])
def test_the_condition_of_the_tenants(alias, rf, monkeypatch, tenants):
    rows = {"acme": {"tenant_id": "acme"}, "beta": {"tenant_id": "beta"}, "none": {}, "empty": {"tenant_id": ""}}
    for name, options in rows.items():
        data.schedule(alias, name=name, options=options)
    monkeypatch.setattr("jobexec.admin.schedules.schedule.tenants_of", lambda request: frozenset(tenants))
    from django.contrib.admin import site

    page = site.get_model_admin(Schedule)
    assert isinstance(page, ScheduleAdmin)
    found = set(page.get_queryset(rf.get("/")).using(alias).values_list("name", flat=True))
    assert found == (tenants - {""}) | ({"none", "empty"} if "" in tenants else set())


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("*/7 * * * *", ""),
        ("15 * * * *", "every hour at minute 15"),
        ("0 3 * * *", "every day at 03:00"),
        ("30 12 * * 0", "Sunday at 12:30"),
        ("30 12 * * 7", "Sunday at 12:30"),
        ("0 3 * * MON-FRI", "Monday to Friday at 03:00"),
        ("0 3 * * 1,3", "Monday, Wednesday at 03:00"),
        ("0 3 * * MON#2", ""),
        ("0 3 1 * *", "on day 1 of each month at 03:00"),
        ("0 3 L * *", ""),
        ("0 3 1 1 *", ""),
        ("0 0 3 * * *", ""),
        ("@daily", "every day at 00:00"),
        ("@Daily", "every day at 00:00"),
        ("@yearly", ""),
        ("@yearly", ""),
        ("R/PT1H", "every 1 h"),
        ("R/2026-01-01T00:00Z/PT90M", "every 1 h 30 min"),
        ("R/PT1H/2026-12-31T00:00Z", "every 1 h"),
        ("R5/PT10M", "5 times, every 10 min"),
        ("R1/PT10M", "once, after 10 min"),
        ("R/2026-01-01T00:00Z/P1M", ""),
        ("R/2026-01-01T00:00Z/2026-01-02T00:00Z", ""),
        ("nonsense", ""),
    ],
)
def test_in_words(expression, words):
    assert in_words(expression) == words
