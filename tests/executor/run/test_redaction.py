"""Sensitive arguments do not come back in what a failing job leaves behind."""

import json
import logging

import pytest
from django.contrib import admin
from django.db import connections

from jobexec import current_job, publish_message
from jobexec.admin.common.job_columns import JobColumns, arguments_of
from jobexec.executor.execute_now import execute_now
from jobexec.models import DeadLetterJob, Job, JobDefinition, JobLog, TimerJob
from jobexec.operations.messages.deliver import deliver
from jobexec.operations.nodes.deployments import write_job_definitions
from jobexec.operations.rows.bury_unreadable import bury
from jobexec.operations.rows.redaction_by_definition import hide_text_by_definition
from jobexec.redaction import redact
from jobexec.sensitive import HIDDEN
from tests.support.executor import all_gone, run_one
from tests.support.factories import make_job
from tests.support.jobs_command import jobs

from ..test_bad_rows import write_raw

pytestmark = pytest.mark.transactional

CARD = "4111-1111-1111-1111"
CODE = 987654


def charge(order, card_number, code=None):
    raise ValueError(f"declined: {card_number!r} with {code}, order {order}")


async def charge_async(order, card_number, code=None):
    charge(order, card_number, code)


def assert_nothing_leaks(*texts):
    for text in texts:
        assert CARD not in text
        assert str(CODE) not in text


@pytest.mark.parametrize("function", [charge, charge_async])
@pytest.mark.parametrize("atomic", [False, True])
def test_a_failure_is_recorded_and_logged_without_them(alias, handle, function, atomic, caplog):
    caplog.set_level(logging.DEBUG, "jobexec")
    handler = handle(function, sensitive=("card_number", "code"), atomic=atomic)
    handler.using(database=alias).enqueue("order-17", CARD, code=CODE)
    run_one(alias)
    row, log = TimerJob.objects.using(alias).get(), JobLog.objects.using(alias).get()
    assert row.exception_message == "ValueError: declined: '●●●' with ●●●, order order-17"
    assert "raise ValueError" in row.exception_stack
    assert row.handler_configuration["args"] == ["order-17", CARD], "the row keeps them, for the next attempt"
    assert "declined" in caplog.text
    assert_nothing_leaks(row.exception_stack, log.exception_message, log.exception_stack, caplog.text)


def test_names_of_the_setting_count_for_every_handler(alias, handle):
    def login(credentials, account):
        raise ValueError(f"{credentials} {account}")

    handler = handle(login)
    handler.using(database=alias).enqueue({"key": "k-2345", "user": "anna"}, {"name": "n-2345", "Password": "p-2345"})
    run_one(alias)
    message = TimerJob.objects.using(alias).get().exception_message
    assert message == "ValueError: {'key': '●●●', 'user': '●●●'} {'name': 'n-2345', 'Password': '●●●'}"


@pytest.mark.parametrize("keys", [None, {"2026": "A" * 43 + "="}], ids=["plain", "encrypted"])
def test_those_of_a_received_message_count_too(alias, handle, configure, keys):
    configure(ENCRYPTION_KEYS=keys)

    def ship(order, code):
        raise ValueError(f"{current_job().message.payload} {code}")

    handle(ship, name="tests.ship", sensitive=("code",))
    job = make_job(
        alias,
        handler_type="tests.ship",
        handler_configuration={"args": ["order-17", CODE], "kwargs": {}},
        waits_for="paid",
        waits_for_key="1",
    )
    payload = {"code": CARD, "order": "order-17", "paid_by": {"password": "p-2345"}}
    publish_message("paid", key="1", payload=payload, using=alias)
    while deliver(alias, 10).more:
        pass
    run_one(alias)
    row, log = TimerJob.objects.using(alias).get(pk=job.pk), JobLog.objects.using(alias).get()
    hidden = {"code": HIDDEN, "order": "order-17", "paid_by": {"password": HIDDEN}}
    assert row.exception_message == f"ValueError: {hidden} {HIDDEN}"
    assert_nothing_leaks(row.exception_stack, log.exception_stack)
    assert "p-2345" not in row.exception_stack + log.exception_stack


def test_without_sensitive_names_a_failure_is_as_it_was(alias, handle):
    handle(charge).using(database=alias).enqueue("order-17", CARD, code=CODE)
    run_one(alias)
    assert CARD in TimerJob.objects.using(alias).get().exception_message


def test_long_arguments_are_looked_through_too(alias, handle):
    handler = handle(charge, sensitive=("card_number",))
    handler.using(database=alias).enqueue("o" * 20_000, CARD)
    run_one(alias)
    row = TimerJob.objects.using(alias).get()
    assert "declined: '●●●'" in row.exception_message
    assert_nothing_leaks(row.exception_message, row.exception_stack)


def test_a_hook_on_the_commit_that_fails_is_logged_without_them(alias, handle, caplog):
    from django.db import transaction

    def book(card_number):
        def fail():
            raise ValueError(f"no mail about {card_number}")

        transaction.on_commit(fail, using=alias)

    handle(book, sensitive=("card_number",), atomic=True).using(database=alias).enqueue(CARD)
    run_one(alias)
    assert all_gone(alias)
    assert "ValueError: no mail about ●●●" in caplog.text
    assert_nothing_leaks(caplog.text)


