"""Operators enqueue jobs, and jobs again with other arguments."""

import pytest
from django.contrib.auth import get_user_model

from jobexec.encryption import unseal
from jobexec.handlers.registry import get_handler
from jobexec.models import DeadLetterJob, ExternalWorkerJob, Job, SuspendedJob, TimerJob
from jobexec.operations import suspend
from jobexec.operations.external import fail_external_job
from jobexec.sensitive import HIDDEN
from tests.support.audit import audit_log
from tests.support.factories import in_hands
from tests.support.jobs_command import jobs, objects

from .. import data
from ..conftest import list_url, page_url

ADD = "/admin/jobexec/job/add/"
KEYS = {"ENCRYPTION_KEYS": {"k1": lambda: b"k" * 32}, "CATEGORIES": ["default", "mail"]}


def pay(order: int, currency: str = "EUR", *, note: "str | None" = None, password: str = "hush") -> None: ...


def spread(first, /, second=2, *others: int, **more) -> None: ...


@pytest.fixture(autouse=True)
def handlers(handle, settings):
    settings.JOBEXEC = KEYS
    handle(pay, name="shop.pay", retries="R5/PT5M")
    handle(spread, name="shop.spread")
    handle(pay, name="shop.secret", encrypted=True)


def dead(handler="shop.pay", **more):
    given = {"args": [4711], "kwargs": {"currency": "USD", "password": "s3cr3t"}}
    return data.dead_letter(handler_type=handler, handler_configuration=given, **more)


class TestEnqueue:
    def test_the_form_knows_the_signature(self, staff):
        client = staff("enqueue_job")
        assert "shop.pay" in client.get(ADD).content.decode()
        page = client.get(f"{ADD}?handler=shop.pay").content.decode()
        assert "{}</textarea>" in page and "null</textarea>" not in page  # the other options
        assert "order: int" in page and "If empty: &#x27;EUR&#x27;" in page and "hush" not in page
        assert "Did you mean" not in page and client.get(f"{ADD}?handler=shop.pya").context["form"].errors

    def test_a_job_is_enqueued_and_recorded(self, staff):
        fields = {"argument_order": "17", "argument_note": "null", "priority": "7", "category": "mail"}
        fields |= {"argument_password": "t0p", "delay": "PT5M", "options": '{"process_instance_id": "order-17"}'}
        response = staff("enqueue_job").post(f"{ADD}?handler=shop.pay", fields)
        assert response.status_code == 302
        job = TimerJob.objects.get()
        assert job.handler_configuration == {"args": [], "kwargs": {"order": 17, "note": None, "password": "t0p"}}
        assert (job.priority, job.category, job.process_instance_id, job.retries) == (7, "mail", "order-17", 5)
        (entry,) = audit_log()
        assert (entry.verb, entry.object_type, entry.object_id) == ("enqueue", "timerjob", str(job.pk))
        assert entry.new_value["arguments"]["kwargs"] == {"order": 17, "note": None, "password": HIDDEN}

    def test_each_argument_has_its_own_error(self, staff):
        client = staff("enqueue_job")
        response = client.post(f"{ADD}?handler=shop.pay", {"argument_note": "7", "argument_currency": '["EUR"]'})
        assert {name: list(texts) for name, texts in response.context["form"].errors.items()} == {
            "argument_order": ["This argument is required."],
        }  # 7 and the list are texts
        response = client.post(
            f"{ADD}?handler=shop.pay", {"argument_order": "x", "delay": "soon", "options": '{"database": 1}'}
        )
        assert set(response.context["form"].errors) == {"argument_order", "options"}
        response = client.post(f"{ADD}?handler=shop.pay", {"argument_order": "true"})
        assert response.context["form"].errors["argument_order"] == ["Expected a whole number."]
        assert not Job.objects.exists()

    @pytest.mark.parametrize("permission", ["execute_job", "add_schedule"])
    def test_another_permission_is_not_enough(self, staff, permission):
        assert staff(permission).post(f"{ADD}?handler=shop.pay", {"argument_order": "1"}).status_code == 403
        assert not Job.objects.exists()

    def test_internal_jobs_are_refused(self, admin):
        assert "internal job" in str(admin.get(f"{ADD}?handler=jobexec.batch_seed").context["form"].errors)

    def test_for_external_workers(self, staff):
        fields = {"variables": '{"amount": 12}', "tenant_id": "acme"}
        assert staff("enqueue_job").post(f"{ADD}?handler=payment&external=on", fields).status_code == 302
        job = ExternalWorkerJob.objects.get()
        assert (job.handler_type, job.tenant_id, job.handler_configuration) == (
            "payment",
            "acme",
            {"variables": {"amount": 12}},
        )

    def test_only_for_the_tenants_of_the_user(self, staff, settings):
        settings.JOBEXEC = KEYS | {"ADMIN_TENANTS": "tests.admin.tenants.of_user"}
        client = staff("enqueue_job")
        get_user_model().objects.update(last_name="acme")
        for tenant, options, fails in (
            ("other", "{}", "tenant_id"),
            ("acme", '{"process_instance_id": "batch:1"}', "options"),
        ):
            fields = {"argument_order": "1", "tenant_id": tenant, "options": options}
            assert fails in client.post(f"{ADD}?handler=shop.pay", fields).context["form"].errors
        assert client.post(f"{ADD}?handler=shop.pay", {"argument_order": "1", "tenant_id": "acme"}).status_code == 302
        assert Job.objects.get().tenant_id == "acme"


