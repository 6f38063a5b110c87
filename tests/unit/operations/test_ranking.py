"""The rank: priority and waiting time as one number that does not change with time."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobexec.exceptions import InvalidJob
from jobexec.operations.values.ranking import MAX_PRIORITY, check_priority, rank, reranked

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
moments = st.integers(-(10**9), 10**9).map(lambda ms: NOW + timedelta(milliseconds=ms))
jobs = st.lists(st.tuples(moments, st.integers(-100, 100)), min_size=2, max_size=8)


@pytest.mark.gate
@given(jobs=jobs, interval=st.integers(1, 10**7), later=st.integers(0, 10**10))
@settings(max_examples=100, deadline=None)
def test_orders_as_priority_plus_waiting_time_at_every_moment(jobs, interval, later):
    with configured(PRIORITY_AGEING=interval / 1000):
        now = NOW + timedelta(milliseconds=10**9 + later)

        def urgency(job):
            due, priority = job
            return priority * interval + (now - due) // timedelta(milliseconds=1)

        by_rank = sorted(jobs, key=lambda job: rank("default", *job))
        assert [urgency(job) for job in by_rank] == sorted(map(urgency, jobs), reverse=True)


@given(jobs=jobs)
@settings(max_examples=50, deadline=None)
def test_without_ageing_priority_is_strict(jobs):
    with configured():
        by_rank = sorted(jobs, key=lambda job: rank("default", *job))
        assert by_rank == sorted(jobs, key=lambda job: (-job[1], job[0]))


@given(due=moments, before=st.integers(-1000, 1000), after=st.integers(-1000, 1000))
@settings(max_examples=50, deadline=None)
def test_a_change_of_priority_is_as_if_it_had_always_been(due, before, after):
    with configured(PRIORITY_AGEING=60):
        assert reranked("default", rank("default", due, before), after - before) == rank("default", due, after)


@pytest.mark.parametrize("priority", [-MAX_PRIORITY, MAX_PRIORITY, -(2**31), 2**31 - 1])
def test_fits_the_column(priority):
    with configured():
        assert -(2**63) <= rank("default", NOW, priority) < 2**63
        assert (rank("default", NOW, priority) < rank("default", NOW, 0)) == (priority > 0)


@pytest.mark.parametrize("priority", [MAX_PRIORITY + 1, -MAX_PRIORITY - 1, "1", 1.0, None, True])
def test_what_is_no_priority(priority):
    with pytest.raises(InvalidJob, match="priority: expected a number from"):
        check_priority(priority)
    check_priority(MAX_PRIORITY)


def configured(**engine):
    from django.test import override_settings

    return override_settings(JOBEXEC={"ENGINES": {"default": engine}})
