"""Staff users with exactly the permissions that a test names, and how to run an action as one."""

from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobexec import models
from jobexec.testing import controlled_clock
from tests.support.web.browser import chromium, open_page, page, policy  # noqa: F401 (fixtures)

TABLES = (
    models.AuditLog,
    models.Job,
    models.TimerJob,
    models.BlockedJob,
    models.SuspendedJob,
    models.DeadLetterJob,
    models.ExternalWorkerJob,
    models.JobDefinition,
    models.Deployment,
    models.ExclusiveLock,
    models.Suspension,
    models.ExecutorNode,
    models.ExternalWorker,
    models.GatewayClient,
    models.JobLog,
    models.Incident,
    models.FailureGroup,
    models.Batch,
    models.HistoryJob,
    models.Schedule,
    models.JobKey,
    models.TaskResult,
    models.Resource,
    models.Message,
)


def list_url(table: type[Any]) -> str:
    return reverse(f"admin:jobexec_{table._meta.model_name}_changelist")


def page_url(row: Any) -> str:
    return reverse(f"admin:jobexec_{row._meta.model_name}_change", args=[row.pk])


def called(text: str) -> list[str]:
    """The calls of the rows of a page."""
    return [unescape(cell.split('"', 1)[0]) for cell in text.split('<span class="jobexec-call" title="')[1:]]


def statements_of(client: Client, url: str) -> int:
    """How many statements a page costs."""
    with CaptureQueriesContext(connection) as captured:
        client.get(url)
    return len(captured)


class Staff(Client):
    """A browser without scripts in which somebody is logged in."""

    def act(self, table: type[Any], action: str, rows: list[Any], **data: Any) -> Any:
        """Run an action of the table's list on these rows; with ``data``, as if asked and answered."""
        query = data.pop("query", "")
        fields = {"action": action, "_selected_action": [str(row.pk) for row in rows], "select_across": "0", "index": 0}
        answered = {"_apply": "1"} if data.pop("answered", True) else {}
        return self.post(list_url(table) + query, {**fields, **answered, **data})

    def told(self, response: Any) -> list[tuple[str, str]]:
        """The messages of a response, as (level, text)."""
        return [(message.level_tag, str(message)) for message in get_messages(response.wsgi_request)]


@pytest.fixture
def staff(db: None) -> Callable[..., Staff]:
    """Log in a staff user who may view all tables and has the permissions named besides."""

    def log_in(*permissions: str, view: bool = True) -> Staff:
        user = get_user_model().objects.create_user(f"user{get_user_model().objects.count()}", is_staff=True)
        names = set(permissions) | ({f"view_{table._meta.model_name}" for table in TABLES} if view else set())
        found = Permission.objects.filter(content_type__app_label="jobexec", codename__in=names)
        assert {permission.codename for permission in found} == names
        user.user_permissions.set(found)
        client = Staff()
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def admin(db: None) -> Staff:
    """Log in a user who may do everything."""
    client = Staff()
    client.force_login(get_user_model().objects.create_superuser("admin"))
    return client


@pytest.fixture
def stopped_time() -> Iterator[None]:
    """The time stands still, for tests of pages that show how long ago something was."""
    with controlled_clock():
        yield
