"""What a monitor is told that asks the web site whether jobs are being worked on."""

import json
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser, Permission
from django.core.handlers.base import BaseHandler
from django.db import OperationalError, ProgrammingError, connections
from django.db.migrations.recorder import MigrationRecorder
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobexec import clock, health, metrics
from jobexec.gateways.actuator import views as actuator
from jobexec.gateways.auth.token_endpoint import token
from jobexec.models import ExecutorNode, Job, NodeState, TimerJob
from jobexec.operations import acquire_jobs
from jobexec.operations.values.acquired_job import ServedJobs
from tests.support.factories import LOCK_TIME, make_job, make_node, make_row


class Seer:
    is_active = is_staff = True

    def has_perm(self, name):
        return name == "jobexec.view_executornode"


@pytest.fixture(autouse=True)
def engine(request, settings):
    if "alias" in request.fixturenames:
        settings.JOBEXEC = {"ENGINES": {request.getfixturevalue("alias"): {}}}


@pytest.fixture
def ask(rf):
    """Status and answer, for somebody who may see all unless said otherwise."""

    def get(user=None, **kwargs):
        request = rf.get("/jobexec/health/")
        request.user = user or Seer()
        response = health.view(request, **kwargs)
        assert response["Cache-Control"] == "no-store"
        return response.status_code, json.loads(response.content)

    return get


def waiting(alias, age, **columns):
    return make_job(alias, due_date=clock.now(alias) - timedelta(seconds=age), **columns)


def test_all_is_well(alias, ask):
    make_node(alias)
    status, answer = ask()
    assert (status, answer["ok"]) == (200, True)
    assert answer["engines"] == {
        alias: {
            "ok": True,
            "reachable": True,
            "living_nodes": 1,
            "oldest_due_age": None,
            "unapplied_migrations": [],
            "types_without_worker": [],
            "problems": [],
        }
    }


@pytest.mark.parametrize("well", [True, False])
def test_strangers_are_told_yes_or_no(alias, ask, well):
    if well:
        make_node(alias)
    assert ask(AnonymousUser()) == (200 if well else 503, {"ok": well})


def test_without_a_living_node_it_is_not_well(alias, ask):
    assert problems(ask, alias) == ["no executor holds a valid lease"]
    make_node(alias, lease_time=timedelta(seconds=-1))
    dead = make_node(alias, "dead")
    ExecutorNode.objects.using(alias).filter(pk=dead.pk).update(state=NodeState.DEAD)
    assert problems(ask, alias) == ["no executor holds a valid lease"]


def problems(ask, alias, **kwargs):
    status, answer = ask(**kwargs)
    assert (status == 200) == answer["ok"] == (not answer["engines"][alias]["problems"])
    return answer["engines"][alias]["problems"]


def test_a_job_that_waits_too_long(alias, ask, settings):
    make_node(alias)
    waiting(alias, 100)
    waiting(alias, 10)
    assert problems(ask, alias) == [], "there is no limit"
    assert 100 <= ask()[1]["engines"][alias]["oldest_due_age"] < 130
    settings.JOBEXEC |= {"HEALTH_MAX_DUE_AGE": "PT1M"}
    (problem,) = problems(ask, alias)
    assert problem.startswith("a job has been due for 1")
    assert problem.endswith(" s, more than 60 s")
    settings.JOBEXEC |= {"HEALTH_MAX_DUE_AGE": 600}
    assert problems(ask, alias) == []
    assert len(problems(ask, alias, max_due_age=50)) == 1, "a path of its own goes before the setting"
    assert problems(ask, alias, max_due_age=timedelta(hours=1)) == []


def test_who_runs_does_not_wait(alias, ask):
    make_node(alias)
    waiting(alias, 100)
    acquire_jobs(alias, "one", 9, ServedJobs(), lock_time=LOCK_TIME)
    assert ask()[1]["engines"][alias]["oldest_due_age"] is None


def test_a_priority_does_not_make_it_younger(alias, ask):
    make_node(alias)
    waiting(alias, 100, priority=-7)
    waiting(alias, 10, priority=7)
    assert 100 <= ask()[1]["engines"][alias]["oldest_due_age"] < 130


def test_a_timer_that_nobody_moves_is_due(alias, ask):
    make_node(alias)
    now = clock.now(alias)
    make_row(TimerJob, alias, due_date=now + timedelta(hours=1))
    assert ask()[1]["engines"][alias]["oldest_due_age"] is None
    make_row(TimerJob, alias, due_date=now - timedelta(seconds=70))
    assert 70 <= ask()[1]["engines"][alias]["oldest_due_age"] < 100


def test_a_migration_that_is_not_applied(alias, ask):
    make_node(alias)
    MigrationRecorder(connections[alias]).record_unapplied("jobexec", "0003_cluster")
    assert problems(ask, alias) == ["migrations are not applied: 0003_cluster"]


def test_a_database_that_is_away(alias, ask, monkeypatch):
    def away():
        raise OperationalError("password=hunter2 is not enough")

    monkeypatch.setattr(connections[alias], "ensure_connection", away)
    status, answer = ask()
    assert (status, answer["engines"][alias]["reachable"]) == (503, False)
    assert answer["engines"][alias]["problems"] == ["its database does not answer (OperationalError)"]
    assert "hunter2" not in str(answer)


def test_tables_that_are_not_there(alias, ask, monkeypatch):
    def missing(using, now):
        raise ProgrammingError("no such table")

    make_node(alias)
    monkeypatch.setattr(health, "oldest_due", missing)
    assert problems(ask, alias) == ["its tables cannot be read (ProgrammingError)"]


def test_users_that_cannot_be_read_are_strangers(alias, ask):
    class Away(Seer):
        def has_perm(self, name):
            raise OperationalError("away")

    assert ask(Away()) == (503, {"ok": False})


def test_it_costs_few_statements(alias, ask):
    make_node(alias)
    for _ in range(30):
        waiting(alias, 10)
    health._migrations()
    with CaptureQueriesContext(connections[alias]) as queries:
        ask()
    assert len(queries) <= 5


def test_head_and_nothing_else(alias, rf):
    make_node(alias)
    assert health.view(rf.head("/")).status_code == 200, "also where a project has no users"
    response = health.view(rf.post("/"))
    assert (response.status_code, response["Allow"]) == (405, "GET, HEAD")


@pytest.mark.django_db
@pytest.mark.parametrize("permitted", [True, False])
def test_over_http_only_who_may_view_nodes_sees_the_details(client, settings, permitted):
    settings.JOBEXEC = {"ENGINES": {"default": {}}}
    user = get_user_model().objects.create_user("ada", is_staff=True)
    if permitted:
        user.user_permissions.add(Permission.objects.get(codename="view_executornode"))
    client.force_login(user)
    response = client.get(reverse("jobexec:health"))
    assert response.status_code == 503
    assert ("engines" in response.json()) is permitted
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    "view",
    [health.view, metrics.view, actuator.health, actuator.index, actuator.jobstreams, actuator.prometheus, token],
)
def test_a_transaction_for_each_request_is_not_begun(monkeypatch, view):
    """Of none of the databases: one that is away would be a server error before the view is called."""
    for alias in connections:
        monkeypatch.setitem(connections.settings[alias], "ATOMIC_REQUESTS", True)
    assert BaseHandler().make_view_atomic(view) is view
