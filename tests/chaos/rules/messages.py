"""What must hold of messages: they reach all who wait for them in time, and one with a known id reaches nobody."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations

from tests.chaos.history import History, Job, Problem, Run
from tests.chaos.journal import Line
from tests.chaos.lives import ENDLESS

#: Between a line, the transaction that it is about, and the clock of the server.
_CLOCK = 0.5


@dataclass
class _Message:
    """One publication. `after` is None if nobody told that it was committed: it may be."""

    before: Line
    after: Line | None = None
    rolled_back: bool = False

    @property
    def text(self) -> str:
        return str(self.before["text"])

    @property
    def is_duplicate(self) -> bool:
        return self.after is not None and bool(self.after["duplicate"])

    @property
    def is_there(self) -> bool:
        """Whether it is known to be published."""
        return self.after is not None and not self.is_duplicate

    def kept_until(self) -> float:
        """It is kept at least until then."""
        return float(self.before["t"]) + float(self.before["ttl"]) - _CLOCK

    def ends_at(self) -> float:
        """When it was known to be committed."""
        return ENDLESS if self.after is None else float(self.after["t"])

    def ends_before(self, other: "_Message") -> bool:
        return self.ends_at() < float(other.before["t"])

    def lines(self) -> tuple[Line, ...]:
        return (self.before,) if self.after is None else (self.before, self.after)


@dataclass
class _News:
    by_text: dict[str, _Message] = field(default_factory=dict)

    @classmethod
    def of(cls, history: History) -> "_News":
        found = cls({line["text"]: _Message(line) for line in history.of("publishing")})
        for line in history.of("published"):
            found.by_text[line["text"]].after = line
        for line in history.of("unpublished"):
            found.by_text[line["text"]].rolled_back = True
        return found

    def of_key(self, key: str) -> list[_Message]:
        return [message for message in self.by_text.values() if message.before["key"] == key]


def messages_reach_who_waits(history: History) -> Iterator[Problem]:
    """A job goes on with a message that was published for its key, always the same; without one only when its wait is
    over, and if none was published in time."""
    news = _News.of(history)
    for job in history.jobs.values():
        if job.waits is None:
            continue
        runs = [run for run in job.runs if run.end is not None]
        for run in runs:
            text = _wrong(news, job, run) if run.message is not None else _missed(news, job, run)
            if text:
                yield Problem("messages", text, job, tuple(job.lines))
                break
        told = {run.message for run in runs}
        if len(told) > 1 and not job.was_asked("requeue"):
            yield Problem("messages", f"was told different things: {told}", job, tuple(job.lines))


def _wrong(news: _News, job: Job, run: Run) -> str:
    """What is wrong with the message of a run."""
    message = news.by_text.get(run.message or "")
    if message is None or message.before["t"] > run.begin:
        return f"was told {run.message}, which nobody had published"
    if message.rolled_back or message.is_duplicate:
        return f"was told {run.message}, which was rolled back, or was known by its id"
    assert job.waits is not None
    return "" if message.before["key"] == job.waits[0] else f"was told what is for {message.before['key']}"


def _missed(news: _News, job: Job, run: Run) -> str:
    """What is wrong with a run without a message. Who was meddled with may have waited from another time on."""
    assert job.waits is not None
    key, seconds = job.waits
    until = job.creating["t"] + seconds - _CLOCK
    if job.asked or job.created is None:
        return ""
    if run.begin < until:
        return f"went on {until - run.begin + _CLOCK:.3f} s before its wait was over"
    for message in news.of_key(key):
        if not message.is_there or message.ends_at() > until:
            continue
        if job.created < message.before["t"] or job.created < message.kept_until():
            return f"went on without {message.text}, which was published in time: {message.lines()}"
    return ""


def ids_are_known_while_kept(history: History) -> Iterator[Problem]:
    """While a message is kept another one with its id is a duplicate, and without one none is."""
    groups: dict[tuple[str, str], list[_Message]] = {}
    for message in _News.of(history).by_text.values():
        if message.before["id"]:
            groups.setdefault((message.before["key"], message.before["id"]), []).append(message)
    for (key, id), messages in groups.items():
        for first, second in permutations([message for message in messages if message.is_there], 2):
            if first.ends_before(second) and second.ends_at() < first.kept_until():
                text = f"{id} of {key} was published again while it was kept"
                yield Problem("message ids", text, None, (*first.lines(), *second.lines()))
        holders = [message for message in messages if _may_hold(message)]
        for message in messages:
            if message.is_duplicate and not any(other.before["t"] < message.ends_at() for other in holders):
                yield Problem("message ids", f"{id} of {key} was a duplicate of none", None, message.lines())


def _may_hold(message: _Message) -> bool:
    return not (message.rolled_back or message.is_duplicate)
