"""A compact notation for models of tests.

::

    start -> fork+ -> a, b -> join+ -> end      flows; a comma is "each of these"
    dec? -[n > 1]-> a                           a condition; -[else]-> is the default
    sub: s -> a -> e                            what is directly in the sub-process `sub`
    b = service charge -> amount                what an element is; the default is a user task

Marks after an id: + parallel, ? exclusive, * inclusive, ~ event-based gateway. Ids that begin with `start` or are `s`
are start events, those that begin with `end` or are `e` end events. `#` begins a comment.

Options of an element, besides those of its kind: async, after, nonexclusive, keep (not interrupting), loop=3,
over=list, item=x, seq, until=condition, results=list, result=expression, inner-async, inner-after, batch, in:x=value,
out:x=value, get:x.y=value and put:x.y=value (by Zeebe's rules), undo=id, compensation, on:start=listener. A value that
begins with $ is an expression.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections import Counter
from typing import Any

from jobexec.processes.definition import (
    Call,
    Event,
    Expression,
    Flow,
    Form,
    JobOptions,
    Kind,
    Listener,
    Loop,
    Mapping,
    Mode,
    Node,
    Process,
    TimerKind,
    Trigger,
    When,
    Work,
    validate,
)

MARKS = {
    "+": Kind.PARALLEL_GATEWAY,
    "?": Kind.EXCLUSIVE_GATEWAY,
    "*": Kind.INCLUSIVE_GATEWAY,
    "~": Kind.EVENT_BASED_GATEWAY,
}
ARROW = re.compile(r"\s*-(?:\[([^\]]*)\]-)?>\s*")
TIMERS = {"date": TimerKind.DATE, "in": TimerKind.DURATION, "every": TimerKind.CYCLE}


def expression(text: str) -> Expression:
    return Expression("${" + text + "}")


def value(text: str) -> Any:
    return expression(text[1:]) if text.startswith("$") else int(text) if text.isdigit() else text


def model(text: str, key: str = "process", check: bool = True, **attributes: Any) -> Process:
    """The process that a text describes."""
    return Reader(key).read(text, check, **attributes)


class Reader:
    def __init__(self, key: str) -> None:
        self.key = key
        self.kinds: dict[str, Kind] = {}
        self.parents: dict[str, str | None] = {}
        self.specs: dict[str, list[str]] = {}
        self.flows: list[Flow] = []
        self.counts: Counter[tuple[str, str]] = Counter()
        self.defaults: dict[str, str] = {}
        self.lines: dict[str, int] = {}

    def read(self, text: str, check: bool, **attributes: Any) -> Process:
        for number, line in enumerate(text.splitlines(), 1):
            line = line.split("#")[0].strip()
            if re.match(r"^\w+ = ", line):
                id, _, spec = line.partition(" = ")
                self.specs[id] = shlex.split(spec)
                self.lines.setdefault(id, number)
                self.parents.setdefault(id, None)
            elif line:
                self.read_flows(line, number)
        process = Process(self.key, tuple(map(self.node, self.parents)), tuple(self.flows), **attributes)
        if check:
            validate(process)
        return process

    def read_flows(self, line: str, number: int) -> None:
        parent = None
        if found := re.match(r"^(\w+): (.*)$", line):
            parent, line = found.groups()
            if self.kinds.get(parent) is None:
                self.kinds[parent] = Kind.SUB_PROCESS
            self.parents.setdefault(parent, None)
        parts = ARROW.split(line)
        groups = [[self.id(text, parent, number) for text in part.split(",")] for part in parts[::2]]
        for sources, condition, targets in zip(groups, parts[1::2], groups[1:], strict=False):
            for source in sources:
                for target in targets:
                    self.add_flow(source, target, condition, number)

    def id(self, text: str, parent: str | None, number: int) -> str:
        text = text.strip()
        if text[-1] in MARKS:
            text, mark = text[:-1], text[-1]
            self.kinds[text] = MARKS[mark]
        if self.parents.get(text) is None:
            self.parents[text] = parent
        self.lines.setdefault(text, number)
        return text

    def add_flow(self, source: str, target: str, condition: str | None, number: int) -> None:
        self.counts[source, target] += 1
        same = self.counts[source, target]
        id = f"{source}>{target}" + (f"#{same}" if same > 1 else "")
        if condition == "else":
            self.defaults[source] = id
        found = expression(condition) if condition not in (None, "else") else None
        self.flows.append(Flow(id, source, target, condition=found, line=number))

    def node(self, id: str) -> Node:
        node = Node(
            id,
            self.kinds.get(id) or self.kind_by_name(id),
            parent=self.parents[id],
            default=self.defaults.get(id),
            line=self.lines.get(id),
        )
        spec = self.specs.get(id)
        if spec:
            words = [word for word in spec if not OPTION.match(word)]
            node = KINDS[words[0]](node, words[1:])
            for word in spec:
                if OPTION.match(word):
                    node = with_option(node, word)
        if node.attached_to and node.parent is None:
            node = dataclasses.replace(node, parent=self.parents[node.attached_to])
        return node

    def kind_by_name(self, id: str) -> Kind:
        if id.startswith("start") or id == "s":
            return Kind.START_EVENT
        if id.startswith("end") or id == "e":
            return Kind.END_EVENT
        return Kind.USER_TASK


FLAGS = "async|after|nonexclusive|keep|seq|inner-async|inner-after|batch|compensation"
NAMES = (
    r"loop|first|over|item|until|results|result|own|undo|in:\w*|out:\w*|local:\w*|stay:\w*|pass:\w*|[gp][eu]t:[\w.]+|on:\w+"
    "|priority|retries|plan|codevar|textvar|key|batch"
)
OPTION = re.compile(rf"^(?:(?:{FLAGS})$|(?:{NAMES})=)")


def with_option(node: Node, word: str) -> Node:
    name, _, text = word.partition("=")
    if name.startswith(("in:", "out:", "local:", "stay:", "pass:", "get:", "put:")):
        return with_mapping(node, name, text)
    if name.startswith("on:"):
        listener = Listener(When(name[3:]), handler=text)
        return dataclasses.replace(node, listeners=(*node.listeners, listener))
    changed: Node = OPTIONS[name](node, text)
    return changed


def with_mapping(node: Node, name: str, text: str) -> Node:
    side, _, target = name.partition(":")
    if side == "get":
        return dataclasses.replace(node, inputs=(*node.inputs, Mapping(target, value(text), zeebe=True)))
    if side == "put":
        return dataclasses.replace(node, outputs=(*node.outputs, Mapping(target, value(text), zeebe=True)))
    mapping = Mapping(target or None, value(text) if target else None, side in ("local", "stay"), side == "pass")
    field = "inputs" if side in ("in", "local") else "outputs"
    owner = node.call or node.event if node.kind is not Kind.USER_TASK else None
    if node.call is not None:
        called: dict[str, Any] = {field: (*getattr(node.call, field), mapping)}
        call = dataclasses.replace(node.call, **called)
        return dataclasses.replace(node, call=call)
    if isinstance(owner, Event) and node.kind in (Kind.THROW_EVENT, Kind.END_EVENT):
        return dataclasses.replace(node, event=dataclasses.replace(owner, inputs=(*owner.inputs, mapping)))
    changes: dict[str, Any] = {field: (*getattr(node, field), mapping)}
    return dataclasses.replace(node, **changes)


def jobs(**changes: Any) -> Any:
    return lambda node, text: dataclasses.replace(node, jobs=dataclasses.replace(node.jobs, **changes))


def job_value(name: str) -> Any:
    return lambda node, text: dataclasses.replace(node, jobs=dataclasses.replace(node.jobs, **{name: value(text)}))


def loop(change: Any) -> Any:
    return lambda node, text: dataclasses.replace(node, loop=dataclasses.replace(node.loop or Loop(), **change(text)))


def event(name: str) -> Any:
    return lambda node, text: dataclasses.replace(node, event=dataclasses.replace(node.event, **{name: text}))


OPTIONS: dict[str, Any] = {
    "async": jobs(before=True),
    "after": jobs(after=True),
    "nonexclusive": jobs(exclusive=False),
    "priority": job_value("priority"),
    "retries": job_value("retries"),
    "plan": job_value("retry_plan"),
    "keep": lambda node, text: dataclasses.replace(node, interrupting=False),
    "compensation": lambda node, text: dataclasses.replace(node, for_compensation=True),
    "undo": lambda node, text: dataclasses.replace(node, compensated_by=text),
    "loop": loop(lambda text: {"cardinality": value(text)}),
    "over": loop(lambda text: {"collection": expression(text)}),
    "item": loop(lambda text: {"item": text}),
    "seq": loop(lambda text: {"sequential": True}),
    "batch": loop(lambda text: {"batch": int(text or 0)}),
    "first": loop(lambda text: {"first": int(text)}),
    "until": loop(lambda text: {"completion": expression(text)}),
    "result": loop(lambda text: {"result": expression(text)}),
    "own": loop(lambda text: {"result_name": text}),
    "results": loop(lambda text: {"results": text}),
    "inner-async": loop(lambda text: {"jobs": JobOptions(before=True)}),
    "inner-after": loop(lambda text: {"jobs": JobOptions(after=True)}),
    "codevar": event("code_variable"),
    "textvar": event("text_variable"),
    "key": lambda node, text: dataclasses.replace(node, event=dataclasses.replace(node.event, key=value(text))),
}


def event_of(words: list[str]) -> Event | None:
    """``timer in PT1H``, ``message paid``, ``error E1``, ``terminate`` …"""
    if not words:
        return None
    trigger, rest = Trigger(words[0]), words[1:]
    if trigger is Trigger.TIMER:
        return Event(trigger, timer=TIMERS[rest[0]], when=value(rest[1]))
    if trigger in (Trigger.ERROR, Trigger.ESCALATION):
        return Event(trigger, code=value(rest[0]) if rest else None)
    if trigger is Trigger.COMPENSATION:
        return Event(trigger, activity=rest[0] if rest else None)
    return Event(trigger, name=value(rest[0]) if rest else None)


def kind_with(kind: Kind) -> Any:
    return lambda node, words: dataclasses.replace(node, kind=kind)


def events_of(kind: Kind) -> Any:
    def build(node: Node, words: list[str]) -> Node:
        work = None
        if words and words[0] == "message" and kind in (Kind.THROW_EVENT, Kind.END_EVENT):
            work = Work(handler="send") if len(words) < 3 else Work(mode=Mode.EXTERNAL, topic=words[2])
        return dataclasses.replace(node, kind=kind, event=event_of(words), work=work)

    return build


def boundary(node: Node, words: list[str]) -> Node:
    return dataclasses.replace(node, kind=Kind.BOUNDARY_EVENT, attached_to=words[0], event=event_of(words[1:]))


def work(kind: Kind, mode: Mode) -> Any:
    def build(node: Node, words: list[str]) -> Node:
        result = words[words.index("->") + 1] if "->" in words else None
        name = words[0]
        if mode is Mode.EXTERNAL:
            found = Work(mode=mode, topic=value(name), result_variable=result)
        elif name.startswith("$"):
            found = Work(expression=value(name), result_variable=result)
        else:
            found = Work(handler=name, mode=mode, result_variable=result)
        return dataclasses.replace(node, kind=kind, work=found)

    return build


def user(node: Node, words: list[str]) -> Node:
    form = Form(assignee=value(words[0])) if words else None
    return dataclasses.replace(node, kind=Kind.USER_TASK, form=form)


def receive(node: Node, words: list[str]) -> Node:
    found = Event(Trigger.MESSAGE, name=value(words[0])) if words else None
    return dataclasses.replace(node, kind=Kind.RECEIVE_TASK, event=found)


KINDS: dict[str, Any] = {
    "task": kind_with(Kind.TASK),
    "manual": kind_with(Kind.MANUAL_TASK),
    "user": user,
    "receive": receive,
    "service": work(Kind.SERVICE_TASK, Mode.STEP),
    "outside": work(Kind.SERVICE_TASK, Mode.OUTSIDE),
    "external": work(Kind.SERVICE_TASK, Mode.EXTERNAL),
    "send": work(Kind.SEND_TASK, Mode.STEP),
    "script": work(Kind.SCRIPT_TASK, Mode.STEP),
    "rule": work(Kind.BUSINESS_RULE_TASK, Mode.STEP),
    "call": lambda node, words: dataclasses.replace(node, kind=Kind.CALL_ACTIVITY, call=Call(value(words[0]))),
    "sub": kind_with(Kind.SUB_PROCESS),
    "eventsub": lambda node, words: dataclasses.replace(node, kind=Kind.SUB_PROCESS, by_event=True),
    "gateway": lambda node, words: node,
    "start": events_of(Kind.START_EVENT),
    "end": events_of(Kind.END_EVENT),
    "catch": events_of(Kind.CATCH_EVENT),
    "throw": events_of(Kind.THROW_EVENT),
    "boundary": boundary,
}
