"""Where acquisition goes on: behind the last page while there is more, at the head for a tenth of the time."""

from types import SimpleNamespace
from uuid import UUID

import pytest

from jobexec.models import Job
from jobexec.operations import acquire_jobs
from jobexec.operations.acquire.cursor import AcquisitionCursor, Position
from jobexec.operations.values.acquired_job import ServedJobs
from tests.support.factories import LOCK_TIME, make_row

pytestmark = pytest.mark.every_database


def page(*ranks):
    return [SimpleNamespace(rank=rank, id=UUID(int=rank)) for rank in ranks]


def place(rank):
    return Position(rank, UUID(int=rank))


def walked(cursor, frozen, jobs, full, seconds=0.0):
    """One page that takes so many seconds; where it began."""
    position = cursor.begin()
    frozen.tick(seconds)
    cursor.ended(jobs, full=full)
    return position


def used(frozen, seconds):
    """A cursor that has looked at the head once, which took so many seconds."""
    cursor = AcquisitionCursor()
    assert walked(cursor, frozen, [], False, seconds) is None
    return cursor


def test_a_full_page_goes_on_until_ten_times_the_cost_of_the_head_has_passed(frozen):
    cursor = used(frozen, seconds=0.6)
    assert walked(cursor, frozen, page(1, 2), True, seconds=0.5) is None
    assert walked(cursor, frozen, page(3, 4), True, seconds=1) == place(2)
    frozen.tick(3.9)
    assert walked(cursor, frozen, page(5), True) == place(4)
    frozen.tick(0.1)
    assert walked(cursor, frozen, page(1), True, seconds=0.001) is None
    assert walked(cursor, frozen, page(2), True, seconds=0.009) == place(1)
    frozen.tick(0.0011)
    assert walked(cursor, frozen, page(3), True) is None


@pytest.mark.parametrize("full", [True, False])
def test_one_page_that_waited_for_others_does_not_hide_the_head(frozen, full):
    """For a lock, for instance, that a migration holds: jobs in front would wait ten times as long."""
    cursor = used(frozen, seconds=60)
    assert walked(cursor, frozen, page(1, 2), full, seconds=0.001) is None
    assert walked(cursor, frozen, page(3), False) == (place(2) if full else None)
    frozen.tick(0.02)
    assert walked(cursor, frozen, page(4), full, seconds=60) is None
    frozen.tick(0.02)
    assert walked(cursor, frozen, page(5), full, seconds=60) is None
    frozen.tick(599)
    assert walked(cursor, frozen, page(6), full) == place(5), "two in a row are a measure"


def test_the_first_page_counts_as_a_tenth_of_a_second_at_most(frozen):
    """It may have waited for a connection, for imports, for a table that is not in memory."""
    cursor = AcquisitionCursor()
    assert walked(cursor, frozen, page(1, 2), True, seconds=60) is None
    frozen.tick(0.9)
    assert walked(cursor, frozen, page(3, 4), True) == place(2)
    frozen.tick(0.2)
    assert walked(cursor, frozen, page(1), True) is None


def test_after_a_page_that_was_not_full_comes_the_head(frozen):
    cursor = used(frozen, seconds=0.01)
    assert walked(cursor, frozen, page(1, 2), True, seconds=0.01) is None
    assert walked(cursor, frozen, page(3), False) == place(2)
    assert walked(cursor, frozen, page(1), False) is None


def test_a_dear_head_is_not_walked_again_at_once(frozen):
    cursor = used(frozen, seconds=2)
    assert walked(cursor, frozen, page(7), False, seconds=2) is None
    assert walked(cursor, frozen, [], False) == place(7)
    assert walked(cursor, frozen, page(9), False) == place(7)
    frozen.tick(19.9)
    assert walked(cursor, frozen, [], False) == place(9)
    frozen.tick(0.1)
    assert walked(cursor, frozen, [], False) is None


def test_an_empty_head_has_no_position(frozen):
    cursor = AcquisitionCursor()
    assert walked(cursor, frozen, [], False, seconds=2) is None
    assert cursor.begin() is None


def test_the_head_takes_no_more_than_a_tenth_of_the_time(frozen):
    cursor, at_head, total = AcquisitionCursor(), 0.0, 0.0
    for number in range(1000):
        cost = 0.3 if cursor.begin() is None else 0.01
        frozen.tick(cost)
        cursor.ended(page(number), full=True)
        total += cost
        at_head += cost if cost == 0.3 else 0
    # The first one counts as less, and the last one is not followed by all of its time.
    assert 0.05 * total < at_head <= 0.1 * total + 0.6


def test_who_came_to_the_end_without_the_head_looks_there_as_soon_as_it_may(frozen):
    cursor = used(frozen, seconds=0.001)
    walked(cursor, frozen, page(1), True, seconds=0.001)
    assert cursor.unseen() is None  # a full page goes on anyway
    walked(cursor, frozen, page(2), False)
    assert cursor.unseen() == 0
    for _ in range(2):
        assert walked(cursor, frozen, page(1), False, seconds=0.1) is None
        assert cursor.unseen() is None  # it has just been seen
    frozen.tick(0.2)
    walked(cursor, frozen, [], False)
    assert cursor.unseen() == pytest.approx(0.8)
    frozen.tick(5)
    assert cursor.unseen() == 0
    assert cursor.begin() is None


@pytest.mark.gate
@pytest.mark.parametrize("exclusive", [False, True])
def test_pages_of_a_walk_take_everything_once_and_find_what_came_in_front(alias, strategy, frozen, exclusive):
    rows = [
        make_row(Job, alias, rank=number, exclusive=exclusive, process_instance_id=f"p{number % 9}")
        for number in range(0, 60, 2)
    ]
    cursor, taken = AcquisitionCursor(), []

    def take():
        frozen.tick(0.001)
        got = acquire_jobs(alias, "one", 7, ServedJobs(), lock_time=LOCK_TIME, strategy=strategy, cursor=cursor).jobs
        taken.extend(job.id for job in got)
        assert len(got) <= 7
        return got

    take()
    rows.append(make_row(Job, alias, rank=-5))
    for _ in range(40):
        take()
    expected = {row.pk for row in rows}
    assert len(taken) == len(set(taken))
    if not exclusive:
        assert set(taken) == expected
    else:  # what is locked keeps its siblings waiting, and nothing else
        left = Job.objects.using(alias).filter(lock_owner=None).values_list("process_instance_id", flat=True)
        held = Job.objects.using(alias).exclude(lock_owner=None).values_list("process_instance_id", flat=True)
        assert set(left) <= set(held) - {""}
        assert rows[-1].pk in taken
