"""Alerts of dead letters when several nodes look at the same moment."""

import pytest
from django.db import transaction

from jobexec.models import AlertedGroup, Job
from jobexec.operations import move_to_dead_letter
from jobexec.operations.maintenance.dead_letter_alerts import ALERT, alert_dead_letters
from tests.concurrency.test_settle_races import servers
from tests.support.factories import make_row
from tests.support.machines.killed import Killed, killed_at
from tests.support.threads import finish, held, start, together

pytestmark = pytest.mark.transactional


@pytest.fixture(autouse=True)
def target(alias, configure, settings):
    settings.JOBEXEC |= {"DEAD_LETTER_ALERTS": {"team": {"mail": "team@shop.example"}}}
    assert alert_dead_letters(alias) == 0
    move_to_dead_letter(make_row(Job, alias).pk, "no", using=alias)


def alerts(alias):
    return Job.objects.using(alias).filter(handler_type=ALERT).count()


@servers
def test_a_node_that_finds_another_telling_does_not_wait(alias):
    with held(alias) as inside:
        assert inside(lambda: alert_dead_letters(alias)) == 1
        assert finish(start(alias, lambda: alert_dead_letters(alias))) == 0
    assert alerts(alias) == 1


@pytest.mark.every_database
def test_nodes_that_look_at_once_tell_once(alias):
    assert sum(together(alias, *[lambda: alert_dead_letters(alias)] * 4)) == 1
    assert alerts(alias) == 1


@pytest.mark.every_database
def test_nodes_that_see_a_target_for_the_first_time_at_once(alias):
    AlertedGroup.objects.using(alias).all().delete()
    assert together(alias, *[lambda: alert_dead_letters(alias)] * 4) == [0] * 4
    assert AlertedGroup.objects.using(alias).count() == 1


@servers
def test_a_look_that_is_rolled_back_leaves_it_to_the_next(alias):
    with transaction.atomic(using=alias):
        assert alert_dead_letters(alias) == 1
        transaction.set_rollback(True, using=alias)
    assert alerts(alias) == 0
    assert alert_dead_letters(alias) == 1


@pytest.mark.gate
def test_killed_on_any_line(alias):
    """Before the commit nothing is noted, after it the job is there: the next look tells once, whatever was killed."""
    number, killed = 0, 0
    noted = list(AlertedGroup.objects.using(alias).values())
    while True:
        number += 1
        try:
            with killed_at(alias, number):
                assert alert_dead_letters(alias) == 1
        except Killed:
            killed += 1
            assert (alerts(alias), list(AlertedGroup.objects.using(alias).values())) == (0, noted)
            continue
        break
    assert killed >= 5
    assert alerts(alias) == 1
    assert alert_dead_letters(alias) == 0
