"""The policy in AUTHORIZATION is asked in the name of the admin's user."""

import pytest

from jobexec.exceptions import NotAuthorized
from jobexec.models import AuditLog, Job, OperatorType

from .. import data
from ..conftest import Staff, page_url

asked: list = []


def nobody(request):
    asked.append(request)
    return "Only on Mondays."


@pytest.fixture(autouse=True)
def policy(settings):
    settings.JOBEXEC = {"AUTHORIZATION": f"{__name__}.nobody"}
    asked.clear()


@pytest.fixture
def jobs(settings):
    return [data.make(Job) for _ in range(2)]


def test_a_refused_action_says_why_and_changes_nothing(admin: Staff, jobs) -> None:
    response = admin.act(Job, "cancel", jobs)
    assert response.status_code in (200, 302), response.status_code
    assert ("error", "Only on Mondays.") in admin.told(response)
    assert Job.objects.count() == 2
    (request,) = asked
    assert (request.action, request.principal.name, request.principal.via) == ("cancel", "admin", "admin")
    assert request.principal.user.is_superuser
    line = AuditLog.objects.get()
    assert (line.verb, line.operator_type, line.count) == ("cancel", OperatorType.USER, 0)
    assert line.new_value == {"refused": "Only on Mondays."}


def test_so_is_one_on_the_page_of_a_job(admin: Staff, jobs) -> None:
    response = admin.post(page_url(jobs[0]), {"action": "set_priority", "_apply": "1", "priority": "5"})
    assert response.status_code < 500
    assert Job.objects.filter(priority=5).count() == 0


def test_the_line_is_shown(admin: Staff, jobs) -> None:
    admin.act(Job, "cancel", jobs)
    page = admin.get(page_url(AuditLog.objects.get())).content.decode()
    assert "Only on Mondays." in page


def test_it_is_a_subclass_of_what_django_knows() -> None:
    from django.core.exceptions import PermissionDenied

    assert issubclass(NotAuthorized, PermissionDenied)