class TestRerun:
    @pytest.mark.gate
    def test_with_other_arguments_and_what_is_hidden(self, staff):
        row, client = dead(tenant_id="acme", priority=3), staff("enqueue_job")
        page = client.act(DeadLetterJob, "rerun", [row]).content.decode()
        page = client.post(
            list_url(DeadLetterJob), {"action": "rerun", "_selected_action": [str(row.pk)]}
        ).content.decode()
        assert "4711" in page and "USD" in page and "s3cr3t" not in page
        response = client.act(DeadLetterJob, "rerun", [row], argument_order="5", argument_currency="CHF")
        assert [level for level, _text in client.told(response)] == ["success"]
        job = Job.objects.get()
        assert job.handler_configuration["kwargs"] == {"order": 5, "currency": "CHF", "password": "s3cr3t"}
        assert (job.tenant_id, job.priority, job.retries, job.process_instance_id) == ("acme", 3, 5, "order-4711")
        assert DeadLetterJob.objects.filter(pk=row.pk).exists()
        (entry,) = audit_log()
        assert (entry.verb, entry.new_value["rerun_of"]) == ("rerun", str(row.pk))
        assert "s3cr3t" not in str(entry.new_value)

    def test_what_does_not_fit_is_shown_at_its_field(self, staff):
        row, client = dead(), staff("enqueue_job")
        response = client.act(DeadLetterJob, "rerun", [row], argument_order="five")
        assert "argument_order" in response.context["form"].errors and not Job.objects.exists()

    def test_one_job_at_a_time_whose_function_is_known(self, staff):
        for rows in ([dead(), dead()], [dead("shop.gone")]):
            client = staff("enqueue_job")
            assert [level for level, _ in client.told(client.act(DeadLetterJob, "rerun", rows))] == ["error"]
        assert not Job.objects.exists()

    def test_an_encrypted_job_shows_nothing_and_keeps_all(self, staff, handle):
        source = get_handler("shop.secret").enqueue(4711, password="s3cr3t")
        client = staff("enqueue_job")
        page = client.post(list_url(Job), {"action": "rerun", "_selected_action": [str(source.pk)]}).content.decode()
        assert "4711" not in page and "s3cr3t" not in page
        client.act(Job, "rerun", [source], argument_currency="CHF")
        made = Job.objects.exclude(pk=source.pk).get()
        found = unseal(made.handler_configuration, made.handler_type, made.pk)
        assert found["kwargs"] == {"order": 4711, "currency": "CHF", "password": "s3cr3t"}
        assert "s3cr3t" not in str(made.handler_configuration)

    def test_an_external_job(self, staff):
        row = data.external()
        client = staff("enqueue_job")
        client.act(ExternalWorkerJob, "rerun", [row], variables='{"amount": 13, "card_password": "●●●"}')
        made = ExternalWorkerJob.objects.exclude(pk=row.pk).get()
        assert made.handler_configuration["variables"] == {"amount": 13, "card_password": "hush"}
        assert made.handler_configuration["on_complete"] == row.handler_configuration["on_complete"]
        assert made.lock_owner is None and made.job_key != row.job_key

    def test_an_external_job_anew_with_its_plan(self, staff):
        job = in_hands("default", retries="R5/PT1M", variables={"amount": 5}, lease=True)
        suspend(job.id)
        fail_external_job("default", job.key, retries=1, local_variables={"hint": 7}, lease=job.lease_token)
        staff("enqueue_job").act(SuspendedJob, "rerun", [SuspendedJob.objects.get()], variables='{"amount": 5}')
        made = ExternalWorkerJob.objects.get()
        assert (made.retries, made.retry_plan, made.available_at) == (5, "R5/PT1M", None)
        assert made.handler_configuration == {"variables": {"amount": 5}}


class TestCommand:
    @pytest.fixture(autouse=True)
    def using(self, db):
        return "default"

    def test_enqueue(self):
        code, (told,) = objects("enqueue", "shop.pay", "--arguments", "[17]", "--delay", "PT5M", alias="default")
        assert code == 0 and str(TimerJob.objects.get().pk) == told["changed"][0]
        (entry,) = audit_log()
        assert (entry.verb, entry.via, entry.operator_type) == ("enqueue", "jobs enqueue", "command")

    def test_every_kind_of_argument(self):
        given = '{"first": 1, "others": [3, 4], "more": {"x": 5}}'
        assert jobs("enqueue", "shop.spread", "--arguments", given, alias="default")[0] == 0
        assert Job.objects.get().handler_configuration == {"args": [1, 2, 3, 4], "kwargs": {"x": 5}}

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (["shop.pya"], "Did you mean 'shop.pay'"),
            (["shop.pay", "--arguments", '{"order": "x", "odrer": 1}'], "order: Expected a whole number."),
            (["shop.pay", "--arguments", "[1, 2, 3, 4, 5]"], "too many positional arguments"),
            (
                ["shop.pay", "--arguments", "[1]", "--options", '{"priority": 1}', "--priority", "2"],
                "priority has an option",
            ),
            (["shop.pay", "--arguments", "[1]", "--category", "nothing"], "category: expected one of default, mail"),
        ],
    )
    def test_bad_input_is_usage(self, arguments, text):
        code, told = jobs("enqueue", *arguments, alias="default")
        assert code == 2 and text in told and not Job.objects.exists()

    def test_rerun_keeps_what_is_not_named(self):
        row = dead()
        code, told = jobs("rerun", row.pk.hex[:20], "--arguments", '{"currency": "CHF"}', alias="default")
        assert code == 0 and "s3cr3t" not in told
        assert Job.objects.get().handler_configuration["kwargs"] == {
            "order": 4711,
            "currency": "CHF",
            "password": "s3cr3t",
        }
        assert page_url(row)
