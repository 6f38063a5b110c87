"""Rows are told apart by their calls: masked, cut, and never loaded if they are long."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobexec import job
from jobexec.admin.common.display import LONGEST_EXCEPTION
from jobexec.handlers.registry import isolated
from jobexec.models import (
    JOB_TABLES,
    DeadLetterJob,
    ExternalWorkerJob,
    Incident,
    Job,
    JobDefinition,
    JobLog,
    TaskResult,
)
from jobexec.redaction import LONGEST_CALL, load_calls

from .. import data
from ..conftest import called, list_url, page_url, statements_of


def calls_in(client, table):
    return called(client.get(list_url(table)).content.decode())


@pytest.mark.parametrize("table", [table for table in (*JOB_TABLES, TaskResult) if table is not ExternalWorkerJob])
def test_each_list_shows_the_calls_of_handlers_that_only_have_a_definition(admin, table):
    data.some_of_everything()
    JobDefinition.objects.update_or_create(
        pk="shop.jobs.charge_card", defaults={"handler_type": "shop.jobs.charge_card", "category": "default"}
    )
    table.objects.update(handler_type="shop.jobs.charge_card", handler_configuration={"kwargs": {"order_id": 17}})
    assert set(calls_in(admin, table)) == {"charge_card(order_id=17)"}


def test_arguments_have_the_names_of_the_parameters(admin):
    with isolated():

        @job(name="shop.jobs.pack", sensitive=["card"])
        def pack(order, card, *more):
            pass

        given = {"args": [17, "4111", 1, 2], "kwargs": {"gift": True, "password": "hush"}}
        data.make(Job, handler_type="shop.jobs.pack", handler_configuration=given, tenant_id="acme")
        content = admin.get(list_url(Job)).content.decode()
        assert calls_in(admin, Job) == ["pack(order=17, card=●●●, more[2]=1, more[3]=2, gift=True, password=●●●)"]
        assert "tenant acme" in content and "4111" not in content and "hush" not in content


def test_nothing_is_shown_by_position_without_a_definition(admin):
    data.make(Job, handler_type="shop.gone", handler_configuration={"args": ["4111"], "kwargs": {"token": "x", "n": 1}})
    assert calls_in(admin, Job) == ["gone(●●●, token=●●●, n=1)"]


def test_the_variables_of_an_external_job_without_what_its_callbacks_hide(admin):
    JobDefinition.objects.create(
        pk="shop.jobs.charge_card", handler_type="shop.jobs.charge_card", category="default", sensitive=["amount"]
    )
    data.external()
    assert calls_in(admin, ExternalWorkerJob) == ["payment(amount=●●●, card_password=●●●)"]


def test_encrypted_arguments(admin):
    envelope = {"encrypted": {"version": 1, "key": "k1", "text": "abcdef"}}
    data.make(Job, handler_configuration=envelope)
    assert calls_in(admin, Job) == ["charge_card(encrypted)"]


def test_long_arguments_are_not_loaded(admin):
    data.dead_letter(handler_configuration={"kwargs": {"text": "x" * LONGEST_CALL}})
    data.dead_letter(handler_configuration={"kwargs": {"text": "y" * (LONGEST_CALL - 100)}})
    with CaptureQueriesContext(connection):
        response = admin.get(list_url(DeadLetterJob))
    shown = {row.call[:20]: len(row.call) for row in response.context["cl"].result_list}
    assert shown == {"charge_card(…)": 14, "charge_card(text='yy": LONGEST_CALL - 100 + 20}
    assert f"charge_card(text='{'y' * 61}…</span>" in response.content.decode().replace("&#x27;", "'")


@pytest.mark.parametrize("table", [*JOB_TABLES, Incident, JobLog])
def test_the_last_exception_is_below_the_call_and_cut(admin, table):
    text = f"{'x' * LONGEST_EXCEPTION}y\nwith more lines"
    failed = data.dead_letter(exception_message=text)
    if table is Incident:
        data.incident(failed, message=text)
    elif table is JobLog:
        data.log(failed, exception_message=text)
    elif table is not DeadLetterJob:
        data.make(table, exception_message=text)
    content = admin.get(list_url(table)).content.decode()
    (below,) = re.findall(r'<span class="jobexec-call".*?</span>(.*?)</t[hd]>', content, re.DOTALL)
    assert re.findall(r'jobexec-error"><span title="x+y\nwith more lines">(x+)…</span></span>', below) == [
        "x" * (LONGEST_EXCEPTION - 1)
    ]
    assert content.count("jobexec-error") == 1, "it has no column"
    if table in JOB_TABLES:
        table.objects.update(exception_message="")
        assert "jobexec-error" not in admin.get(list_url(table)).content.decode(), "nor a healthy job one"


def test_the_log_shows_the_calls_of_jobs_that_are_still_there(admin, staff):
    given = {"kwargs": {"order_id": 17, "card_password": "hush"}}
    data.log(data.dead_letter(handler_configuration=given))
    gone = data.dead_letter(handler_type="shop.jobs.pack")
    data.log(gone, minutes_ago=1)
    gone.delete()
    assert calls_in(admin, JobLog) == ["charge_card(order_id=17, card_password=●●●)", "pack"]
    seen = staff("view_joblog", view=False)
    assert calls_in(seen, JobLog) == ["charge_card", "pack"], "who may not view the job does not see its arguments"
    assert admin.get(page_url(JobLog.objects.first())).status_code == 200


def test_many_unknown_handlers_cost_as_many_statements_as_one(admin):
    data.make(Job, handler_type="shop.first")
    statements_of(admin, list_url(Job))
    few = statements_of(admin, list_url(Job))
    for number in range(10):
        data.make(Job, handler_type=f"shop.other_{number}")
    assert statements_of(admin, list_url(Job)) == few


def test_the_calls_of_many_loaded_jobs_cost_as_many_statements_as_of_one(db, django_assert_num_queries):
    jobs = [data.dead_letter(handler_configuration={"kwargs": {"order_id": number}}) for number in range(5)]
    with CaptureQueriesContext(connection) as of_one:
        load_calls(jobs[:1], "default")
    with django_assert_num_queries(len(of_one)):
        assert sorted(load_calls(jobs, "default").values()) == [f"charge_card(order_id={each})" for each in range(5)]
