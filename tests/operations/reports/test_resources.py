"""What is reported of resources, with counts that end early."""

from datetime import timedelta

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from jobexec.models import BlockedJob, Job, Resource
from jobexec.operations import hold_resource, set_resource_limits
from jobexec.operations.reports import counts, resources
from jobexec.operations.reports.resources import holders, open_breakers, resource_names, resource_status, totals
from jobexec.operations.resources.promote import promote
from jobexec.operations.why.explain import why
from tests.support.factories import make_row

pytestmark = pytest.mark.every_database


@pytest.fixture(autouse=True)
def declared(configure):
    breaker = {"pay.example": {"limit": 2, "breaker": "fast"}}
    patterns = {"customer:*": {"limit": 1, "rate": "60/PT1M"}, "customer:vip:*": {"limit": 5}}
    configure(RESOURCES=breaker | patterns)


def rows(alias, table, resource, count=1):
    for _ in range(count):
        make_row(table, alias, resource=resource)


def codes(alias, job):
    return [each.code for each in why(job.pk, using=alias).reasons]


def numbers(found):
    return {entry: (int(each.in_use), int(each.waiting)) for entry, each in found.items()}


def test_what_a_rate_allows_now_and_when_it_allows_the_next_job(alias, frozen, configure):
    configure(RESOURCES={"mail": {"rate": "6/PT1M", "burst": 3}, "pay.example": {"limit": 2}})

    def status(name="mail"):
        (found,) = resource_status(alias, [name])
        return found.rate_free, found.rate_until, found.until, found.rate_words

    assert status() == (3, None, None, "3 of 3 now")
    assert status("pay.example") == (None, None, None, "")
    waiting = [make_row(BlockedJob, alias, resource="mail", rank=rank) for rank in range(6)]
    assert promote(alias, ["mail"], 2).moved == 2
    assert status() == (1, None, None, "1 of 3 now")
    assert codes(alias, waiting[2])[0] == "resource_soon"
    assert promote(alias, ["mail"], 9).moved == 1
    free, moment, until, words = status()
    assert (free, until) == (0, moment) and words.startswith("the next job on ") and words.endswith("(in 15 s)")
    assert codes(alias, waiting[3])[0] == "resource_rate"
    (found,) = resource_status(alias, ["mail"])
    assert (found.as_json()["rate_free"], found.as_json()["rate_until"]) == (0, moment.isoformat())
    frozen.tick((moment - frozen.now).total_seconds() - 0.001)
    assert (status()[0], promote(alias, ["mail"], 9).moved) == (0, 0)
    frozen.tick(0.001)
    assert (status()[0], promote(alias, ["mail"], 9).moved) == (1, 1)


def test_the_rate_is_told_whatever_the_breaker_says(alias, frozen, configure):
    configure(RESOURCES={"mail": {"rate": "6/PT1M", "breaker": "fast"}})
    later, next_job = frozen.now + timedelta(hours=1), frozen.now + timedelta(seconds=10)
    columns = {"breaker_state": "open", "trial_time": later, "next_permit_time": next_job}
    Resource.objects.using(alias).create(name="mail", **columns)
    (found,) = resource_status(alias, ["mail"])
    assert (found.rate_free, found.rate_until, found.until) == (0, next_job, later)


def test_totals_by_entry(alias):
    rows(alias, Job, "pay.example", 2)
    rows(alias, Job, "customer:1")
    rows(alias, Job, None, 3)
    rows(alias, BlockedJob, "customer:1", 2)
    rows(alias, BlockedJob, "customer:2")
    rows(alias, BlockedJob, "customer:vip:1", 3)
    rows(alias, BlockedJob, "of another release")
    found = totals(alias)
    assert numbers(found) == {"pay.example": (2, 0), "customer:*": (1, 3), "customer:vip:*": (0, 3)}
    assert not any(each.in_use.capped or each.waiting.capped for each in found.values())


def test_totals_end_at_the_limit(alias, monkeypatch):
    monkeypatch.setattr(counts, "COUNT_LIMIT", 3)
    rows(alias, BlockedJob, "pay.example", 2)
    rows(alias, BlockedJob, "customer:1", 3)
    rows(alias, Job, "pay.example", 4)
    found = totals(alias)
    assert numbers(found) == {"pay.example": (3, 2), "customer:*": (0, 2), "customer:vip:*": (0, 0)}
    assert (found["pay.example"].in_use.capped, found["pay.example"].waiting.capped) == (True, False)
    assert (found["customer:*"].in_use.capped, found["customer:*"].waiting.capped) == (True, True)


