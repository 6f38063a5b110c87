"""Operators change limits and rates, and hold resources."""

from datetime import timedelta

import pytest

from jobexec.conf.resources import BreakerProfile
from jobexec.exceptions import InvalidJob
from jobexec.models import AuditLog, BlockedJob, Incident, Job, OperatorType, Resource
from jobexec.operations import Operator, acting, hold_resource, release_resource, set_resource_limits
from jobexec.operations.overview import overview
from jobexec.operations.problems import problems
from jobexec.operations.resources.breaker import open_breaker
from jobexec.operations.resources.promote import blocked_resources, promote
from tests.support.factories import acquire, make_job

pytestmark = pytest.mark.every_database


@pytest.fixture(autouse=True)
def resources(configure):
    configure(RESOURCES={"pay.example": {"limit": 2, "breaker": "fast"}, "customer:*": {"limit": 1}})


def blocked(alias, count, resource="pay.example"):
    return [make_job(alias, resource=resource) for _ in range(count)]


def look(alias):
    return promote(alias, blocked_resources(alias), 100).moved


def test_another_limit_and_back(alias):
    blocked(alias, 9)
    set_resource_limits("pay.example", limit=4, using=alias)
    assert look(alias) == 4
    set_resource_limits("pay.example", using=alias)
    assert look(alias) == 0
    set_resource_limits("pay.example", limit=0, using=alias)
    assert look(alias) == 5


def test_another_rate(alias, frozen):
    blocked(alias, 9)
    set_resource_limits("pay.example", limit=0, rate="1/PT1S", using=alias)
    moved = []
    for _ in range(3):
        moved.append(look(alias))
        frozen.tick(1)
    assert moved == [1, 1, 1]


def test_of_a_pattern(alias):
    blocked(alias, 5, "customer:1")
    set_resource_limits("customer:*", limit=3, using=alias)
    assert look(alias) == 3
    set_resource_limits("customer:1", limit=4, using=alias)
    assert look(alias) == 1


def test_held_open_until_it_is_released(alias):
    blocked(alias, 4)
    look(alias)
    (running,) = acquire(alias, limit=1)
    hold_resource("pay.example", using=alias)
    assert list(Job.objects.using(alias).values_list("pk", flat=True)) == [running.id]  # the other one had not begun
    assert look(alias) == 0
    release_resource("pay.example", using=alias)
    assert look(alias) == 1


def test_held_open_until_a_date(alias, frozen):
    blocked(alias, 2)
    until = frozen.now + timedelta(hours=1)
    hold_resource("pay.example", until=until, using=alias)
    assert promote(alias, ["pay.example"], 10).again == {"pay.example": until}
    frozen.tick(3600)
    assert look(alias) == 2


def test_held_closed_whatever_the_breaker_says(alias, frozen):
    blocked(alias, 2)
    Resource.objects.using(alias).create(
        name="pay.example", breaker_state="open", trial_time=frozen.now + timedelta(hours=1)
    )
    assert look(alias) == 0
    hold_resource("pay.example", state="closed", using=alias)
    assert look(alias) == 2


def test_released_it_is_closed(alias, frozen):
    Resource.objects.using(alias).create(
        name="pay.example", breaker_state="open", trial_time=frozen.now + timedelta(hours=1), reason="down"
    )
    release_resource("pay.example", using=alias)
    row = Resource.objects.using(alias).get()
    assert (row.breaker_state, row.reason, row.breaker_time) == ("closed", "", frozen.now)


def test_it_is_audited(alias):
    with acting(Operator(OperatorType.USER, "ada", "command")):
        set_resource_limits("pay.example", limit=4, using=alias)
        hold_resource("pay.example", using=alias)
    first, second = AuditLog.objects.using(alias).order_by("id")
    assert (first.verb, first.object_type, first.object_id) == ("set_resource_limits", "resource", "pay.example")
    assert (first.old_value, first.new_value) == ({"limit": None, "rate": ""}, {"limit": 4, "rate": ""})
    assert (second.verb, second.new_value) == ("hold_resource", {"hold": "open", "hold_until": None})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda alias: set_resource_limits("nothing", limit=1, using=alias),
            "resource: expected an entry of RESOURCES",
        ),
        (
            lambda alias: set_resource_limits("other:*", limit=1, using=alias),
            "resource: expected an entry of RESOURCES",
        ),
        (lambda alias: set_resource_limits("pay.example", limit=-1, using=alias), "limit: expected a whole number"),
        (lambda alias: set_resource_limits("pay.example", limit=True, using=alias), "limit: expected a whole number"),
        (
            lambda alias: set_resource_limits("pay.example", rate="often", using=alias),
            "rate: expected a number of jobs",
        ),
        (lambda alias: hold_resource("customer:*", using=alias), "resource: expected a name that RESOURCES covers"),
        (lambda alias: hold_resource("pay.example", state="ajar", using=alias), "state: expected 'open' or 'closed'"),
        (lambda alias: release_resource("nothing", using=alias), "resource: expected a name that RESOURCES covers"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(alias, call, said):
    with pytest.raises(InvalidJob, match=said):
        call(alias)
    assert not Resource.objects.using(alias).exists()


def test_an_end_in_the_past(alias, frozen):
    with pytest.raises(InvalidJob, match="until: expected a time in the future"):
        hold_resource("pay.example", until=frozen.now, using=alias)
    blocked(alias, 1)
    assert BlockedJob.objects.using(alias).count() == 1


def test_release_closes_the_incident_of_its_breaker(alias):
    open_breaker(alias, "pay.example", BreakerProfile(), "5 of 5 failed")
    incident = Incident.objects.using(alias).get()
    assert (incident.type, incident.state, incident.resource) == ("breakerOpen", "open", "pay.example")
    hold_resource("pay.example", using=alias)
    assert Incident.objects.using(alias).get().state == "open"
    release_resource("pay.example", using=alias)
    assert Incident.objects.using(alias).get().state == "resolved"


@pytest.mark.gate
def test_a_breaker_that_is_open_is_a_problem_and_a_held_one_is_not(alias, frozen):
    open_breaker(alias, "pay.example", BreakerProfile(), "5 of 5 failed")
    blocked(alias, 3, "customer:17")
    blocked(alias, 2, "customer:18")
    seen = overview(alias)
    assert [(each.name, each.breaker, int(each.waiting)) for each in seen.resources] == [
        ("pay.example", "open", 0),
        ("customer:17", "", 3),
        ("customer:18", "", 2),
    ]
    told = {problem.code: problem.text for problem in problems(seen)}
    assert told["breaker"] == "The circuit breaker of pay.example is open: 5 of 5 failed"
    frozen.tick(31)  # now it lets trial calls through
    assert "breaker" not in {problem.code for problem in problems(overview(alias))}
    assert overview(alias).resources[0].breaker == "half open"
    hold_resource("pay.example", using=alias)
    assert "breaker" not in {problem.code for problem in problems(overview(alias))}
    assert overview(alias, tenants=["a"]).resources is None
