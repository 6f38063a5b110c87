"""Steps in transactions that began to read before they got the lock of their instance."""

from functools import partial

import pytest
from django.db import OperationalError, connections, transaction

from jobexec.operations.sql.errors import is_conflict
from jobexec.processes.handlers.deliver import deliver
from jobexec.processes.models import EventSubscription, Execution, UserTask
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.start import start
from jobexec.processes.operations.user_tasks import complete
from tests.processes.support.bpmn import process
from tests.support.machines.rerouted import rerouted
from tests.support.threads import finish
from tests.support.threads import start as beside

pytestmark = [pytest.mark.transactional, pytest.mark.every_database, pytest.mark.databases("postgresql", "mariadb")]
pytest.importorskip("lxml")

MODEL = (
    '<startEvent id="s"/><parallelGateway id="fork"/><userTask id="a"/><userTask id="b"/>'
    '<parallelGateway id="join"/><userTask id="c"/>'
    + "".join(
        f'<sequenceFlow id="f{n}" sourceRef="{a}" targetRef="{b}"/>'
        for n, (a, b) in enumerate(
            [("s", "fork"), ("fork", "a"), ("fork", "b"), ("a", "join"), ("b", "join"), ("join", "c")]
        )
    )
)
LEVELS = {"postgresql": (2, 3), "mysql": ("read committed", "repeatable read")}


@pytest.mark.parametrize("level", [0, 1], ids=["read committed", "repeatable read"])
def test_nobody_is_lost_at_a_join(alias, level):
    """The second one has a snapshot in which the first one has not come yet."""
    deploy(("p.bpmn", process(MODEL)), using=alias)
    row = start("p", using=alias)
    first, second = UserTask.objects.using(alias).order_by("element_id")
    chosen = LEVELS[connections[alias].vendor][level]
    with rerouted(alias, OPTIONS={**connections.settings[alias]["OPTIONS"], "isolation_level": chosen}):

        def in_one_transaction():
            with transaction.atomic(using=alias):
                assert Execution.objects.using(alias).filter(root_id=row.pk).count() == 2
                finish(beside(alias, lambda: complete(first, using=alias)))
                complete(second, using=alias)

        try:
            in_one_transaction()
        except OperationalError as error:
            assert level, "only a transaction with a snapshot is refused"
            assert is_conflict(error)
            with transaction.atomic(using=alias):
                complete(second, using=alias)
    assert list(Execution.objects.using(alias).values_list("element_id", flat=True)) == ["c"]


MESSAGE = (
    '<message id="m" name="paid"><extensionElements><zeebe:subscription correlationKey="=id"/></extensionElements>'
    "</message>"
)
EVENT = (
    '<startEvent id="s"/><userTask id="a"/><userTask id="b"/><sequenceFlow id="f" sourceRef="s" targetRef="a"/>'
    '<boundaryEvent id="more" attachedToRef="a" cancelActivity="false"><messageEventDefinition messageRef="m"/>'
    '</boundaryEvent><sequenceFlow id="g" sourceRef="more" targetRef="b"/>'
)


@pytest.mark.parametrize("level", [0, 1], ids=["read committed", "repeatable read"])
def test_a_message_is_received_once(alias, level):
    """The second delivery has a snapshot in which the event has not received it yet."""
    deploy(("p.bpmn", process(EVENT, "zeebe", MESSAGE)), using=alias)
    start("p", variables={"id": "1"}, using=alias)
    row = EventSubscription.objects.using(alias).get()
    chosen = LEVELS[connections[alias].vendor][level]
    receive = partial(deliver, alias, row.pk, {}, number=1)
    with rerouted(alias, OPTIONS={**connections.settings[alias]["OPTIONS"], "isolation_level": chosen}):
        try:
            with transaction.atomic(using=alias):
                assert EventSubscription.objects.using(alias).get().received is None
                finish(beside(alias, receive))
                assert receive() is None
        except OperationalError as error:
            assert level, "only a transaction with a snapshot is refused"
            assert is_conflict(error)
            assert receive() is None
    assert Execution.objects.using(alias).filter(element_id="b").count() == 1
