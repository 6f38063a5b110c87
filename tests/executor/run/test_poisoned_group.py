"""One row that the database refuses in a group of failures: its neighbours move, and it becomes a dead letter."""

from datetime import timedelta

import pytest

from jobexec import clock
from jobexec.executor.run.outcomes import Outcome
from jobexec.models import DeadLetterJob, TimerJob
from tests.support import forms
from tests.support.factories import a_failure, a_run, make_job, tables_of
from tests.support.waiting import until

pytestmark = pytest.mark.transactional


@pytest.mark.parametrize("form", forms.MOVES)
def test_a_row_that_cannot_be_moved_does_not_hold_up_its_group(alias, service, jobs, monkeypatch, form):
    forms.move(form, alias, monkeypatch)
    works = jobs(5)
    twin = make_job(alias, due_date=clock.now(alias) + timedelta(days=1))
    TimerJob.objects.using(alias).filter(pk=twin.pk).update(id=works[2].id)
    ends = [Outcome(work, a_run(alias), a_failure()) for work in works]
    for end in ends:
        service.submit(end)
    service.start()
    until(lambda: service.empty)
    assert [end.counted for end in ends] == [True] * 5
    tables = tables_of(alias)
    assert tables.pop(works[2].id) == [TimerJob, DeadLetterJob], "the row that was there, and the job"
    assert tables == {work.id: [TimerJob] for work in works if work is not works[2]}
    message = DeadLetterJob.objects.using(alias).get().exception_message
    assert message.startswith("ValueError: no (The outcome could not be written: IntegrityError")
