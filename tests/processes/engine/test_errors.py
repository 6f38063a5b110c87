"""Errors: thrown by handlers, workers, people, listeners and end events; and who catches them."""

import dataclasses
from typing import Any

import pytest

from jobexec.processes.definition import Expression
from tests.processes.support.notation import model
from tests.processes.support.scenarios import Scenario, scenarios
from tests.processes.support.world import World

# A sub-process with an error at its end, and what catches it.
IN_SUB = """
    start -> sub -> end
    sub: s -> a -> bad
    bad = end error E1
"""


@scenarios(f"""
a handler throws, its boundary event catches
    start -> a -> end
    a = service error:E1
    caught = boundary a error E1
    caught -> b -> end
    ---
    start => b
    history => start a! caught

with code, message and variables
    start -> a -> end
    a = service error:E1
    caught = boundary a error E1 codevar=code textvar=text
    caught -> b -> end
    ---
    start => b
    var code => "E1"
    var text => "told so"
    var why => "E1"

an expression throws
    start -> a -> end
    a = script "$error E1"
    caught = boundary a error
    caught -> b -> end
    ---
    start => b

another code does not catch it: an incident
    start -> a -> end
    a = service error:E2
    caught = boundary a error E1
    caught -> b -> end
    ---
    start => a!
    incidents => a

one for all codes
    start -> a -> end
    a = service error:E2
    caught = boundary a error
    caught -> b -> end
    ---
    start => b

the one with the code before the one for all, in either order
    start -> a -> end
    a = service error:E1
    all = boundary a error
    one = boundary a error E1
    all -> b -> end
    one -> c -> end
    ---
    start => c

the one for all takes the others
    start -> a -> end
    a = service error:E2
    one = boundary a error E1
    all = boundary a error
    all -> b -> end
    one -> c -> end
    ---
    start => b

the nearest for all wins over a farther one with the code
    start -> sub -> end
    sub: s -> a -> e
    a = service error:E1
    near = boundary a error
    far = boundary sub error E1
    sub: near -> b -> e
    far -> c -> end
    ---
    start => sub(b)

the farther one catches what the nearer does not
    start -> sub -> end
    sub: s -> a -> e
    a = service error:E1
    near = boundary a error E2
    far = boundary sub error E1
    sub: near -> b -> e
    far -> c -> end
    ---
    start => c
    history => start s a! sub! far

an end event throws out of its sub-process
    {IN_SUB}
    caught = boundary sub error E1
    caught -> b -> end
    ---
    start => sub(a)
    complete a => b
    history => start s a bad sub! caught

with the other tokens of the sub-process
    start -> sub -> end
    sub: s -> f+ -> a, c
    sub: a -> bad
    sub: c -> e
    bad = end error E1
    caught = boundary sub error E1
    caught -> b -> end
    ---
    start => sub(a c)
    complete a => b
    history => start s f a bad c! sub! caught

an event sub-process catches before the boundary event
    {IN_SUB}
    sub: h
    h = eventsub
    h: hs -> b -> he
    hs = start error E1
    he = end
    caught = boundary sub error E1
    caught -> c -> end
    ---
    start => sub(a)
    complete a => sub(h(b))
    complete b => completed

an event sub-process for all before the boundary event with the code
    {IN_SUB}
    sub: h
    h = eventsub
    h: hs -> b -> he
    hs = start error
    he = end
    caught = boundary sub error E1
    caught -> c -> end
    ---
    start => sub(a)
    complete a => sub(h(b))

of two event sub-processes the one with the code
    {IN_SUB}
    sub: h
    sub: k
    h = eventsub
    h: hs -> b -> he
    hs = start error
    he = end
    k = eventsub
    k: ks -> c -> ke
    ks = start error E1
    ke = end
    ---
    start => sub(a)
    complete a => sub(k(c))

what an event sub-process throws, it does not catch itself
    {IN_SUB}
    sub: h
    h = eventsub
    h: hs -> b -> he
    hs = start error E1
    he = end error E1
    caught = boundary sub error E1
    caught -> c -> end
    ---
    start => sub(a)
    complete a => sub(h(b))
    complete b => c

an event sub-process of the process
    start -> a -> bad
    bad = end error E1
    h = eventsub
    h: hs -> b -> he
    hs = start error E1 codevar=code
    he = end
    ---
    start => a
    complete a => h(b)
    see b code => "E1"
    var code => unknown
    complete b => completed

out of two sub-processes
    start -> outer -> end
    outer: s1 -> inner -> e1
    s1 = start
    e1 = end
    inner: s2 -> a -> bad
    s2 = start
    bad = end error E1
    caught = boundary outer error E1
    caught -> c -> end
    ---
    start => outer(inner(a))
    complete a => c
    history => start s1 s2 a bad inner! outer! caught

across a call
    start -> c -> end
    c = call child
    caught = boundary c error E1
    caught -> b -> end
    process child
    start -> a -> bad
    bad = end error E1
    ---
    start => c[a]
    complete a => b
    states => active cancelled

across two calls
    start -> c -> end
    c = call middle
    caught = boundary c error E1
    caught -> b -> end
    process middle
    start -> c2 -> end
    c2 = call inner
    process inner
    start -> a -> end
    a = service error:E1
    ---
    start => b
    states => active cancelled cancelled

a call that catches itself
    start -> c -> b -> end
    c = call child
    caught = boundary c error E1
    caught -> d -> end
    process child
    start -> a -> bad
    bad = end error E1
    h = eventsub
    h: hs -> x -> he
    hs = start error E1
    he = end
    ---
    start => c[a]
    complete a => c[h(x)]
    complete x => b

an instance of a multi-instance interrupts all
    start -> a -> end
    a = outside ship loop=3
    caught = boundary a error E1
    caught -> b -> end
    ---
    start => a(a#0* a#1* a#2*)
    error a#1 E1 => b
    jobs =>

caught inside a multi-instance it stays inside
    start -> sub -> end
    sub = sub loop=2
    sub: s -> a -> bad
    bad = end error E1
    sub: h
    h = eventsub
    h: hs -> b -> he
    hs = start error E1
    he = end
    ---
    start => sub(sub#0(a) sub#1(a))
    complete a#0 => sub(sub#0(h(b)) sub#1(a))

a worker throws
    start -> a -> end
    a = external charge
    caught = boundary a error E1
    caught -> b -> end
    ---
    start => a*
    error a E1 amount=3 => b
    var amount => 3
    jobs =>

a worker throws what nobody catches: an incident, and the job anew
    start -> a -> b -> end
    a = external charge
    ---
    start => a*
    error a E1 => a!
    jobs =>
    incidents => a
    retry a => a*
    incidents =>
    jobs => external:a
    done a => b

the worker of a message that is thrown throws
    start -> sub -> end
    sub: s -> t -> e
    t = throw message hello topic
    caught = boundary sub error E1
    caught -> b -> end
    ---
    start => sub(t*)
    error t E1 amount=3 => b
    var amount => 3
    jobs =>
    history => start s t! sub! caught

the worker of a message at the end throws
    start -> sub -> end
    sub: s -> bye
    bye = end message hello topic
    caught = boundary sub error E1
    caught -> b -> end
    ---
    start => sub(bye*)
    error bye E1 => b
    jobs =>

the worker of a message that is thrown throws what nobody catches
    start -> t -> b -> end
    t = throw message hello topic
    ---
    start => t*
    error t E1 => t!
    jobs =>
    incidents => t
    retry t => t*
    jobs => external:t
    done t => b

a user throws
    start -> a -> end
    caught = boundary a error E1
    caught -> b -> end
    ---
    start => a
    error a E1 => b
    tasks => b:None

a user throws what nobody catches: nothing has happened
    start -> a -> end
    ---
    start => a
    error a E1 => UncaughtError a
    tasks => a:None

an end event throws, and so does its listener: nothing has happened
    start -> a -> sub -> end
    sub: s -> bad
    bad = end error E1 on:end=error:E2
    caught = boundary sub error
    caught -> b -> end
    ---
    start => a
    complete a => UncaughtError process
    tasks => a:None

an end event throws what nobody catches
    start -> f+ -> a, b
    a -> bad
    b -> end
    bad = end error E1
    ---
    start => a b
    complete a => b bad!
    incidents => bad
    complete b => bad!
    retry bad => bad!

a handler in a sub-process throws what nobody catches
    start -> sub -> end
    sub: s -> a -> e
    a = service error:E1
    late = boundary sub timer in PT1H
    late -> b -> end
    ---
    start => sub(a!)
    fire late => b
    incidents =>

a boundary timer still fires at an incident
    start -> a -> end
    a = service error:E1
    late = boundary a timer in PT1H
    late -> b -> end
    ---
    start => a!
    timers => late:duration:PT1H
    fire late => b
    incidents =>
    timers =>

an incident is retried: the element begins again with its timers
    start -> a -> end
    a = service error:E1
    late = boundary a timer in PT1H
    late -> b -> end
    ---
    start => a!
    retry a => a!
    timers => late:duration:PT1H
    calls => a a
    incidents => a

an incident in a multi-instance is retried with its item
    start -> a -> end
    a = external charge over=names item=name in:name=$name in:bill=$total
    ---
    start names=["x","y"] total=1 => a(a#0* a#1*)
    error a#1 E1 => a(a#0* a#1!)
    set total=2 => a(a#0* a#1!)
    retry a#1 => a(a#0* a#1*)
    see a#1 name => "y"
    see a#1 loopCounter => 1
    see a#1 bill => 2

a condition that throws is an error behind the activity
    start -> a
    a -[error E1]-> b -> end
    caught = boundary a error E1
    caught -> c -> end
    ---
    start => a
    complete a => a!
    retry a => a!
    history => start a

it goes on behind the activity when it is retried
    start -> a
    a -[error E1 if n]-> b -> end
    ---
    start n=true => a
    complete a => a!
    incidents => a
    set n=false => a!
    retry a => b
    incidents =>
    history => start a

an output that throws is tried again, the handler is not called again
    start -> a -> b -> end
    a = service ship "out:x=$error E1 if n"
    ---
    start n=true => a!
    incidents => a
    set n=false => a!
    retry a => b
    incidents =>
    calls => a
    history => start a

an incident that is interrupted in the same step is none
    start -> f+ -> a, b
    a = service error:E1
    b -> stop
    b = task
    stop = end terminate
    ---
    start => terminated
    incidents =>

one that is interrupted around it, and one beside it
    start -> f+ -> sub, d
    sub: s -> g+ -> a, b
    a = service error:E1
    b = service error:E2
    caught = boundary sub error E2
    caught -> c -> end
    d = service error:E3
    ---
    start => c d!
    incidents => d

a completion condition that throws counts the instance once, whenever that is
    start -> a -> b -> end
    a = receive loop=3 "until=error E1 if n"
    ---
    start n=true => a(a#0 a#1 a#2)
    complete a#0 => a(a#0! a#1 a#2)
    see a#1 nrOfCompletedInstances => 0
    retry a#0 => a(a#0! a#1 a#2)
    see a#1 nrOfCompletedInstances => 0
    set n=false => a(a#0! a#1 a#2)
    retry a#0 => b

while an end waits for an operator, it is not completed again
    start -> a -> b -> end
    a = receive "out:x=$error E1 if n"
    ---
    start n=true => a
    complete a => a!
    complete a => not accepted
    error a E2 => not accepted

a sub-process is not somebody's work
    start -> sub -> end
    sub: s -> a -> e
    caught = boundary sub error
    caught -> b -> end
    ---
    start => sub(a)
    error sub E1 => not accepted

and is caught further out
    start -> sub -> end
    sub: s -> a
    sub: a -[error E1]-> b -> e
    caught = boundary sub error E1
    caught -> c -> end
    ---
    start => sub(a)
    complete a => c

an error of a sub-process that is over is not caught in it
    start -> sub -> end
    sub = sub on:end=error:E1
    sub: s -> a -> e
    sub: h
    h = eventsub
    h: hs -> b -> he
    hs = start error E1
    he = end
    caught = boundary sub error E1
    caught -> c -> end
    ---
    start => sub(a)
    complete a => c

what an event sub-process throws in a multi-instance goes to its body
    start -> sub -> end
    sub = sub loop=2
    sub: s -> a -> bad
    bad = end error E1
    sub: h
    h = eventsub
    h: hs -> b -> he
    hs = start error E1
    he = end error E1
    caught = boundary sub error E1
    caught -> c -> end
    ---
    start => sub(sub#0(a) sub#1(a))
    complete a#1 => sub(sub#0(a) sub#1(h(b)))
    complete b => c

an end event that throws has listeners and a row of its own
    start -> sub -> end
    sub: s -> bad
    bad = end error E1 on:start=one on:end=two
    caught = boundary sub error E1
    caught -> c -> end
    ---
    start => c
    notices => one:start:bad two:end:bad
    history => start s bad sub! caught

an error before a boundary event with a job
    start -> a -> end
    a = service error:E1
    caught = boundary a error E1 async
    caught -> b -> end
    ---
    start => caught<
    run caught => b

an error of a boundary event's branch is not caught there again
    start -> a -> end
    a = service error:E1
    caught = boundary a error E1
    caught -> bad
    bad = end error E1
    ---
    start => bad!
""")
def test_errors(scenario: Scenario) -> None:
    scenario.run()


