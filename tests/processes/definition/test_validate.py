"""The rules of definitions: each with a model that breaks it, and one beside it that does not."""

import dataclasses
import textwrap
from typing import Any

import pytest

from jobexec.processes.definition import (
    Binding,
    Call,
    Event,
    Expression,
    InvalidProcess,
    Listener,
    Mode,
    Problem,
    Process,
    Trigger,
    When,
    Work,
    problems_of,
    validate,
)
from tests.processes.support.notation import model

CASES = {
    "a flow crosses a border": (
        "start -> sub -> end\nsub: s -> a -> e\na -> end",
        "a>end: It crosses the boundary of a sub-process.",
    ),
    "a flow to a start event": (
        "start -> a -> start2\nstart2 = start message m\nstart2 -> end",
        "a>start2: No flow can lead to 'start2', which is a start event.",
    ),
    "a flow out of an end event": (
        "start -> end -> a",
        "end>a: No flow can leave 'end', which is an end event.",
    ),
    "a flow to a boundary event": (
        "start -> a -> late\nlate = boundary a timer in PT1H",
        "a>late: No flow can lead to 'late', which is a boundary event.",
    ),
    "a flow to an event sub-process": (
        "start -> h\nh = eventsub\nh: hs -> e\nhs = start message m",
        "start>h: No flow can lead to 'h', which is an event sub-process.",
    ),
    "a flow out of an event sub-process": (
        "start -> a\nh = eventsub\nh: hs -> e\nhs = start message m\nh -> a",
        "h>a: No flow can leave 'h', which is an event sub-process.",
    ),
    "a flow to a compensation": (
        "start -> a -> b\na = task undo=b\nb = task compensation",
        "a>b: No flow can lead to 'b', which is for compensation.",
    ),
    "a flow out of a throwing link": (
        "start -> j -> end\nj = throw link L\nl = catch link L\nl -> end",
        "j>end: No flow can leave 'j', which is a throwing link event.",
    ),
    "a flow to a catching link": (
        "start -> l -> end\nl = catch link L",
        "start>l: No flow can lead to 'l', which is a catching link event.",
    ),
    "nothing leads to a node": ("start -> end\na -> end", "a: No flow leads to it."),
    "a condition behind a parallel gateway": (
        "start -> f+\nf -[x]-> a\nf -> b",
        "f>a: A flow out of the parallelGateway 'f' cannot have a condition.",
    ),
    "a condition behind a start event": (
        "start -[x]-> a",
        "start>a: A flow out of the startEvent 'start' cannot have a condition.",
    ),
    "a condition behind an intermediate event": (
        "start -> m -[x]-> a\nm = catch message m",
        "m>a: A flow out of the intermediateCatchEvent 'm' cannot have a condition.",
    ),
    "an exclusive gateway that leads nowhere": (
        "start -> x?",
        "x: An exclusive gateway needs a flow that leaves it.",
    ),
    "two bare flows of an exclusive gateway": (
        "start -> x? -> a\nx -> b\nx -[n]-> c",
        "x>a: It has no condition and is not the default of 'x'.; "
        "x>b: It has no condition and is not the default of 'x'.",
    ),
    "a bare flow beside a default": (
        "start -> x? -> a\nx -[else]-> b",
        "x>a: It has no condition and is not the default of 'x'.",
    ),
    "an event-based gateway with one flow": (
        "start -> g~ -> m -> end\nm = catch message m",
        "g: An event-based gateway needs at least two flows.",
    ),
    "a task behind an event-based gateway": (
        "start -> g~ -> m -> end\ng -> a -> end\nm = catch message m",
        "g>a: After an event-based gateway comes an intermediate event that waits for a timer, a message or a signal, "
        "and to which no other flow leads.",
    ),
    "another flow to an event behind an event-based gateway": (
        "start -> f+ -> g~, a\ng -> m, n -> end\na -> m\nm = catch message m\nn = catch message n",
        "g>m: After an event-based gateway comes an intermediate event that waits for a timer, a message or a signal, "
        "and to which no other flow leads.",
    ),
    "an asynchronous event behind an event-based gateway": (
        "start -> g~ -> m, n -> end\nm = catch message m async\nn = catch message n",
        "g>m: After an event-based gateway comes an intermediate event that waits for a timer, a message or a signal, "
        "and to which no other flow leads.",
    ),
    "an error on a catching event": (
        "start -> m -> end\nm = catch error E1",
        "m: This is not supported here: an intermediateCatchEvent with error.",
    ),
    "a catching event without anything": (
        "start -> m -> end\nm = catch",
        "m: This is not supported here: an intermediateCatchEvent without an event definition.",
    ),
    "a compensation on a boundary event": (
        "start -> a -> end\nb = boundary a compensate",
        "b: This is not supported here: a boundaryEvent with compensate.",
    ),
    "an error that starts a process": (
        "start -> a -> end\nstart = start error E1",
        "start: This is not supported here: a startEvent with error.",
    ),
    "a message that starts a sub-process": (
        "start -> sub -> end\nsub: s -> e\ns = start message m",
        "s: This is not supported here: a startEvent with message.",
    ),
    "an event sub-process that starts plainly": (
        "start -> end\nh = eventsub\nh: s -> e",
        "s: This is not supported here: a startEvent without an event definition.",
    ),
    "a failure that starts an event sub-process": (
        "start -> end\nh = eventsub\nh: s -> e\ns = start failure",
        "s: This is not supported here: a startEvent with failure.",
    ),
    "a terminate event in the middle": (
        "start -> t -> end\nt = throw terminate",
        "t: This is not supported here: an intermediateThrowEvent with terminate.",
    ),
    "a message without a name": (
        "start -> m -> end\nm = catch message",
        "m: Its message needs a name.",
    ),
    "a signal without a name": ("start -> m -> end\nm = throw signal", "m: Its signal needs a name."),
    "an error without a code": ("start -> end\nend = end error", "end: Throwing an error needs a code."),
    "an escalation without a code": (
        "start -> up -> end\nup = throw escalation",
        "up: Throwing an escalation needs a code.",
    ),
    "a code that is caught and is an expression": (
        "start -> a -> end\nb = boundary a error $x",
        "b: The code that an event catches cannot be an expression.",
    ),
    "no start event": ("a -> b\nb -> a", "process: A process needs a start event."),
    "two plain start events": (
        "start -> end\nstart2 -> end",
        "start2: Its scope has another start event without an event definition.",
    ),
    "a sub-process without a start event": (
        "start -> sub -> end\nsub: a -> b\nsub: b -> a",
        "sub: A sub-process needs one start event.",
    ),
    "an event sub-process with two start events": (
        "start -> end\nh = eventsub\nh: s1 -> e\nh: s2 -> e\ns1 = start message m\ns2 = start message n",
        "h: A sub-process needs one start event.",
    ),
    "two start events for one message": (
        "start -> end\nstart2 -> end\nstart = start message m\nstart2 = start message m",
        "start2: Another start event waits for the message 'm'.",
    ),
    "two start events for one signal": (
        "start -> end\nstart2 -> end\nstart = start signal m\nstart2 = start signal m",
        "start2: Another start event waits for the signal 'm'.",
    ),
    "a boundary event on a gateway": (
        "start -> x? -> end\nb = boundary x timer in PT1H",
        "b: 'x' is not an activity of its scope that can have boundary events.",
    ),
    "a boundary event on an event sub-process": (
        "start -> end\nh = eventsub\nh: s -> e\ns = start message m\nb = boundary h timer in PT1H",
        "b: 'h' is not an activity of its scope that can have boundary events.",
    ),
    "an error that does not interrupt": (
        "start -> a -> end\nb = boundary a error E1 keep",
        "b: An event that catches an error must be interrupting.",
    ),
    "a failure that does not interrupt": (
        "start -> a -> end\nb = boundary a failure keep",
        "b: An event that catches a failure must be interrupting.",
    ),
    "an error in an event sub-process that does not interrupt": (
        "start -> end\nh = eventsub\nh: s -> e\ns = start error E1 keep",
        "s: An event that catches an error must be interrupting.",
    ),
    "two boundary events for one code": (
        "start -> a -> end\nb = boundary a error E1\nc = boundary a error E1",
        "b: Another event in this place catches an error with the code 'E1'.; "
        "c: Another event in this place catches an error with the code 'E1'.",
    ),
    "two boundary events for all codes": (
        "start -> a -> end\nb = boundary a error\nc = boundary a error",
        "b: Another event in this place catches an error with all codes.; "
        "c: Another event in this place catches an error with all codes.",
    ),
    "two event sub-processes for one code": (
        "start -> end\nh = eventsub\nh: s1 -> e1\nk = eventsub\nk: s2 -> e2\n"
        "s1 = start error E1\ns2 = start error E1\ne1 = end\ne2 = end",
        "s1: Another event in this place catches an error with the code 'E1'.; "
        "s2: Another event in this place catches an error with the code 'E1'.",
    ),
    "a link to nowhere": (
        "start -> j\nj = throw link L",
        "j: 0 link events of its scope catch 'L'; expected exactly one.",
    ),
    "a link to two": (
        "start -> j\nj = throw link L\nk = catch link L\nl = catch link L\nk -> end\nl -> end",
        "j: 2 link events of its scope catch 'L'; expected exactly one.; "
        "k: 2 link events of its scope catch 'L'; expected exactly one.; "
        "l: 2 link events of its scope catch 'L'; expected exactly one.",
    ),
    "a loop without an end": (
        "start -> a -> end\na = task seq",
        "a: A multi-instance needs a cardinality or a collection.",
    ),
    "a loop on a gateway": (
        "start -> x? -> end\nx = gateway loop=3",
        "x: Only activities can be repeated.",
    ),
    "a loop on an event sub-process": (
        "start -> end\nh = eventsub loop=3\nh: s -> e\ns = start message m",
        "h: Only activities can be repeated.",
    ),
    "results without an expression": (
        "start -> a -> end\na = task loop=2 results=all",
        "a: To collect results, a multi-instance needs an expression and a variable.",
    ),
    "results without a variable": (
        "start -> a -> end\na = task loop=2 result=x",
        "a: To collect results, a multi-instance needs an expression and a variable.",
    ),
    "a sequential batch": (
        "start -> a -> end\na = outside x over=rows batch seq",
        "a: A batch needs a collection; it is neither sequential nor ended by a condition.",
    ),
    "a batch with a condition": (
        "start -> a -> end\na = outside x over=rows batch until=n",
        "a: A batch needs a collection; it is neither sequential nor ended by a condition.",
    ),
    "a batch with a cardinality": (
        "start -> a -> end\na = outside x loop=3 batch",
        "a: A batch needs a collection; it is neither sequential nor ended by a condition.",
    ),
    "a batch without a handler": (
        "start -> a -> end\na = task over=rows batch",
        "a: A batch needs a handler.",
    ),
    "an asynchronous event sub-process": (
        "start -> end\nh = eventsub async\nh: s -> e\ns = start message m",
        "h: An event sub-process is not asynchronous; the elements in it may be.",
    ),
    "undone by nothing": (
        "start -> a -> end\na = task undo=b",
        "a: 'b' is not an activity for compensation in its scope.",
    ),
    "undone by a plain task": (
        "start -> a -> b -> end\na = task undo=b",
        "a: 'b' is not an activity for compensation in its scope.",
    ),
    "undone from another scope": (
        "start -> sub -> end\nsub: s -> a -> e\na = task undo=b\nb = task compensation",
        "a: 'b' is not an activity for compensation in its scope.",
    ),
    "a compensation of nothing": (
        "start -> a -> end\nb = task compensation",
        "b: It is for compensation, but no activity refers to it.",
    ),
    "a compensation of an unknown activity": (
        "start -> undo -> end\nundo = throw compensate b",
        "undo: 'b' is not an activity of this process.",
    ),
}


