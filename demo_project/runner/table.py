"""The table at the end of `manage.py demo --once`, from the JSON of `manage.py demo_status --accounts`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

HEADERS = ("job", "done", "waiting", "dead letter", "attempts", "retries", "mean s", "longest s")
SHOWN = 15


def report(accounts: dict[str, Any], flights: dict[str, Any], seconds: float) -> Iterator[str]:
    """The lines of the whole report."""
    handlers = [HEADERS, *map(_handler, accounts["handlers"]), _sum(accounts["handlers"])]
    yield from _table(handlers, summed=len(handlers) - 1)
    yield ""
    yield from _table(_processes(accounts["processes"]))
    yield ""
    yield from _dead_letters(accounts["dead_letters"])
    yield from _summary(accounts, flights, seconds)
    for problem in accounts["problems"]:
        yield f"PROBLEM: {problem}"


def _processes(rows: Sequence[dict[str, Any]]) -> list[Sequence[str]]:
    lines = [
        (
            row["process"],
            str(row["instances"]),
            ", ".join(f"{count} {element}" for element, count in row["ended"].items()) or "-",
            str(row["waiting"]),
            str(row["incidents"]),
        )
        for row in rows
    ]
    return [("process", "started", "ended", "waiting", "incidents"), *lines]


def _handler(row: dict[str, Any]) -> tuple[str, ...]:
    times = [f"{row[key]:.3f}" if row.get(key) is not None else "-" for key in ("mean", "longest")]
    return (row["handler"], *map(str, _numbers(row)), *times)


def _numbers(row: dict[str, Any]) -> tuple[int, ...]:
    jobs_tried = row["done"] + row["dead"]
    return row["done"], row["waiting"], row["dead"], row["attempts"], row["attempts"] - jobs_tried


def _sum(rows: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    return ("all", *(str(sum(column)) for column in zip(*map(_numbers, rows), strict=True)), "", "")


def _table(rows: Sequence[Sequence[str]], summed: int | None = None) -> Iterator[str]:
    """``summed`` is the number of a row below a rule, of sums."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    for number, row in enumerate(rows):
        if number in (1, summed):
            yield rule
        first, *others = (
            cell.ljust(width) if not i else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *others]).rstrip()


def _dead_letters(letters: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not letters:
        return
    yield "Dead letters (the flight service fails one time in three; after three attempts an operator must look):"
    for letter in letters[:SHOWN]:
        yield f"  {letter['of']}: {letter['handler']}, {letter['attempts']} attempts. {letter['message']}"[:118]
    if len(letters) > SHOWN:
        yield f"  and {len(letters) - SHOWN} more"
    yield ""


def _summary(accounts: dict[str, Any], flights: dict[str, Any], seconds: float) -> Iterator[str]:
    totals, calls = accounts["totals"], flights["calls"]
    failed = calls - sum(flights["fates"].get(fate, 0) for fate in ("fine", "slow"))
    yield (
        f"{totals['bookings']} bookings: {totals['confirmed']} confirmed, {totals['attention']} with a dead letter, "
        f"{len(accounts['problems'])} problems. {accounts['tickets']} tickets, each once. "
        f"{totals['reminders']} payment reminders wait for the money, or for their day."
    )
    yield f"The flight service was called {calls} times and failed {failed} times."
    yield f"{seconds:.1f} s for {totals['attempts']} attempts ({totals['attempts'] / seconds:.0f} a second)."