@scenarios("""
nobody catches the failure of a job: it is a dead letter
    start -> a -> end
    a = outside charge
    caught = boundary a error
    caught -> b -> end
    ---
    start => a*
    fail a => not accepted
    jobs => run:a
    done a => completed

an edge for failure catches it
    start -> a -> end
    a = outside charge
    bad = boundary a failure
    bad -> b -> end
    ---
    start => a*
    fail a => b
    jobs =>

and an error, too, if no error event does
    start -> a -> end
    a = service error:E1
    bad = boundary a failure
    one = boundary a error E2
    bad -> b -> end
    one -> c -> end
    ---
    start => b

an error event before it
    start -> a -> end
    a = service error:E1
    bad = boundary a failure
    one = boundary a error E1
    bad -> b -> end
    one -> c -> end
    ---
    start => c

of a job before the activity
    start -> a -> end
    a = service charge async
    bad = boundary a failure
    bad -> b -> end
    ---
    start => a<
    fail a => b
    jobs =>
    calls =>

a job after the activity is not its failure
    start -> a -> end
    a = service charge after
    bad = boundary a failure
    bad -> b -> end
    ---
    start => a>
    fail a => not accepted
    run a => completed

of what is in a sub-process
    start -> sub -> end
    sub: s -> f+ -> a, c -> e
    a = outside charge
    bad = boundary sub failure
    bad -> b -> end
    ---
    start => sub(a* c)
    fail a => b
    jobs =>

of a message that is thrown
    start -> sub -> end
    sub: s -> t -> e
    t = throw message hello topic
    bad = boundary sub failure
    bad -> b -> end
    ---
    start => sub(t*)
    fail t => b
    jobs =>

of one instance
    start -> a -> end
    a = outside charge loop=2
    bad = boundary a failure
    bad -> b -> end
    ---
    start => a(a#0* a#1*)
    fail a#1 => b
    jobs =>

across a call
    start -> c -> end
    c = call child
    bad = boundary c failure
    bad -> b -> end
    process child
    start -> a -> end
    a = outside charge
    ---
    start => c[a*]
    fail a => b
""")
def test_failures(scenario: Scenario) -> None:
    scenario.run()


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ("", {}),
        ("codevar=c", {"c": "E1"}),
        ("textvar=t", {"t": "told so"}),
        ("codevar=c textvar=t", {"c": "E1", "t": "told so"}),
    ],
)
def test_only_named_variables_are_set(variables, told):
    world = World(model(f"start -> a -> end\na = service error:E1\ncaught = boundary a error {variables}\ncaught -> b"))
    root = world.start()
    assert world.variables[root] == {"why": "E1", **told}


@pytest.mark.parametrize(("text", "told"), [(None, ""), ("sold out", "sold out"), (Expression("${why}"), "because")])
def test_the_message_of_an_error_end_event(text, told):
    process = model("""
        start -> sub -> end
        sub: s -> bad
        bad = end error E1
        caught = boundary sub error textvar=t
        caught -> b
    """)
    bad: Any = process.node("bad").event
    event = dataclasses.replace(bad, text=text)
    nodes = tuple(dataclasses.replace(n, event=event) if n.id == "bad" else n for n in process.nodes)
    world = World(dataclasses.replace(process, nodes=nodes))
    root = world.start(why="because")
    assert world.variables[root]["t"] == told
