"""enqueue_many reads an iterable page by page in one transaction, and keeps little of it."""

import tracemalloc

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from jobexec import job
from jobexec.exceptions import InvalidJob
from jobexec.handlers import many, registry
from jobexec.models import Job, JobKey, TimerJob
from jobexec.operations import complete_jobs, delete_jobs, set_due_date
from tests.support.factories import a_run, acquire


@pytest.fixture
def handler(alias):
    with registry.isolated():

        @job(name="many", database=alias)
        def handler(number, text=""):
            pass

        yield handler


@pytest.fixture
def pages_of_three(monkeypatch):
    monkeypatch.setattr(many, "PAGE", 3)
    monkeypatch.setattr(many, "_AT_ONCE", 2)


def numbers(rows):
    return [row.handler_configuration["args"][0] for row in rows]


def test_a_stream_is_inserted_in_order(alias, handler, pages_of_three):
    rows = handler.enqueue_many((number,) for number in range(11))
    assert (len(rows), numbers(rows)) == (11, list(range(11)))
    assert numbers(Job.objects.using(alias).order_by("pk")) == list(range(11))
    assert [row.pk for row in rows] == list(rows.ids) == sorted(rows.ids)
    assert (numbers([rows[0]]), numbers([rows[-1]]), numbers(rows[2:9:3])) == ([0], [10], [2, 5, 8])
    assert rows == list(rows)
    assert (rows.ids[3:5], repr(rows)) == ([rows[3].pk, rows[4].pk], "<11 created jobs>")
    with pytest.raises(IndexError):
        rows[11]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 6])
def test_streams_of_any_length(alias, handler, pages_of_three, count):
    rows = handler.enqueue_many((number,) for number in range(count))
    assert numbers(rows) == list(range(count))
    assert Job.objects.using(alias).count() == count


def test_what_fits_into_a_page_is_as_a_list(alias, handler, django_assert_num_queries):
    rows = handler.enqueue_many((number,) for number in range(5))
    with django_assert_num_queries(0, using=alias):
        assert numbers(rows) == list(range(5))


def test_a_page_is_what_fits_into_memory(alias, handler, monkeypatch):
    monkeypatch.setattr(many, "LENGTH", 1_000)
    monkeypatch.setattr(many, "_AT_ONCE", 1)
    created = []
    original = many._page
    monkeypatch.setattr(many, "_page", lambda *args: created.append(original(*args)) or created[-1])
    rows = handler.enqueue_many((number, "x" * 600) for number in range(5))
    assert len(rows) == 5
    assert len(created) == 6
    with CaptureQueriesContext(connections[alias]) as queries:
        handler.enqueue_many((number, "x" * 600) for number in range(5))
    assert len([query for query in queries if "jobexec_job" in query["sql"]]) >= 3


@pytest.mark.transactional
def test_an_error_names_the_call_and_nothing_is_inserted(alias, handler, pages_of_three):
    def calls():
        yield from ((number,) for number in range(7))
        yield (object(),)

    with pytest.raises(InvalidJob, match=r"^Call 8 of enqueue_many: many: argument 'number': expected JSON"):
        handler.enqueue_many(calls())
    assert not Job.objects.using(alias).exists()
    with pytest.raises(InvalidJob, match=r"^Call 2 of enqueue_many: .*expected tuples"):
        handler.enqueue_many([(1,), 5])


@pytest.mark.transactional
def test_an_error_of_the_iterable_leaves_the_transaction_of_the_caller(alias, handler, pages_of_three):
    def calls():
        yield from ((number,) for number in range(7))
        raise ZeroDivisionError

    with transaction.atomic(alias):
        handler.enqueue(100)
        with pytest.raises(ZeroDivisionError):
            handler.enqueue_many(calls())
    assert numbers(Job.objects.using(alias)) == [100]


def test_rows_are_as_they_are_when_they_are_looked_at(alias, handler, pages_of_three):
    rows = handler.enqueue_many((number,) for number in range(5))
    first = rows[0]
    delete_jobs([rows.ids[3]], using=alias)
    (work,) = [work for work in acquire(alias) if work.id == first.pk]
    complete_jobs(alias, [(work, a_run(alias))])
    assert (rows[0].pk, rows[0]._state.adding, rows[0].handler_type) == (first.pk, True, "many")
    assert [row._state.adding for row in rows] == [True, False, False, True, False]
    assert rows[1].lock_owner == "one"


def test_a_stream_of_timers(alias, handler, pages_of_three):
    rows = handler.using(delay=60).enqueue_many((number,) for number in range(5))
    set_due_date(rows[1], None, using=alias)
    assert [type(row) for row in rows] == [TimerJob, Job, TimerJob, TimerJob, TimerJob]


def test_a_stream_with_keys(alias, handler, pages_of_three):
    unique = handler.using(unique=True)
    rows = unique.enqueue_many((number % 5,) for number in range(12))
    assert numbers(rows) == [number % 5 for number in range(12)]
    assert [row.is_duplicate for row in rows] == [False] * 5 + [True] * 7
    assert JobKey.objects.using(alias).count() == Job.objects.using(alias).count() == 5


def test_a_stream_that_replaces(alias, handler, pages_of_three):
    unique = handler.using(unique=lambda number, text: str(number), on_conflict="replace")
    rows = unique.enqueue_many((number % 2, str(number)) for number in range(7))
    texts = {row.handler_configuration["args"][1] for row in Job.objects.using(alias).all()}
    assert texts == {"5", "6"}, "the last ones"
    assert [row._state.adding for row in rows] == [True, True, True, True, False, False, False]


@pytest.mark.gate
@pytest.mark.databases("sqlite")
def test_little_of_a_stream_is_kept(alias, handler, monkeypatch):
    monkeypatch.setattr(many, "PAGE", 200)
    text = "x" * 500

    def most(count):
        tracemalloc.start()
        rows = handler.enqueue_many((number, text) for number in range(count))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(rows) == count
        return peak

    most(2_400)  # what is made once
    short, long = most(2_400), most(4_800)
    assert long - short < 2_400 * 100, "the id of each, and not its arguments"
