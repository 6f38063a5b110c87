"""Unique keys: who holds them, and letting them go."""

from datetime import timedelta

import pytest

from jobexec import clock
from jobexec.models import DeadLetterJob, Job, JobDefinition, JobKey
from tests.support.audit import audit_log

from .. import data
from ..conftest import list_url, page_url


def test_a_list_says_who_holds_a_key(admin):
    job, dead = data.make(Job), data.dead_letter()
    data.job_key(key="waits", job_id=job.pk)
    data.job_key(key="dead", job_id=dead.pk)
    data.job_key(key="over")
    data.job_key(key="until", expiration_time=clock.now() + timedelta(hours=1))
    data.job_key(key="passed", expiration_time=clock.now() - timedelta(hours=1))
    response = admin.get(list_url(JobKey))
    page = response.context["cl"].model_admin
    rows = {row.key: row for row in response.context["cl"].result_list}
    states = {key: str(page.state(row)).split(">")[1].split("<")[0] for key, row in rows.items()}
    assert states == {"waits": "taken", "dead": "dead letter", "over": "free", "until": "taken", "passed": "free"}
    assert "executable" in str(page.job(rows["waits"])) and "over" in str(page.job(rows["over"]))


def test_the_page_of_a_job_names_its_key(admin):
    job = data.make(Job)
    key = data.job_key(key="order <1>", job_id=job.pk)
    content = admin.get(page_url(job)).content.decode()
    assert f'<a href="{page_url(key)}">The unique key order &lt;1&gt;</a>' in content
    assert admin.get(page_url(key)).status_code == 200


@pytest.mark.parametrize("query", [{"q": "order-4"}, {"handler": "shop.jobs.charge_card"}])
def test_search_by_how_the_key_begins_and_by_handler(admin, query):
    JobDefinition.objects.create(id="shop.jobs.charge_card", handler_type="shop.jobs.charge_card")
    wanted = data.job_key(key="order-4711")
    data.job_key(key="an-order-4711", handler_type="shop.other")
    assert [row.pk for row in admin.get(list_url(JobKey), query).context["cl"].result_list] == [wanted.pk]


def test_search_by_job_and_by_a_key_that_looks_like_one(admin):
    held, named = data.job_key(), data.job_key(key="01a2016e-3a4d-77d8-91de-70fe94a87585")
    for term, expected in ((str(held.job_id), held), (named.key, named)):
        found = admin.get(list_url(JobKey), {"q": term}).context["cl"].result_list
        assert [row.pk for row in found] == [expected.pk]


def test_releasing_is_remembered_and_leaves_the_job(admin):
    dead = data.dead_letter()
    keys = [data.job_key(job_id=dead.pk), data.job_key(key="other")]
    asked = admin.act(JobKey, "delete_selected", keys, answered=False)
    assert b"becomes available to the next job" in asked.content
    response = admin.act(JobKey, "delete_selected", keys)
    assert admin.told(response) == [("success", "2 keys released.")]
    assert not JobKey.objects.exists() and DeadLetterJob.objects.filter(pk=dead.pk).exists()
    (entry,) = audit_log()
    assert (entry.verb, entry.count) == ("release_keys", 2)
    assert {name.split(" ")[1] for name in entry.scope["names"]} == {"order-4711", "other"}
