"""What each statement of the hot path reads is bounded by its own rows, whatever else is in the tables.

The statements are those that are really sent. On PostgreSQL each is explained and undone before it is sent, and the
measure is the pages that it touches; on MariaDB it is the index entries that are read. Never time.

`JOBEXEC_TEST_ROWS` changes how many rows there are in the large tables of the slow test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections
from django.db.transaction import atomic, set_rollback

from jobexec import clock
from jobexec.models import (
    BlockedJob,
    DeadLetterJob,
    ExclusiveLock,
    ExternalWorkerJob,
    HistoryJob,
    Job,
    JobLog,
    SuspendedJob,
    TimerJob,
)
from jobexec.operations import (
    acquire_jobs,
    complete_jobs,
    create_job,
    fail_jobs,
    next_due_date,
    release_jobs,
    trigger_due_timers,
)
from jobexec.operations.acquire.cursor import AcquisitionCursor
from jobexec.operations.maintenance.heartbeat_probes import questions, questions_about_deployments
from jobexec.operations.nodes.leases import renew_lease
from jobexec.operations.resources.promote import promote
from jobexec.operations.settle.recover import recover_node, release_strays
from jobexec.operations.values.acquired_job import AcquiredJob, ServedJobs
from tests.support.factories import HANDLER, LEASE_TIME, LOCK_TIME, a_failure, a_run, make_job, make_node, make_row

from .test_foreign_rows import flat
from .test_plans import ANALYZE, ROWS, UUIDS, quoted_column

# ANALYZE TABLE commits on MariaDB, so nothing here could be rolled back.
pytestmark = [pytest.mark.transactional, pytest.mark.databases("postgresql", "mariadb"), pytest.mark.slow]

PAGE = 20
#: Pages of 8 kB, or entries of indexes, that a statement may touch for each row that it is about, and beside them.
FOR_EACH, BESIDE = 15, 40

SCOPE = ServedJobs(categories=("default", "mail"), deployments=("shop:2",))


@pytest.fixture(autouse=True)
def configure(settings: Any) -> Callable[..., None]:
    def change(**keys: Any) -> None:
        settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}, "CATEGORIES": ["default", "mail"], **keys}

    change()
    return change


# What must be passed over.


def multiply(alias: str, table: type[Any], rows: int, **computed: str) -> None:
    """So many rows like the only one that is there, which goes; ``computed`` are SQL, where {n} is the row's number."""
    connection, name = connections[alias], table._meta.db_table
    numbers = {"postgresql": f"generate_series(1, {rows}) AS s(seq)", "mysql": f"seq_1_to_{rows} AS s"}
    fields = [field for field in table._meta.concrete_fields if not (field.primary_key and table is JobLog)]
    keys = {} if table is JobLog else {"id": UUIDS[connection.vendor]}
    values = keys | {column: sql.format(n="s.seq") for column, sql in computed.items()}
    columns = [quoted_column(alias, field) for field in fields]
    taken = [values.get(field.attname, f"t.{column}") for field, column in zip(fields, columns, strict=True)]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {name} ({', '.join(columns)})"
            f" SELECT {', '.join(taken)} FROM {numbers[connection.vendor]} CROSS JOIN {name} AS t",
            None,
        )