def test_each_count_of_a_status_ends_early(alias, monkeypatch):
    monkeypatch.setattr(resources, "COUNTED", 1)
    rows(alias, BlockedJob, "pay.example", 3)
    rows(alias, Job, "pay.example", 2)
    rows(alias, Job, "customer:1", 2)
    pay, customer = resource_status(alias, ["pay.example", "customer:1"])
    assert (int(pay.in_use), pay.in_use.capped, int(pay.waiting), pay.waiting.capped) == (2, False, 1, True)
    assert (int(customer.in_use), customer.in_use.capped) == (1, True)
    assert pay.as_json()["in_use_capped"] is False


def test_a_few_statements_for_any_number(alias):
    names = [f"customer:{number}" for number in range(90)]
    rows(alias, BlockedJob, "customer:7", 2)
    with CaptureQueriesContext(connections[alias]) as captured:
        found = resource_status(alias, names)
    assert len(captured) == 4
    assert [each.name for each in found if each.waiting] == ["customer:7"]


def test_more_than_one_statement_can_count(alias):
    rows(alias, BlockedJob, "customer:249")
    found = resource_status(alias, [f"customer:{number}" for number in range(250)])
    assert [each.name for each in found if each.waiting] == ["customer:249"]


def test_until_when_only_if_none_has_a_permit_now(alias, frozen):
    def seen(*names):
        return [(each.free, each.until) for each in resource_status(alias, names)]

    row = Resource.objects.using(alias).create(name="customer:1", limit=2)
    assert seen("customer:1", "of another release") == [(True, None), (False, None)]
    row.next_permit_time = frozen.now + timedelta(seconds=1)
    row.save()
    assert seen("customer:1") == [(False, row.next_permit_time)]
    rows(alias, Job, "customer:1", 2)
    assert seen("customer:1") == [(False, None)]
    later = frozen.now + timedelta(seconds=30)
    Resource.objects.using(alias).create(name="pay.example", breaker_state="open", trial_time=later)
    assert seen("pay.example") == [(False, later)]


def test_names_are_those_declared_used_and_waited_for(alias):
    set_resource_limits("customer:*", limit=3, using=alias)
    set_resource_limits("customer:1", limit=3, using=alias)
    rows(alias, BlockedJob, "customer:2")
    assert resource_names(alias) == ["customer:1", "customer:2", "pay.example"]
    one, two = resource_status(alias, ["customer:1", "customer:2"])
    assert one.changed and two.changed and two.limits.limit == 3 and two.entry == "customer:*"


def test_holders_that_a_node_has_come_first(alias):
    free, running = (make_row(Job, alias, resource="pay.example", lock_owner=owner) for owner in (None, "a:1"))
    assert [job.pk for job in holders(alias, "pay.example")] == [running.pk, free.pk]


def test_open_breakers(alias, frozen):
    later, before = frozen.now + timedelta(hours=1), frozen.now - timedelta(hours=1)
    for name, columns in {
        "customer:1": {"breaker_state": "open", "trial_time": later},  # has no breaker any more
        "customer:3": {"hold": "closed", "hold_until": later, "breaker_state": "open", "trial_time": later},
        "customer:4": {"hold": "open", "hold_until": before},
        "pay.example": {"breaker_state": "open", "trial_time": later},
    }.items():
        Resource.objects.using(alias).create(name=name, **columns)
    assert open_breakers(alias) == ["pay.example"]
    hold_resource("customer:2", using=alias)
    assert open_breakers(alias) == ["customer:2", "pay.example"]
    assert open_breakers(alias, 1) == ["customer:2"]
    frozen.tick(3600)
    assert open_breakers(alias) == ["customer:2"]


def test_of_many_resources_fewer_jobs_are_counted(alias, configure, monkeypatch):
    configure(RESOURCES={"customer:*": {"limit": 2}})
    for number in range(6):
        rows(alias, BlockedJob, f"customer:{number}", 1 + number)
    monkeypatch.setattr(resources, "TOGETHER", 18)
    monkeypatch.setattr(resources, "FEWEST", 1)
    names = [f"customer:{number}" for number in range(6)]
    found = [(int(each.waiting), each.waiting.capped) for each in resource_status(alias, names)]
    assert found == [(1, False), (2, False), (3, False), (3, True), (3, True), (3, True)]
    assert [int(each.waiting) for each in resource_status(alias, names[-1:])] == [6]
    # Only of those that are shown more is counted.
    assert [int(each.waiting) for each in resources.troubled(alias, 3)] == [6, 5, 4]
