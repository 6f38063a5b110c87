"""What a type checker says of calls of ``enqueue`` and of options. Read by mypy with all else, and never run.

A wrong call is marked with the error that it has; without it the mark itself is one.
"""

# mypy: warn-unused-ignores

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TypeAlias, assert_type
from uuid import UUID

from jobexec import JobContext, external_job, external_jobs, job
from jobexec.models import BlockedJob, DeadLetterJob, Job, SuspendedJob, TimerJob

Row: TypeAlias = Job | TimerJob | BlockedJob | SuspendedJob | DeadLetterJob


@job
def plain(number: int, text: str = "") -> str:
    return text * number


@job(unique=True, unique_while="waiting", unique_for=timedelta(days=1), on_conflict="replace", transaction="shop")
def with_options(context: JobContext, number: int, *, flag: bool = False) -> None: ...


@job(unique=lambda number: f"number {number}")
async def waits(number: int) -> None: ...


@job(unique_while="running")  # type: ignore[call-overload]
def wrong_choice() -> None: ...


@job(unique=5)  # type: ignore[call-overload]
def wrong_key() -> None: ...


assert_type(plain.enqueue(1), Row)
assert_type(plain.enqueue(1).is_duplicate, bool)
assert_type(plain.using(unique="key", on_conflict="raise").enqueue(1, text="a"), Row)
plain.enqueue("1")  # type: ignore[arg-type]
plain.using(unique=True).enqueue()  # type: ignore[call-arg]
plain.using(on_conflict="explode")  # type: ignore[arg-type]
plain.using(unique_for=["a day"])  # type: ignore[arg-type]

assert_type(with_options.enqueue(1, flag=True), Row)
with_options.enqueue(1, True)  # type: ignore[call-arg]
with_options.enqueue("1")  # type: ignore[arg-type]
assert_type(waits.enqueue(1), Row)

assert_type(plain.enqueue_on_commit(1, text="a"), UUID)
assert_type(waits.using(transaction="shop", database="jobs").enqueue_on_commit(1), UUID)
plain.enqueue_on_commit("1")  # type: ignore[arg-type]
with_options.enqueue_on_commit()  # type: ignore[call-arg]


def calls() -> Iterator[tuple[int]]:
    yield (1,)


assert_type(plain.enqueue_many([(1,), (2, "b"), [3], {"number": 4}]), Sequence[Row])
assert_type(plain.enqueue_many(calls()), Sequence[Row])
assert_type(plain.enqueue_many({"number": number} for number in range(3))[0], Row)
assert_type(plain.enqueue_many(calls())[1:], Sequence[Row])
plain.enqueue_many([1])  # type: ignore[list-item]
plain.enqueue_many(5)  # type: ignore[arg-type]


async def caller() -> None:
    assert_type(await plain.aenqueue(1), Row)
    assert_type(await waits.aenqueue(number=1), Row)
    await with_options.aenqueue("1")  # type: ignore[arg-type]


@job(keep_result=timedelta(days=1))
def keeps() -> dict[str, int]:
    return {"sum": 5}


assert_type(keeps.get_result("id").return_value, dict[str, int])


@job(keep_result=[])  # type: ignore[call-overload]
def wrong_time_to_keep() -> None: ...


external_job("pay", database="shop", retries=5)
external_job("pay", retries="PT1M,PT10M", delay="PT5M")
external_jobs("pay", [{}], retries=[timedelta(minutes=1)])
external_job("pay", using="shop")  # type: ignore[call-arg]
external_job("pay", retries=lambda failures, error: 5)  # type: ignore[arg-type]