def crowd(alias: str, rows: int) -> None:
    """Rows that a hot path must not look at: jobs of other deployments, timers, dead letters, the log."""
    far = (clock.now() + timedelta(days=30)).replace(microsecond=0)
    concat = {"postgresql": "'elsewhere:' || ({n} % 50)", "mysql": "concat('elsewhere:', {n} % 50)"}
    make_row(Job, alias, category="default", rank=-1)
    multiply(alias, Job, rows, deployment_id=concat[connections[alias].vendor])
    Job.objects.using(alias).filter(deployment_id="").delete()
    make_row(TimerJob, alias, due_date=far)
    multiply(alias, TimerJob, rows // 2)
    make_row(DeadLetterJob, alias)
    multiply(alias, DeadLetterJob, rows // 10)
    JobLog.objects.using(alias).create(
        job_id=make_row(Job, alias, category="other").pk, handler_type=HANDLER, timestamp=clock.now(), state="failed"
    )
    multiply(alias, JobLog, rows // 4)
    analyse(alias)


def analyse(alias: str, *tables: type[Any]) -> None:
    with connections[alias].cursor() as cursor:
        for table in tables or (Job, TimerJob, DeadLetterJob, JobLog, ExclusiveLock):
            if connections[alias].vendor == "postgresql":
                cursor.execute(f"VACUUM {table._meta.db_table}")
            cursor.execute(ANALYZE[connections[alias].vendor].format(table._meta.db_table))


def analyse_as_empty(alias: str) -> None:
    """Statistics as they are when all rows are gone and their pages are not: PostgreSQL then takes any number for 1.

    A queue is often analysed so, by the autovacuum after a burst. The rows come back; the number of them that was found
    is not undone.
    """
    for table in (Job, TimerJob, SuspendedJob, DeadLetterJob, HistoryJob, ExternalWorkerJob, JobLog, ExclusiveLock):
        name = table._meta.db_table
        with atomic(using=alias), connections[alias].cursor() as cursor:
            cursor.execute(f"DELETE FROM {name}")
            cursor.execute(f"ANALYZE {name}")
            set_rollback(True, using=alias)
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT reltuples FROM pg_class WHERE relname = %s", [name])
            assert cursor.fetchone() == (0,)


# What is read.


class Reads(list[tuple[int, str]]):
    """What statements have touched, each with its text and plan."""

    @property
    def most(self) -> tuple[int, str]:
        return max(self, default=(0, ""))

    @property
    def total(self) -> int:
        return sum(touched for touched, _ in self)


@contextmanager
def reading(alias: str) -> Iterator[Reads]:
    """Collects what the statements inside touch of jobexec's tables."""
    found, inside = Reads(), False
    measure = {"postgresql": explained, "mysql": counted}[connections[alias].vendor]

    def look(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal inside
        if inside or many or "jobexec_" not in sql or not sql.lstrip().startswith(_PLANNED):
            return execute(sql, params, many, context)
        inside = True
        try:
            return measure(alias, found, sql, params, lambda: execute(sql, params, many, context))
        finally:
            inside = False

    with connections[alias].execute_wrapper(look):
        yield found


_PLANNED = ("SELECT", "UPDATE", "DELETE", "WITH", "INSERT", "SET STATEMENT")


def explained(alias: str, found: Reads, sql: str, params: Any, execute: Callable[[], Any]) -> Any:
    connection = connections[alias]
    begin, undo = ("SAVEPOINT plan", "ROLLBACK TO SAVEPOINT plan") if connection.in_atomic_block else _TRANSACTION
    with connection.connection.cursor() as cursor:
        cursor.execute(begin)
        try:
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", params)
            plan = cursor.fetchone()[0]
        finally:
            cursor.execute(undo)
    root = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    found.append((root["Shared Hit Blocks"] + root["Shared Read Blocks"], f"{sql}\n{shown(root)}"))
    return execute()


_TRANSACTION = ("BEGIN", "ROLLBACK")


def shown(root: dict[str, Any]) -> str:
    names = ("Node Type", "Relation Name", "Index Name", "Actual Rows", "Rows Removed by Filter", "Shared Hit Blocks")
    return "\n".join(str({name: node[name] for name in names if name in node}) for node in flat(root))


def counted(alias: str, found: Reads, sql: str, params: Any, execute: Callable[[], Any]) -> Any:
    before = handler_reads(alias)
    result = execute()
    found.append((handler_reads(alias) - before, sql))
    return result


def handler_reads(alias: str) -> int:
    # A cursor of its own: that of the statement still has to be read.
    with connections[alias].connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler\\_read\\_%'")
        return sum(int(value) for _, value in cursor.fetchall())


# The hot path, and what goes on beside it.


def acquired(alias: str, count: int, portable: bool = False, strategy: str = "auto") -> list[AcquiredJob]:
    cursor = AcquisitionCursor()
    cursor.not_plain = int(portable)
    found = acquire_jobs(alias, "one", PAGE, SCOPE, lock_time=LOCK_TIME, strategy=strategy, cursor=cursor)
    assert len(found.jobs) == count
    return found.jobs


def ours(alias: str, **columns: Any) -> None:
    """A page of jobs that this node takes."""
    for number in range(PAGE):
        make_job(
            alias,
            category=("default", "mail")[number % 2],
            deployment_id=("", "", "shop:2")[number % 3],
            **{name: value.format(number % 4) if isinstance(value, str) else value for name, value in columns.items()},
        )


def hot_path(alias: str, configure: Any) -> dict[str, Reads]:
    """What every statement touches, by what it is sent for."""
    found: dict[str, Reads] = {}

    @contextmanager
    def step(name: str) -> Iterator[None]:
        with reading(alias) as reads:
            yield
        assert reads, f"no statement was seen: {name}"
        found[name] = reads

    def run(jobs: list[AcquiredJob]) -> list[Any]:
        return [(job, a_run(alias)) for job in jobs]

    forms: dict[str, dict[str, Any]] = {
        "one statement": {},
        "portable": {"portable": True},
        "optimistic": {"strategy": "optimistic"},
    }
    for (form, how), level in zip(forms.items(), ("none", "activity", "none"), strict=True):
        configure(HISTORY_LEVEL=level)
        ours(alias)
        with step(f"a page, {form}"):
            jobs = acquired(alias, PAGE, **how)
        with step(f"an empty page, {form}"):
            acquired(alias, 0, **how)
        with step(f"completion, history {level}, after {form}"):
            complete_jobs(alias, run(jobs))
    configure(HISTORY_LEVEL="activity")

    ours(alias, process_instance_id="p{}")
    with step("a page of siblings"):
        jobs = acquired(alias, PAGE, portable=True)
    with step("completion of siblings, half of them"):
        complete_jobs(alias, run(jobs[::2]))
    with step("completion of siblings, the others: instances are free"):
        complete_jobs(alias, run(jobs[1::2]))
    assert not ExclusiveLock.objects.using(alias).exists()

    ours(alias, process_instance_id="q{}")
    jobs = acquired(alias, PAGE, portable=True)
    with step("given back"):
        release_jobs(alias, jobs)
    jobs = acquired(alias, PAGE, portable=True)
    with step("failures"):
        fail_jobs(alias, [(job, a_failure(f"number {n}"), a_run(alias)) for n, job in enumerate(jobs)])
    TimerJob.objects.using(alias).filter(process_instance_id__startswith="q").update(
        due_date=clock.now() - timedelta(seconds=1)
    )
    with step("timers come due"):
        trigger_due_timers(alias, 2 * PAGE)
    assert Job.objects.using(alias).filter(process_instance_id__startswith="q").count() == PAGE
    with step("the next due date"):
        next_due_date(alias)
    complete_jobs(alias, run(acquired(alias, PAGE, portable=True)))

    with step("enqueueing"):
        create_job(alias, handler_type=HANDLER, handler_configuration={})
    node = make_node(alias)
    ask = questions(alias, node.lock_owner, clock.now()) | questions_about_deployments(alias, SCOPE, None)
    with step("a heartbeat"):
        assert renew_lease(alias, node, LEASE_TIME, questions=ask) is not None
    return found


MOST = BESIDE + FOR_EACH * PAGE


def small(found: dict[str, Reads]) -> None:
    for name, reads in found.items():
        touched, told = reads.most
        assert touched <= MOST, f"{name}: {touched}\n{told}"


def report(found: dict[str, Reads]) -> str:
    return "\n".join(f"{reads.most[0]:6} {reads.total:6} {len(reads):3}  {name}" for name, reads in found.items())


def test_every_statement_touches_its_own_rows(alias: str, configure: Any) -> None:
    crowd(alias, 20_000)
    found = hot_path(alias, configure)
    print(report(found))
    small(found)


@pytest.mark.databases("postgresql")
def test_every_statement_touches_its_own_rows_in_tables_that_were_empty_when_last_analysed(
    alias: str, configure: Any
) -> None:
    crowd(alias, 60_000)
    analyse_as_empty(alias)
    found = hot_path(alias, configure)
    print(report(found))
    # These want the first of all timers. Sorting all pages of one row seems as cheap as the first entry of an index.
    timers = [found.pop("the next due date"), found.pop("a heartbeat")]
    assert all("jobexec_timerjob" in reads.most[1] for reads in timers)
    small(found)


@pytest.mark.parametrize("portable", [False, True])
def test_siblings_of_a_locked_instance_are_passed_over_once_in_a_walk(alias: str, portable: bool) -> None:
    make_row(Job, alias, rank=-1, process_instance_id="p", exclusive=True)
    multiply(alias, Job, 20_000)
    ExclusiveLock.objects.using(alias).create(process_instance_id="p", lock_owner="two", acquisition=uuid4())
    for number in range(4 * PAGE):
        make_row(Job, alias, rank=number)
    analyse(alias)
    cursor, pages, got = AcquisitionCursor(), [], []
    for number in range(3):
        cursor.not_plain = int(portable)
        if number:  # the head was dear enough for many pages behind it, however fast this machine is
            cursor._head_at = clock.monotonic()
        with reading(alias) as reads:
            got += acquire_jobs(alias, "one", PAGE, SCOPE, lock_time=LOCK_TIME, cursor=cursor).jobs
        pages.append(reads.most)
    assert [job.rank for job in got] == list(range(3 * PAGE))
    (head, _), *behind = pages
    assert head > 2 * MOST
    for touched, told in behind:
        assert touched <= MOST, told


def test_a_recovery_reads_all_jobs_a_few_times_and_not_for_each_of_them(alias: str) -> None:
    crowd(alias, 20_000)
    node = make_node(alias)
    ours(alias, process_instance_id="p{}")
    acquire_jobs(alias, node.lock_owner, PAGE, SCOPE, lock_time=LOCK_TIME)
    with reading(alias) as strays:
        assert release_strays(alias, node.lock_owner, list) == PAGE
    acquire_jobs(alias, node.lock_owner, PAGE, SCOPE, lock_time=LOCK_TIME)
    with reading(alias) as recovery:
        assert recover_node(alias, node) == PAGE
    # The look at all locked rows; small tables MariaDB may read as a whole again to lock them.
    assert sum(touched > MOST for touched, _ in strays) <= 2, [touched for touched, _ in strays]
    assert sum(touched > MOST for touched, _ in recovery) <= 3, [touched for touched, _ in recovery]


@pytest.mark.parametrize("at_home", [True, False])
def test_permits_go_to_the_first_of_many_blocked_jobs(alias: str, configure: Any, at_home: bool) -> None:
    configure(RESOURCES={"pay.example": {"limit": PAGE}})
    make_row(BlockedJob, alias, resource="pay.example", rank=0)
    multiply(alias, BlockedJob, 20_000, rank="{n}")
    analyse(alias, BlockedJob)
    home = AHome() if at_home else None
    with reading(alias) as reads:
        assert promote(alias, ["pay.example"], PAGE, ["pay.example"], home).moved == PAGE
    touched, told = reads.most
    assert touched <= MOST, told
    assert sorted(Job.objects.using(alias).values_list("rank", flat=True)) == list(range(PAGE))


class AHome:
    """A node that takes every job."""

    lock = MappingProxyType({"lock_owner": "one", "lock_expiration_time": datetime(2050, 1, 1, tzinfo=UTC)})
    wide = False

    def room(self) -> int:
        return PAGE

    def takes(self, job: AcquiredJob, deployment: str) -> bool:
        return True


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_same_in_a_crowd(alias: str, configure: Any) -> None:
    crowd(alias, ROWS)
    found = hot_path(alias, configure)
    print(report(found))
    small(found)