def test_execute_now_raises_it_as_it_is_and_records_it_without(alias, handle):
    row = handle(charge, sensitive=("card_number",)).using(database=alias).enqueue("order-17", CARD)
    with pytest.raises(ValueError, match=CARD):
        execute_now(row.pk, using=alias)
    assert_nothing_leaks(TimerJob.objects.using(alias).get().exception_message)


def test_arguments_that_do_not_fit_are_not_quoted(alias, handle):
    handle(charge, name="tests.charge", sensitive=("card_number",))
    make_job(alias, handler_type="tests.charge", handler_configuration={"args": [1, CARD, 2, 3], "kwargs": {}})
    run_one(alias)
    row = DeadLetterJob.objects.using(alias).get()
    assert "cannot be read for tests.charge" in row.exception_message
    assert_nothing_leaks(row.exception_message, row.exception_stack)


def test_where_the_handler_is_not_known_its_definition_tells(alias):
    write_job_definitions([_definition("tests.elsewhere", ["card_number"])], using=alias)
    shown = redact("tests.elsewhere", {"args": [1, CARD], "kwargs": {"card_number": CARD, "order": 1}}, alias)
    assert shown == {"args": [HIDDEN, HIDDEN], "kwargs": {"card_number": HIDDEN, "order": 1}}
    assert redact("tests.nobodys", {"args": [1], "kwargs": {"password": 1}}, alias) == {
        "args": [HIDDEN],
        "kwargs": {"password": HIDDEN},
    }


def test_a_former_name_of_a_handler_whose_code_is_elsewhere(alias):
    """Definitions stand under the name of today: nobody knows what an alias takes, so no argument is trusted."""
    write_job_definitions([_definition("tests.elsewhere", ["card_number"])], using=alias)
    shown = redact("tests.former", {"args": [1, CARD], "kwargs": {"card_number": CARD, "order": 1}}, alias)
    assert shown == {"args": [HIDDEN, HIDDEN], "kwargs": {"card_number": HIDDEN, "order": 1}}
    assert CARD not in hide_text_by_definition("tests.former", json.dumps({"args": [CARD]}), alias)
    write_job_definitions([_definition("tests.open", [])], using=alias)
    assert redact("tests.open", {"args": [1], "kwargs": {}}, alias) == {"args": [1], "kwargs": {}}


def test_a_node_writes_what_is_sensitive(alias, handle, make_executor):
    handle(charge, sensitive=("card_number",))
    executor = make_executor()
    executor.start()
    assert JobDefinition.objects.using(alias).get(pk="tests.charge").sensitive == ["card_number"]


@pytest.mark.parametrize("broken", [False, True])
def test_a_row_that_cannot_be_read_does_not_show_them_either(alias, broken):
    if broken and connections[alias].vendor != "sqlite":
        broken = False  # they refuse it
    write_job_definitions([_definition("tests.elsewhere", ["card_number"])], using=alias)
    row = make_job(
        alias, handler_type="tests.elsewhere", handler_configuration={"args": [], "kwargs": {"card_number": CARD}}
    )
    if broken:
        write_raw(alias, row, handler_configuration='{"card_number": "' + CARD)
    assert bury(alias, Job, row.pk, "for a test")
    assert_nothing_leaks(DeadLetterJob.objects.using(alias).get().exception_stack)


def test_an_outcome_that_cannot_be_written_says_so_without_them(alias, handle, monkeypatch, caplog):
    from jobexec.executor.run import outcomes

    def refuse(using, written, *more):
        raise ValueError(f"the database quotes {json.dumps(CARD)}")

    handle(lambda card_number: None, name="tests.fine", sensitive=("card_number",)).using(database=alias).enqueue(CARD)
    monkeypatch.setattr(outcomes, "_complete", refuse)
    run_one(alias)
    row = DeadLetterJob.objects.using(alias).get()
    assert row.exception_message == 'The outcome could not be written: ValueError: the database quotes "●●●"'
    assert_nothing_leaks(row.exception_stack, caplog.text)


def _definition(name, sensitive):
    return {"id": name, "handler_type": name, "category": "default", "sensitive": sensitive}


def test_neither_the_admin_nor_the_command_shows_them(alias, handle):
    handler = handle(charge, sensitive=("card_number",))
    row = handler.using(database=alias, headers={"Authorization": "Bearer 7f3a9"}).enqueue("order-17", CARD)
    shown = [str(arguments_of(row)), JobColumns(Job, admin.site).headers(row)]
    for arguments in (["show", row.pk], ["show", row.pk, "--json"]):
        code, written = jobs(*arguments, alias=alias)
        assert code == 0
        shown.append(written)
    assert "order-17" in shown[0]
    assert_nothing_leaks(*shown)
    assert [text for text in shown if "7f3a9" in text] == []