def words(problems: list[Problem]) -> str:
    return "; ".join(f"{problem.element}: {problem.message}" for problem in sorted(problems))


@pytest.mark.parametrize("name", CASES)
def test_a_rule_is_broken(name):
    text, expected = CASES[name]
    assert words(problems_of(model(text, check=False))) == expected


def changed(text: str, id: str, columns: dict[str, Any]) -> Process:
    """A model in which one element has other columns, for what the notation cannot say."""
    process = model(text, check=False)
    nodes = tuple(dataclasses.replace(n, **columns) if n.id == id else n for n in process.nodes)
    flows = tuple(dataclasses.replace(f, **columns) if f.id == id else f for f in process.flows)
    return dataclasses.replace(process, nodes=nodes, flows=flows)


CHANGED = {
    "two elements with one id": (
        ("start -> a -> end", "start>a", {"id": "a>end"}),
        "a>end: 2 elements have this id.",
    ),
    "a flow to nothing": (
        ("start -> a -> end", "a>end", {"target": "b"}),
        "a>end: Its target 'b' does not exist in this process.",
    ),
    "a flow from nothing": (
        ("start -> a -> end", "a>end", {"source": "b"}),
        "a>end: Its source 'b' does not exist in this process.",
    ),
    "a parent that does not exist": (
        ("start -> a -> end", "a", {"parent": "b"}),
        "a: Its parent 'b' is not a sub-process of this process.",
    ),
    "a parent that is no sub-process": (
        ("start -> a -> end", "a", {"parent": "end"}),
        "a: Its parent 'end' is not a sub-process of this process.",
    ),
    "a sub-process in itself": (
        ("start -> sub -> end\nsub: s -> e", "sub", {"parent": "sub"}),
        "sub: It is inside itself, by 'sub'.",
    ),
    "a default that is no flow of the node": (
        ("start -> a -> end", "a", {"default": "start>a"}),
        "a: Its default 'start>a' is not a flow that leaves it.",
    ),
    "a default with a condition": (
        ("start -> a\na -[x]-> b\na -[y]-> c", "a", {"default": "a>b"}),
        "a>b: It is the default of 'a' and has a condition, too.",
    ),
    "a timer without a time": (
        ("start -> t -> end\nt = catch timer in PT1H", "t", {"event": Event(Trigger.TIMER)}),
        "t: A timer needs a date, a duration or a cycle.",
    ),
    "a boundary event that is attached to nothing": (
        ("start -> a -> end\nb = boundary a timer in PT1H", "b", {"attached_to": None}),
        "b: Boundary events, and only these, must be attached to an activity.",
    ),
    "a task that is attached": (
        ("start -> a -> b -> end", "b", {"attached_to": "a"}),
        "b: Boundary events, and only these, must be attached to an activity.",
    ),
    "a boundary event of another scope": (
        ("start -> sub -> end\nsub: s -> a -> e\nb = boundary a timer in PT1H", "b", {"parent": None}),
        "b: 'a' is not an activity of its scope that can have boundary events.",
    ),
    "a service task without work": (
        ("start -> a -> end\na = service x", "a", {"work": None}),
        "a: A serviceTask needs a handler, an expression or a topic.",
    ),
    "work that is nothing": (
        ("start -> a -> end\na = service x", "a", {"work": Work()}),
        "a: It needs either a handler or an expression.",
    ),
    "a handler and an expression": (
        ("start -> a -> end\na = service x", "a", {"work": Work(handler="x", expression=Expression("${x}"))}),
        "a: It needs either a handler or an expression.",
    ),
    "a worker without a topic": (
        ("start -> a -> end\na = external x", "a", {"work": Work(mode=Mode.EXTERNAL)}),
        "a: The work of an external worker needs a topic.",
    ),
    "an expression outside": (
        ("start -> a -> end\na = outside x", "a", {"work": Work(mode=Mode.OUTSIDE, expression=Expression("${x}"))}),
        "a: Only a handler can run outside the step.",
    ),
    "a message that is thrown by nothing": (
        ("start -> m -> end\nm = throw message hello", "m", {"work": None}),
        "m: A message that is thrown needs a handler, an expression or a topic.",
    ),
    "a receive task for a signal": (
        ("start -> a -> end\na = receive paid", "a", {"event": Event(Trigger.SIGNAL, name="paid")}),
        "a: A receive task needs a message.",
    ),
    "a call of nothing": (
        ("start -> c -> end\nc = call child", "c", {"call": None}),
        "c: A call activity needs the key of the process that it calls.",
    ),
    "a call of a version that is not named": (
        ("start -> c -> end\nc = call child", "c", {"call": Call("child", Binding.VERSION)}),
        "c: The binding 'version' needs a version.",
    ),
    "an event task": (
        ("start -> a -> end", "a", {"by_event": True}),
        "a: Only a sub-process can be triggered by an event.",
    ),
    "a listener that is nothing": (
        ("start -> a -> end\na = user on:start=x", "a", {"listeners": (Listener(When.START),)}),
        "a: A listener needs either a handler or an expression.",
    ),
    "a listener that a node never calls": (
        ("start -> a -> end\na = user on:take=x", "a", {}),
        "a: A listener to 'take' is never called here; expected one of start, end, create, assignment, complete, "
        "delete.",
    ),
    "a task listener of what is no user task": (
        ("start -> a -> end\na = task on:create=x", "a", {}),
        "a: A listener to 'create' is never called here; expected one of start, end.",
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_rule_is_broken_by_a_change(name):
    (text, id, columns), expected = CHANGED[name]
    assert words(problems_of(changed(text, id, columns))) == expected


GOOD = """
start -> x? -> a
---
start -> x?
x -[n]-> a
x -> b
---
start -> end
start2 -> end
start2 = start message m
---
start -> a
a = user
b = boundary a error E1
c = boundary a error
d = boundary a escalation E1
f = boundary a failure
g = boundary a message m
h = boundary a message m2 keep
---
start -> a
a = receive
---
start -> f+ -> j*
---
start -> j1, j2
j1 = throw link L
j2 = throw link L
l = catch link L
l -> end
---
start -> a
a = outside x over=rows batch
---
start -> a
start = start timer every R/PT1H
---
start -> sub
sub: s -> j
j = throw link L
sub: l -> e
l = catch link L
h = eventsub
h: hs -> he
hs = start escalation keep
he = end error E1
"""


@pytest.mark.parametrize("text", GOOD.split("---"))
def test_no_rule_is_broken(text):
    validate(model(textwrap.dedent(text), check=False))


def test_all_problems_come_with_their_lines():
    text = "start -> a -> end\n\nb -> end\na = task undo=c\nend = end error"
    with pytest.raises(InvalidProcess) as caught:
        validate(model(text, check=False))
    assert [str(problem) for problem in caught.value.problems] == [
        "line 1: a: 'c' is not an activity for compensation in its scope.",
        "line 1: end: Throwing an error needs a code.",
        "line 3: b: No flow leads to it.",
    ]
    assert str(caught.value).splitlines()[2] == "line 3: b: No flow leads to it."


def test_a_problem_without_a_line():
    assert str(Problem("a", "No.")) == "a: No."


def test_a_process_that_is_only_drawn_needs_no_start_event():
    process = dataclasses.replace(model("a -> b\nb -> a", check=False), executable=False)
    assert problems_of(process) == []
