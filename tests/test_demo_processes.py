"""The demo's processes: what the page starts and drives, and what the worker outside does."""

from __future__ import annotations

import pytest
from django.core.management import call_command

from demo_project import settings as demo_settings
from demo_project import worker
from demo_project.workflows import jobs, services, status
from jobexec.models import DeadLetterJob, ExternalWorkerJob, Job
from jobexec.operations import requeue
from jobexec.operations.external.settle import complete_external_job
from jobexec.operations.external.throw_error import throw_external_error
from jobexec.processes import set_variables
from jobexec.processes.models import ProcessDefinition, ProcessInstance, UserTask
from jobexec.processes.operations.check import check
from jobexec.testing import ManualExecutor, controlled_clock

pytest.importorskip("lxml")
pytestmark = [pytest.mark.urls("demo_project.urls"), pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def as_in_the_demo(settings, tmp_path):
    settings.JOBEXEC = demo_settings.JOBEXEC
    settings.MEDIA_ROOT = tmp_path
    settings.TRAVEL_SERVICE_TAKES = 0
    services.deploy_all()
    yield
    assert check() == []


def run():
    return ManualExecutor(reraise=False).run_until_empty()


def work():
    """Do what the worker does, without its way over HTTP, until no order has work; returns the types."""
    tasks = worker.Worker("http://nowhere", "", 0)._tasks
    done = []
    while (row := ExternalWorkerJob.objects.order_by("job_key").first()) is not None:
        done.append(row.handler_type)
        try:
            result = tasks[row.handler_type](row.handler_configuration["variables"])
        except worker.OutOfStock as error:
            throw_external_error("default", row.job_key, code="OUT_OF_STOCK", message=str(error))
        else:
            complete_external_job("default", row.job_key, result)
        run()
    return done


def test_each_file_has_a_drawing_of_all_its_elements():
    from jobexec.processes.xml import read

    for file in services.FILES.glob("*.bpmn"):
        model = read(file.read_bytes())
        (process,) = model.processes
        assert {shape.element for shape in model.shapes} == {node.id for node in process.nodes}, file.name
        assert {edge.element for edge in model.edges} == {flow.id for flow in process.flows}, file.name


@pytest.mark.gate
def test_a_trip_calls_each_service_once_and_joins(client):
    client.post("/processes/act/", {"start": "travel"})
    assert [job.exclusive for job in Job.objects.all()] == [True] * 3
    run()
    (trip,) = status.latest("travel")
    assert (trip.row.state, trip.variables["bill"]) == ("completed", 3)
    assert [(lane["name"], lane["calls"]) for lane in trip.lanes] == [("hotel", 1), ("flight", 1), ("concert", 1)]
    page = client.get("/processes/?live").content.decode()
    assert "hotel 1," in page and page.count("<rect") == 3
    assert status.problems() == []


@pytest.mark.gate
def test_a_service_that_was_called_twice_is_a_problem():
    trip = services.travel("Rome")
    run()
    with jobs._calls_of(trip.pk, "hotel").open("a") as file:
        file.write("again\n")
    assert status.problems() == [f"{trip.business_key}: the service of hotel was called 2 times"]


@pytest.mark.gate
def test_the_switch_deploys_a_version_whose_jobs_run_side_by_side(client):
    services.travel("Rome")
    client.post("/processes/act/", {"switch": "1"})
    assert services.is_side_by_side()
    services.travel("Rome")
    assert sorted(job.exclusive for job in Job.objects.all()) == [False] * 3 + [True] * 3
    assert "One after the other</button>" in client.get("/processes/?live").content.decode()
    client.post("/processes/act/", {"switch": "1"})
    assert not services.is_side_by_side()
    assert ProcessDefinition.objects.filter(key="travel").count() == 3


def _publishes(monkeypatch):
    """The worker's messages arrive as over the gateway, before it completes its job."""
    import jobexec

    def call(self, path, body):
        assert path == "messages/publication"
        jobexec.publish_message(body["name"], key=body["correlationKey"], payload=body["variables"], ttl="PT1H")
        return {}

    monkeypatch.setattr(worker.Worker, "_call", call)


@pytest.mark.gate
def test_an_order_is_paid_fetched_and_shipped_outside(client, monkeypatch):
    _publishes(monkeypatch)
    client.post("/processes/act/", {"start": "order"})
    assert work() == ["process-payment", "fetch-items", "ship-parcel"]
    (order,) = status.latest("order")
    assert (order.row.end_element, order.variables["paid_by"]) == ("shipped", "card")
    assert f"P-{order.row.business_key}" in client.get("/processes/?live").content.decode()


@pytest.mark.gate
def test_an_order_that_is_sold_out_is_refused_with_an_apology(client, monkeypatch):
    _publishes(monkeypatch)
    client.post("/processes/act/", {"start": "order-sold-out"})
    assert work() == ["process-payment", "fetch-items"]
    (order,) = status.latest("order")
    assert (order.row.end_element, order.row.state) == ("refused", "completed")
    assert "We are out of front-row seat. Your money" in client.get("/processes/").content.decode()


@pytest.mark.gate
def test_an_expensive_order_waits_for_its_payment(client):
    client.post("/processes/act/", {"start": "order-expensive"})
    assert work() == ["process-payment"]
    (order,) = status.latest("order")
    assert order.waits_at == ["paid"]
    assert "The payment arrives</button>" in client.get("/processes/?live").content.decode()
    client.post("/processes/act/", {"pay": order.row.business_key})
    run()
    assert work() == ["fetch-items", "ship-parcel"]


@pytest.mark.gate
@pytest.mark.parametrize(("verb", "end"), [("approve", "transferred"), ("reject", "rejected")])
def test_a_manager_answers_in_time(client, verb, end):
    client.post("/processes/act/", {"start": "approval"})
    assert "Approve</button>" in client.get("/processes/?live").content.decode()
    client.post("/processes/act/", {verb: str(UserTask.objects.get().pk)})
    run()
    assert status.latest("approval")[0].row.end_element == end
    assert client.post("/processes/act/", {verb: "00000000-0000-0000-0000-000000000000"}).status_code == 404


@pytest.mark.gate
def test_after_ten_seconds_the_rule_decides():
    with controlled_clock() as clock:
        small, large = (services.ask_for_money("Ada", amount, "NL1") for amount in (100, 101))
        clock.advance(9)
        run()
        assert UserTask.objects.count() == 2
        clock.advance(2)
        run()
    ends = dict(ProcessInstance.objects.values_list("pk", "end_element"))
    assert (ends[small.pk], ends[large.pk]) == ("transferred", "rejected")


@pytest.mark.gate
def test_a_wrong_account_is_an_incident_that_is_repaired(client):
    client.post("/processes/act/", {"start": "approval-incident"})
    client.post("/processes/act/", {"approve": str(UserTask.objects.get().pk)})
    run()
    dead = DeadLetterJob.objects.get()
    assert (dead.failed_activity_id, dead.retry_plan) == ("transfer", "R5/PT5M")
    assert "There is no account unknown" in client.get("/processes/?live").content.decode()
    set_variables(ProcessInstance.objects.get(), {"account": "NL91ABNA0417164300"})
    requeue(dead)
    run()
    assert status.latest("approval")[0].row.end_element == "transferred"
    assert "40 to NL91ABNA0417164300" in client.get("/processes/?live").content.decode()


@pytest.mark.gate
def test_an_offer_asks_all_hotels_and_waits_for_the_visitor(client):
    client.post("/processes/act/", {"start": "offer"})
    run()
    (offer,) = status.latest("offer")
    prices = [jobs.ask_price(hotel, 3) for hotel in jobs.list_hotels("Vienna")]
    assert offer.variables["choose_cheapest"] == min(prices, key=lambda each: each["price"])
    assert "Accept</button>" in client.get("/processes/?live").content.decode()
    client.post("/processes/act/", {"accept": offer.row.business_key})
    run()
    (offer,) = status.latest("offer")
    assert offer.variables["reserve_rooms"].endswith("accepted by a visitor of the page")
    assert offer.row.state == "completed"
    assert "accepted by a visitor" in client.get("/processes/?live").content.decode()


@pytest.mark.gate
def test_an_offer_that_nobody_accepts_is_withdrawn():
    with controlled_clock() as clock:
        services.make_offer("Rome", 2)
        run()
        clock.advance(25 * 3600)
        run()
    (offer,) = status.latest("offer")
    assert (offer.row.state, "was not booked" in offer.variables["withdraw_offer"]) == ("completed", True)


def test_what_a_button_does_not_name_changes_nothing(client):
    client.post("/processes/act/", {"start": "nothing", "else": "1"})
    assert client.get("/processes/act/").status_code == 405
    assert not ProcessInstance.objects.exists()


def test_the_command_starts_some_of_each(capsys):
    call_command("load_processes")
    assert capsys.readouterr().out == "13 processes.\n"
    assert {row["process"]: row["instances"] for row in status.processes()} == {
        "travel": 3,
        "order": 4,
        "approval": 3,
        "offer": 3,
    }
    assert ProcessDefinition.objects.filter(key="travel").count() == 1
