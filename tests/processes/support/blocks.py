"""Random block-structured models, and what must have run at their end.

A block has one way in and one way out: a task, a sequence, branches between two gateways, a sub-process, a
multi-instance. ``runs`` says how often each element must have been completed, by the structure alone.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import strategies as st

TASKS = ("user", "service x", "outside x", "external x", "receive", "task")
JOBS = ("", "async", "after", "async after")
LOOPS = (
    "",
    "",
    "",
    "loop=2",
    "loop=3 seq",
    "loop=2 inner-async",
    "loop=2 seq inner-after",
    "loop=0",
    "loop=3 seq until=yes",
)


@dataclass
class Text:
    """The model as it grows: its flows and its elements."""

    lines: list[str] = field(default_factory=list)
    numbers: itertools.count = field(default_factory=itertools.count)
    called: dict[str, Text] = field(default_factory=dict)
    """Processes that are called, by their keys."""

    def id(self, letter: str) -> str:
        return f"{letter}{next(self.numbers)}"

    def add(self, scope: str | None, line: str) -> None:
        self.lines.append(f"{scope}: {line}" if scope else line)


@dataclass(frozen=True)
class Task:
    kind: str
    jobs: str
    loop: str
    boundary: str = ""

    def write(self, text: Text, scope: str | None) -> tuple[str, str, Counter[str]]:
        id = text.id("t")
        text.lines.append(f"{id} = {self.kind} {self.jobs} {self.loop}")
        runs = Counter({id: times(self.loop)})
        return id, with_boundary(text, scope, id, self.boundary), runs


@dataclass(frozen=True)
class Sequence:
    parts: tuple

    def write(self, text: Text, scope: str | None) -> tuple[str, str, Counter[str]]:
        written = [part.write(text, scope) for part in self.parts]
        for (_, last, _), (first, _, _) in itertools.pairwise(written):
            text.add(scope, f"{last} -> {first}")
        return written[0][0], written[-1][1], sum((runs for _, _, runs in written), Counter())


@dataclass(frozen=True)
class Branches:
    """Mark + takes all, * those that are open, ? the first that is open; the last is the default."""

    mark: str
    parts: tuple
    opens: tuple

    def write(self, text: Text, scope: str | None) -> tuple[str, str, Counter[str]]:
        split, join = text.id("g"), text.id("g")
        runs: Counter[str] = Counter()
        taken = self.taken()
        for number, part in enumerate(self.parts):
            first, last, inner = part.write(text, scope)
            text.add(scope, f"{split}{self.mark} {self.arrow(number)} {first}")
            text.add(scope, f"{last} -> {join}{self.mark}")
            if number in taken:
                runs += inner
        return split, join, runs

    def arrow(self, number: int) -> str:
        if self.mark == "+":
            return "->"
        if number == len(self.parts) - 1:
            return "-[else]->"
        return f"-[{'yes' if self.opens[number] else 'no'}]->"

    def taken(self) -> list[int]:
        if self.mark == "+":
            return list(range(len(self.parts)))
        found = [number for number in range(len(self.parts) - 1) if self.opens[number]]
        if self.mark == "?":
            found = found[:1]
        return found or [len(self.parts) - 1]


@dataclass(frozen=True)
class Scope:
    inside: object
    jobs: str
    loop: str
    boundary: str = ""
    event: str = ""

    def write(self, text: Text, scope: str | None) -> tuple[str, str, Counter[str]]:
        id, start, end = text.id("p"), text.id("start"), text.id("end")
        text.add(scope, id)
        text.lines.append(f"{id} = sub {self.jobs} {self.loop}")
        first, last, runs = self.inside.write(text, id)
        text.add(id, f"{start} -> {first}")
        text.add(id, f"{last} -> {end}")
        self.write_events(text, id, scope)
        number = times(self.loop)
        last = with_boundary(text, scope, id, self.boundary)
        return id, last, Counter({id: number, **{key: count * number for key, count in runs.items()}})

    def write_events(self, text: Text, id: str, scope: str | None) -> None:
        if self.event:
            sub, start, task, end = text.id("p"), text.id("start"), text.id("t"), text.id("end")
            text.lines += [f"{sub} = eventsub", f"{start} = start {self.event}"]
            text.add(id, sub)
            text.add(sub, f"{start} -> {task} -> {end}")


@dataclass(frozen=True)
class Called:
    """A call of a process of its own."""

    inside: object
    jobs: str
    loop: str
    boundary: str = ""

    def write(self, text: Text, scope: str | None) -> tuple[str, str, Counter[str]]:
        id, key = text.id("p"), text.id("q")
        child = text.called[key] = Text(numbers=text.numbers, called=text.called)
        first, last, runs = self.inside.write(child, None)
        child.lines += [f"{child.id('start')} -> {first}", f"{last} -> {child.id('end')}"]
        text.lines.append(f"{id} = call {key} in:= {self.jobs} {self.loop}")
        number = times(self.loop)
        last = with_boundary(text, scope, id, self.boundary)
        return id, last, Counter({id: number, **{key: count * number for key, count in runs.items()}})


def with_boundary(text: Text, scope: str | None, id: str, boundary: str) -> str:
    """Where the block ends: a branch that interrupts comes back to it, one beside it ends for itself."""
    if not boundary:
        return id
    late, side, end = text.id("b"), text.id("t"), text.id("g")
    text.lines += [f"{late} = boundary {id} {boundary}", f"{side} = user"]
    if "keep" in boundary:
        text.add(scope, f"{late} -> {side} -> {text.id('end')}")
        return id
    text.add(scope, f"{id}, {side} -> {end}?")
    text.add(scope, f"{late} -> {side}")
    return end


def times(loop: str) -> int:
    if "until" in loop:
        return 1
    found = [int(word[5:]) for word in loop.split() if word.startswith("loop=")]
    return found[0] if found else 1


def blocks(boundaries: tuple[str, ...] = ("",), events: tuple[str, ...] = ("",)) -> st.SearchStrategy:
    jobs, loops, edges = st.sampled_from(JOBS), st.sampled_from(LOOPS), st.sampled_from(boundaries)
    tasks = st.builds(Task, st.sampled_from(TASKS), jobs, loops, edges)

    def larger(inner: st.SearchStrategy) -> st.SearchStrategy:
        parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
        opens = st.tuples(st.booleans(), st.booleans(), st.booleans())
        return st.one_of(
            st.builds(Sequence, parts),
            st.builds(Branches, st.sampled_from("+*?"), parts, opens),
            st.builds(Scope, inner, jobs, loops, edges, st.sampled_from(events)),
            st.builds(Called, inner, jobs, loops, edges),
        )

    return st.recursive(tasks, larger, max_leaves=6)


def written(block: object) -> tuple[dict[str, str], Counter[str]]:
    """The notation of the models, the one that is started first, and how often their elements run."""
    text = Text()
    first, last, runs = block.write(text, None)
    text.lines.append(f"start -> {first}")
    text.lines.append(f"{last} -> end")
    texts = {"process": text, **text.called}
    return {key: "\n".join(found.lines) for key, found in texts.items()}, runs
