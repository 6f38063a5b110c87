"""Jobs that handlers enqueue stay with their node: inserted locked, handed to the pool after the commit."""

import pytest

from jobexec.handlers.context import current_job
from jobexec.operations.notify import wake
from jobexec.operations.values.followers import MOST
from tests.support.executor import all_gone
from tests.support.factories import make_job
from tests.support.waiting import until

pytestmark = pytest.mark.transactional

#: Follow-ups that nobody brings to the pool would be seen at the end of the test, and not before.
SELDOM = {"WAIT_TIME": 60, "MAX_WAIT": 60, "MAX_WAIT_WHEN_LISTENING": 60}


def idle(executor, alias):
    """Wait until the executor has looked at the empty table."""
    engine = executor.engines[alias]
    until(lambda: all(each.sees_the_end for each in engine.acquisitions.values()))


def begin(executor, alias, name, *arguments, **columns):
    """Enqueue a job as another process does, and wait for the notification."""
    hear, engine = executor.engines[alias].hear, executor.engines[alias]
    wake.remove_listener(hear)
    configuration = {"args": list(arguments), "kwargs": {}}
    make_job(alias, handler_type=name, handler_configuration=configuration, **columns)
    wake.add_listener(hear)
    if not engine.acquisitions[alias]._listening():
        engine._look()


@pytest.mark.every_database
def test_a_chain_runs_without_acquisitions(alias, make_executor, handle):
    seen = []

    def step(number):
        seen.append((number, current_job().work.followers is not None))
        if number < MOST:
            make_job(alias, handler_type="tests.step", handler_configuration={"args": [number + 1], "kwargs": {}})

    handle(step, name="tests.step")
    executor = make_executor(SELDOM)
    executor.start()
    idle(executor, alias)
    begin(executor, alias, "tests.step", 0)
    until(lambda: all_gone(alias))
    assert seen == [(number, number > 0) for number in range(MOST + 1)]
