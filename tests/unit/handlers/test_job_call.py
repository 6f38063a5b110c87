"""A call as a value: checked at once, immutable, storable as JSON."""

import json
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta, timezone

import pytest

from jobexec.exceptions import InvalidJob
from jobexec.models import BlockedJob, Job, TimerJob
from jobexec.operations.enqueue.stored_calls import create_stored

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def charge(handle):
    def charge(context, order, amount=1):
        pass

    return handle(charge, category="default", priority=3)


def test_it_is_checked_at_once(charge):
    with pytest.raises(InvalidJob, match="missing a required argument: 'order'"):
        charge.s()
    with pytest.raises(InvalidJob, match="argument 'order'"):
        charge.s(object())
    assert charge.s(5).arguments == {"args": [5], "kwargs": {}}
    assert charge.s(5, amount=2).arguments == {"args": [5], "kwargs": {"amount": 2}}


def test_it_is_immutable(charge):
    order = [1]
    call = charge.s(order)
    order.append(2)
    assert call.arguments["args"] == [[1]]
    with pytest.raises(FrozenInstanceError):
        call.encoded = "{}"
    assert call == charge.s([1]) and call != charge.s([2])


def test_it_does_not_show_its_arguments(charge):
    assert repr(charge.s("secret")) == "<call of tests.charge>"


@pytest.mark.django_db
def test_enqueue(charge):
    row = charge.s(5).using(priority=9).enqueue()
    assert (row.handler_type, row.priority, row.handler_configuration) == (
        "tests.charge",
        9,
        {"args": [5], "kwargs": {}},
    )
    assert Job.objects.get() == row


@pytest.mark.django_db
def test_options_made_from_the_arguments(handle, settings):
    settings.JOBEXEC = {"RESOURCES": {"customer:*": {"limit": 1}}}

    def bill(customer):
        pass

    job = handle(bill, resource=lambda customer: f"customer:{customer}", unique=True)
    call = job.s("anna")
    assert call.own and call.own.resource == "customer:anna" and call.key
    row = call.enqueue()
    assert isinstance(row, BlockedJob) and row.resource == "customer:anna"
    assert job.s("anna").enqueue().is_duplicate
    assert call.using(priority=2).own == call.own


class TestStored:
    def test_every_option(self, charge, settings):
        settings.JOBEXEC = {"DEPLOYMENT": "shop:1"}
        call = charge.using(delay=60, expires=120, timeout=30, retries="R5/PT1M", headers={"a": 1}).s(5)
        stored = json.loads(json.dumps(call.stored("on_success", "default")))
        assert stored["handler"] == "tests.charge" and stored["configuration"] == {"args": [5], "kwargs": {}}
        assert (stored["due"], stored["expires"]) == (60.0, 120.0)
        assert stored["columns"]["deployment_id"] == "shop:1"

    @pytest.mark.django_db
    def test_it_is_inserted_where_the_handler_is_not_known(self, charge, settings):
        from jobexec.clock import FrozenClock
        from jobexec.handlers import registry

        stored = charge.using(delay=60, expires=120, timeout=30, retries="R5/PT1M").s(5).stored("on_success", "default")
        with registry.isolated(empty=True), FrozenClock(NOW):
            row = create_stored("default", json.loads(json.dumps(stored)), process_instance_id="batch:1", priority=1)
        assert isinstance(row, TimerJob)
        row.refresh_from_db()
        assert (row.due_date, row.expires_at) == (NOW + timedelta(seconds=60), NOW + timedelta(seconds=120))
        assert (row.timeout, row.retries, row.priority) == (timedelta(seconds=30), 5, 3)
        assert row.process_instance_id == "batch:1"

    @pytest.mark.django_db
    @pytest.mark.parametrize("wait", [("approved", 5), lambda order: ("approved", order)])
    def test_what_it_waits_for(self, charge, wait):
        from jobexec.clock import FrozenClock

        call = charge.using(wait_for=wait, wait_timeout="PT1H").s(5)
        stored = json.loads(json.dumps(call.stored("on_success", "default")))
        with FrozenClock(NOW):
            inserted, enqueued = create_stored("default", stored), call.enqueue()
        for row in (inserted, enqueued):
            assert isinstance(row, BlockedJob)
            row.refresh_from_db()
            assert (row.waits_for, row.waits_for_key) == ("approved", "5")
            assert (row.waits_until, row.next_look) == (NOW + timedelta(hours=1), NOW)

    def test_no_error_quotes_the_arguments_of_an_encrypted_job(self, charge):
        with pytest.raises(InvalidJob, match=r"wait_for: .* returned no name and key; it is not shown") as caught:
            charge.using(wait_for=lambda order: order, encrypted=True).s("a secret")
        assert "a secret" not in str(caught.value)

    @pytest.mark.django_db
    def test_a_call_that_does_not_wait(self, charge):
        call = charge.using(wait_for=lambda order: None, wait_timeout=60).s(5)
        assert isinstance(call.enqueue(), Job)
        assert isinstance(create_stored("default", call.stored("on_success", "default")), Job)

    @pytest.mark.django_db
    def test_a_fixed_date(self, charge):
        stored = charge.using(run_after=NOW).s(5).stored("on_success", "default")
        assert create_stored("default", stored).due_date == NOW

    def test_what_cannot_wait(self, charge):
        with pytest.raises(InvalidJob, match="on_success: expected a call without the option unique"):
            charge.using(unique=True).s(5).stored("on_success", "default")
        with pytest.raises(InvalidJob, match="on_success: expected a job of the database 'other'"):
            charge.s(5).stored("on_success", "other")
        for option in ("delay", "run_after", "expires"):
            with pytest.raises(InvalidJob, match=f"{option}: expected .* at most 36,525 days"):
                charge.using(**{option: timedelta(days=40_000)}).s(5).stored("on_success", "default")


class TestBatchArguments:
    @pytest.mark.django_db
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"on_success": 5}, r"on_success: expected a call such as charge.s\(5\), got 5"),
            ({"when": [1]}, "when: expected a mapping"),
            ({"when": {"failed > 1": print}}, "when: 'failed > 1': expected a call"),
            ({"deadline": "soon"}, "deadline: expected a timedelta, a number of seconds"),
            ({"deadline": datetime(2026, 1, 1)}, "deadline: expected a datetime with a time zone"),
            ({"deadline": timedelta.max}, "deadline: expected .* at most 36,525 days"),
            (
                {"deadline": datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))},
                "deadline: expected a moment from the year 1 to 9999 in UTC",
            ),
            ({"name": "x" * 256}, "name: expected a string of at most 255 characters"),
            ({"grows": 1}, "grows: expected True or False"),
            ({"tenant_id": "x" * 65}, "tenant_id: expected a string of at most 64 characters"),
        ],
    )
    def test_wrong_ones(self, options, said):
        import jobexec
        from jobexec.models import Batch

        with pytest.raises(InvalidJob, match=said):
            jobexec.batch(**options)
        assert not Batch.objects.exists()
