"""Jobs in another database than users and sessions: the admin follows the routers."""

import pytest
from django.contrib.auth import get_user_model
from django.db import connections

from jobexec.models import DeadLetterJob, Job
from tests.support.audit import audit_log
from tests.support.suite import databases

from . import data
from .conftest import TABLES, Staff, list_url, page_url

OTHERS = [database.alias for database in databases.covered.values() if database.alias != "default"]
pytestmark = [
    pytest.mark.django_db(databases=["default", *OTHERS]),
    pytest.mark.skipif(not OTHERS, reason="needs a second database"),
]


class JobsElsewhere:
    """Jobs live in one database, everything else in the default one."""

    alias = "default"

    def db_for_read(self, model, **hints):
        return self.alias if model._meta.app_label == "jobexec" else None

    db_for_write = db_for_read


@pytest.fixture(params=OTHERS)
def elsewhere(request, settings, monkeypatch):
    monkeypatch.setattr(JobsElsewhere, "alias", request.param)
    settings.JOBEXEC = {"ENGINES": {request.param: {}}, "GATEWAY_DATABASE": request.param}
    settings.DATABASE_ROUTERS = [f"{__name__}.JobsElsewhere"]
    return request.param


@pytest.fixture
def admin():
    client = Staff()
    client.force_login(get_user_model().objects.create_superuser("admin"))
    return client


@pytest.mark.slow
def test_everything_renders_and_searches(elsewhere, admin):
    rows = data.some_of_everything(elsewhere)
    for table in TABLES:
        assert admin.get(list_url(table)).status_code == 200
        assert admin.get(list_url(table), {"q": "order-4711"}).status_code == 200
        assert admin.get(page_url(rows[table])).status_code == 200


#: What PostgreSQL stores and Python cannot read.
ODD = """UPDATE jobexec_deadletterjob SET create_time = 'infinity', due_date = '20000-01-01', timeout = '9000000 years',
handler_configuration = %s"""


@pytest.mark.gate
def test_rows_that_python_cannot_read(elsewhere, admin):
    if connections[elsewhere].vendor != "postgresql":
        pytest.skip("other databases store no such values")
    job = data.dead_letter(elsewhere)
    with connections[elsewhere].cursor() as cursor:
        cursor.execute(ODD, ['{"kwargs": {"password": "hush"}, "args": ' + "[" * 3_000 + "]" * 3_000 + "}"])
    for url in (list_url(DeadLetterJob), page_url(job)):
        response = admin.get(url)
        assert response.status_code == 200
        assert "create_time" in " ".join(text for _level, text in admin.told(response))
        assert "hush" not in response.content.decode()


def test_actions_change_the_other_database(elsewhere, admin):
    job = data.dead_letter(elsewhere)
    response = admin.act(DeadLetterJob, "requeue", [job], retries="4")
    assert admin.told(response) == [("success", "1 job requeued with 4 retries.")]
    assert Job.objects.using(elsewhere).get().retries == 4
    assert not Job.objects.using("default").exists()
    assert [entry.object_id for entry in audit_log(elsewhere)] == [str(job.pk)], "where the job is"
    assert not audit_log("default")


def test_reads_from_a_replica_do_not_lead_writes_there(elsewhere, admin, monkeypatch):
    monkeypatch.setattr(JobsElsewhere, "db_for_write", lambda self, model, **hints: "default")
    job = data.dead_letter("default")
    DeadLetterJob.objects.using(elsewhere).create(id=job.id, handler_type=job.handler_type)
    admin.act(DeadLetterJob, "delete_selected", [job])
    assert DeadLetterJob.objects.using(elsewhere).count() == 1
    assert DeadLetterJob.objects.using("default").count() == 0
