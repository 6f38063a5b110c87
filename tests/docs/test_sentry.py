"""The example of the how-to guide about Sentry, with the real SDK."""

import asyncio

import pytest
import sentry_sdk
from django.conf import settings as django_settings
from sentry_sdk.transport import Transport

from docs.examples import sentry
from jobexec.handlers.context import JobContext
from jobexec.models import DeadLetterJob
from jobexec.signals import job_dead_lettered
from tests.support.executor import Host, run_one
from tests.support.factories import acquire, make_job

pytestmark = pytest.mark.transactional


class Kept(Transport):
    """Keeps what would be sent."""

    def __init__(self):
        super().__init__()
        self.events = []

    def capture_envelope(self, envelope):
        self.events += [item.payload.json for item in envelope.items if item.payload.json]


@pytest.fixture
def events():
    kept = Kept()
    client = sentry_sdk.Client(
        dsn="https://key@sentry.invalid/1",
        transport=kept,
        traces_sample_rate=1.0,
        default_integrations=False,
        enable_backpressure_handling=False,
    )
    before = sentry_sdk.get_global_scope().client
    sentry_sdk.get_global_scope().set_client(client)  # all threads have it
    yield kept.events
    sentry_sdk.get_global_scope().set_client(before)


@pytest.fixture(autouse=True)
def connected(settings, alias):
    middleware = [f"{sentry.__name__}.with_sentry"]
    settings.JOBEXEC = {**django_settings.JOBEXEC, "ENGINES": {alias: {}}, "MIDDLEWARE": middleware}
    yield
    job_dead_lettered.disconnect(sentry.report)


def test_a_dead_letter_is_an_issue_of_its_group_and_each_run_a_transaction(alias, handle, events):
    job_dead_lettered.connect(sentry.report)

    def charge(order_id):
        raise ConnectionError(f"no answer for {order_id}")

    handle(charge, name="tests.charge", retries="R2/PT0S")
    for order in (1, 2):
        job = make_job(
            alias, handler_type="tests.charge", handler_configuration={"args": [order], "kwargs": {}}, retries=1
        )
        run_one(alias)
    transactions = [event for event in events if event.get("type") == "transaction"]
    assert [(each["transaction"], each["contexts"]["trace"]["op"]) for each in transactions] == [
        ("tests.charge", "queue.process")
    ] * 2
    assert transactions[1]["tags"]["job.id"] == str(job.pk)
    issues = [event for event in events if event.get("exception")]
    assert [issue["exception"]["values"][-1]["value"] for issue in issues] == ["no answer for 1", "no answer for 2"]
    (group,) = {tuple(issue["fingerprint"]) for issue in issues}
    assert group == ("jobexec", DeadLetterJob.objects.using(alias).first().fingerprint)
    assert issues[1]["contexts"]["job"]["id"] == str(job.pk)
    assert issues[1]["tags"]["job.engine"] == alias
    frames = [frame["function"] for frame in issues[0]["exception"]["values"][-1]["stacktrace"]["frames"]]
    assert frames[-1] == "charge"


def test_a_job_continues_the_trace_of_the_request(alias, handle, events):
    job = handle(lambda: None, name="tests.charge", database=alias)
    with sentry_sdk.start_transaction(name="checkout") as request:
        job.using(headers=sentry.trace()).enqueue()
    job.enqueue()
    run_one(alias)
    run_one(alias)
    traces = {each["transaction"]: each["contexts"]["trace"] for each in events[:2]}
    assert traces["tests.charge"]["trace_id"] == request.trace_id
    assert traces["tests.charge"]["parent_span_id"] == request.span_id
    assert events[2]["contexts"]["trace"]["trace_id"] != request.trace_id, "without the headers"


def test_async_jobs_beside_each_other_keep_their_own_tags(alias, events):
    async def work(context):
        await asyncio.sleep(0)
        sentry_sdk.capture_message(context.handler_type)

    async def all_of(contexts):
        await asyncio.gather(*map(sentry.with_sentry(work), contexts))
        sentry_sdk.capture_message("afterwards")

    jobs = [make_job(alias, handler_type=f"tests.{number}") for number in range(3)]
    asyncio.run(all_of([JobContext(acquired, Host()) for acquired in acquire(alias)]))
    told = {event["message"]: event.get("tags", {}).get("job.id") for event in events if event.get("message")}
    assert told == {"afterwards": None, **{job.handler_type: str(job.pk) for job in jobs}}
