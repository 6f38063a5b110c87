"""An entry of RESOURCES for tenants limits the jobs of each, whatever they are, unless they say otherwise."""

import pytest

import jobexec
from jobexec.exceptions import InvalidJob
from jobexec.models import BlockedJob, ExternalWorkerJob, Job
from jobexec.operations.batches.jobs import MONITOR
from jobexec.operations.batches.watch import watch
from jobexec.operations.external import complete_external_job
from jobexec.operations.resources.promote import blocked_resources, promote
from tests.support.factories import fetch, in_hands, make_external, table_of

pytestmark = pytest.mark.every_database


@pytest.fixture(autouse=True)
def resources(configure):
    configure(RESOURCES={"tenant:*": {"limit": 2}, "tenant:big": {"limit": 3}, "pay.example": {"limit": 1}})


@pytest.fixture
def work(alias, handle):
    return handle(lambda number=0: None, name="tests.work", database=alias)


def look(alias):
    return promote(alias, blocked_resources(alias), 100).moved


def test_each_tenant_has_its_own(alias, work):
    for tenant in ("a", "b", "big"):
        calls = work.using(tenant_id=tenant).enqueue_many((number,) for number in range(5))
        assert {row.resource for row in calls} == {f"tenant:{tenant}"}
    assert look(alias) == 2 + 2 + 3
    held = Job.objects.using(alias).values_list("tenant_id", flat=True)
    assert sorted(held) == ["a", "a", "b", "b", "big", "big", "big"]


def test_jobs_without_a_tenant_are_not_limited(alias, work):
    assert type(work.enqueue()) is Job


def test_also_if_the_function_names_the_tenant(alias, handle):
    function = handle(lambda: None, name="tests.own", database=alias, tenant_id="a")
    assert function.enqueue().resource == "tenant:a"


def test_what_a_job_says_of_its_resource_counts(alias, work, handle):
    assert work.using(tenant_id="a", resource="pay.example").enqueue().resource == "pay.example"
    free = work.using(tenant_id="a", resource=None).enqueue()
    assert (type(free), free.resource) == (Job, None)
    function = handle(lambda number: None, name="tests.some", database=alias, resource=lambda number: None)
    assert function.using(tenant_id="a").enqueue(1).resource is None


def test_without_such_an_entry_it_is_as_ever(alias, work, configure):
    configure(RESOURCES={"tenant:big": {"limit": 3}, "*": {"limit": 1}})
    assert work.using(tenant_id="a").enqueue().resource is None
    assert work.using(tenant_id="big").enqueue().resource == "tenant:big"


def test_a_tenant_that_names_no_resource_is_refused(work):
    with pytest.raises(InvalidJob, match="resource: expected a name that RESOURCES covers"):
        work.using(tenant_id="a*").enqueue()


def test_jobs_of_workers_and_what_follows_them(alias, work, handle):
    first, *_ = [make_external(alias, tenant_id="a") for _ in range(3)]
    assert look(alias) == 2
    assert table_of(alias, first) is ExternalWorkerJob
    assert len(fetch(alias)) == 2
    follows = handle(lambda variables: None, name="tests.follows")
    told = in_hands(alias, "other", tenant_id="b", resource=None, on_complete=follows)
    complete_external_job(alias, told.key)
    row = BlockedJob.objects.using(alias).get(pk=told.id)
    assert (row.handler_type, row.resource) == ("tests.follows", "tenant:b")
    free = handle(lambda variables: None, name="tests.free", resource=None)
    told = in_hands(alias, "other", tenant_id="b", resource=None, on_complete=free)
    complete_external_job(alias, told.key)
    assert Job.objects.using(alias).get(pk=told.id).resource is None


def test_children_of_a_batch(alias, work, handle):
    batch = jobexec.batch(tenant_id="a", using=alias)
    assert batch.add(work.s(1)).resource == "tenant:a"
    assert batch.add_many([work.s(2), work.s(3)]) == 2
    assert batch.add_external("print", [{}]) == 1
    children = BlockedJob.objects.using(alias).filter(batch_id=batch.id)
    assert [(row.tenant_id, row.resource) for row in children] == [("a", "tenant:a")] * 4
    free = handle(lambda number: None, name="tests.free", database=alias, resource=None)
    some = handle(lambda number: None, name="tests.some", database=alias, resource=lambda number: None)
    for function in (free, some):
        assert batch.add(function.s(4)).resource is None
    assert batch.add(work.using(resource="pay.example").s(5)).resource == "pay.example"
    unlimited = jobexec.batch(using=alias)
    assert type(unlimited.add(work.s(6))) is Job


@pytest.mark.parametrize("ends", ["on_success", "when"])
def test_calls_of_a_batch(alias, work, handle, ends):
    free = handle(lambda: None, name="tests.free", database=alias, resource=None)
    other = work.using(tenant_id="b")
    found = []
    for call in (work.s(1), free.s(), other.s(1)):
        calls = {"when": {"completed >= 0": call}} if ends == "when" else {"on_success": call}
        batch = jobexec.batch(tenant_id="a", using=alias, **calls)
        batch.seal()
        watch(alias, batch.id, 0)
        for table in (Job, BlockedJob):
            rows = table.objects.using(alias).filter(process_instance_id=batch.row.process_instance_id)
            found += [(row.tenant_id, row.resource) for row in rows.exclude(handler_type=MONITOR)]
    assert found == [("a", "tenant:a"), ("a", None), ("b", "tenant:b")]
