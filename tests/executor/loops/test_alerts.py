"""The loop that tells of dead letters, in an executor that has somebody to tell."""

import pytest

from jobexec.exceptions import DoNotRetry
from jobexec.executor.loops import alerts
from jobexec.executor.loops.alerts import INTERVAL, DeadLetterAlerts
from jobexec.models import AlertedGroup, Job
from jobexec.operations import move_to_dead_letter
from jobexec.operations.maintenance.dead_letter_alerts import ALERT
from tests.support.factories import make_row
from tests.support.waiting import until

from .test_loops import frozen, node  # noqa: F401 (fixtures)

pytestmark = pytest.mark.transactional
TARGETS = {"team": {"mail": "team@shop.example"}}


def test_only_an_executor_with_targets_has_it(make_executor):
    without = make_executor().engines["default"]
    with_it = make_executor(DEAD_LETTER_ALERTS=TARGETS).engines["default"]
    assert without.alerts is None
    assert with_it.alerts in with_it._loops


def test_a_round(alias, node, frozen, configure):  # noqa: F811
    configure(DEAD_LETTER_ALERTS=TARGETS)
    loop = DeadLetterAlerts(node)
    assert loop.run_once() == INTERVAL
    frozen.tick(1)
    move_to_dead_letter(make_row(Job, alias).pk, "no", using=alias)
    good_until, node._good_until = node._good_until, 0.0
    loop.run_once()
    assert not Job.objects.using(alias).exists(), "its lease has run out"
    node._good_until = good_until
    loop.run_once()
    assert Job.objects.using(alias).get().handler_type == ALERT


def test_looks_that_take_long_are_rare(node, frozen, monkeypatch):  # noqa: F811
    monkeypatch.setattr(alerts, "alert_dead_letters", lambda using: frozen.tick(3))
    assert DeadLetterAlerts(node).run_once() == 60


@pytest.mark.gate
def test_from_the_failure_to_the_mail(alias, make_executor, handle, settings, mailoutbox, frozen, monkeypatch):  # noqa: F811
    monkeypatch.setattr(alerts, "INTERVAL", 0.05)
    settings.MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}

    def fail():
        raise DoNotRetry("The card is not a card.")

    breaks = handle(fail, name="tests.breaks", database=alias)
    executor = make_executor(DEAD_LETTER_ALERTS=TARGETS)
    executor.start()
    until(lambda: AlertedGroup.objects.using(alias).exists())
    frozen.tick(1)
    breaks.enqueue()
    until(lambda: mailoutbox)
    assert mailoutbox[0].subject == "1 new dead letter: tests.breaks"
    assert "DoNotRetry: The card is not a card." in mailoutbox[0].body
