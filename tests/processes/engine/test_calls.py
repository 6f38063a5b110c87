"""Call activities: instances in one hierarchy, and what is passed on."""

import pytest

from jobexec.processes.definition import Listener, When
from jobexec.processes.engine.exceptions import UncaughtError
from jobexec.processes.engine.inputs import Completed, Retried
from jobexec.processes.engine.rows import InstanceState, State
from tests.processes.support.notation import model
from tests.processes.support.scenarios import Scenario, scenarios
from tests.processes.support.world import World

CHILD = """
    process child
    start -> a -> end
"""


@scenarios(f"""
the caller waits for the called instance
    start -> c -> b -> end
    c = call child
    {CHILD}
    ---
    start => c[a]
    states => active active
    complete a => b
    states => active completed
    history => start start a end c

a called process without a wait
    start -> c -> end
    c = call child
    process child
    start -> end
    ---
    start => completed
    states => completed completed

nothing is passed on by itself
    start -> c -> b -> end
    c = call child
    {CHILD}
    ---
    start x=1 => c[a]
    complete a y=2 => b
    var y => unknown

in and out
    start -> c -> b -> end
    c = call child in:x=$n out:m=$y
    {CHILD}
    ---
    start n=1 => c[a]
    see a x => 1
    complete a y=2 => b
    var m => 2
    var x => unknown

out to the activity alone, for its outputs
    start -> c -> b -> end
    c = call child in:= stay:= out:m=$y
    {CHILD}
    ---
    start y=1 => c[a]
    complete a y=2 z=3 => b
    var m => 2
    var y => 1
    var z => unknown

an error takes what goes out
    start -> c -> b -> end
    c = call child in:y=$n out:m=$y stay:z=$y
    no = boundary c error E1
    no -> d -> end
    {CHILD}
    ---
    start n=2 => c[a]
    error a E1 => d
    var m => 2
    var z => unknown

an error takes what goes out of each call that it leaves
    start -> c -> b -> end
    c = call child in:= out:m=$k
    no = boundary c error E1
    no -> d -> end
    process child
    start -> g -> end
    g = call grandchild in:= out:k=$n
    process grandchild
    start -> a -> end
    ---
    start n=2 => c[g[a]]
    error a E1 => d
    var m => 2

an error takes nothing out of a call that it does not leave
    start -> c -> b -> end
    c = call child out:m=$y
    process child
    start -> a -> end
    no = boundary a error E1
    no -> d -> end
    ---
    start => c[a]
    error a E1 => c[d]
    var m => unknown
    complete d y=2 => b
    var m => 2

an error takes nothing if all goes out, as in Zeebe
    start -> c -> b -> end
    c = call child in:y=$n pass:=
    no = boundary c error E1
    no -> d -> end
    {CHILD}
    ---
    start n=2 => c[a]
    error a E1 => d
    var y => unknown

an escalation takes what goes out
    start -> c -> b -> end
    c = call child in:y=$n out:m=$y
    told = boundary c escalation U1 keep
    told -> d -> end
    {CHILD}
    ---
    start n=2 => c[a]
    escalate a U1 => c[a] d
    var m => 2
    complete a y=3 => b d
    var m => 3

an escalation that nothing catches, too
    start -> c -> b -> end
    c = call child in:y=$n out:m=$y
    {CHILD}
    ---
    start n=2 => c[a]
    escalate a U1 => c[a]
    var m => 2

all in and all out
    start -> c -> b -> end
    c = call child in:= out:=
    {CHILD}
    ---
    start n=1 => c[a]
    see a n => 1
    complete a n=5 y=2 => b
    var n => 5
    var y => 2

only the local variables of the activity
    start -> c -> b -> end
    c = call child over=names item=name local:=
    {CHILD}
    ---
    start names=["x"] => c(c#0[a])
    see a name => "x"
    see a names => unknown

inputs do not write into the caller
    start -> c -> b -> end
    c = call child in:n=5
    {CHILD}
    ---
    start n=1 => c[a]
    see a n => 5
    var n => 1

the called process by an expression
    start -> c -> b -> end
    c = call $which
    {CHILD}
    ---
    start which="child" => c[a]

a job before and after
    start -> c -> b -> end
    c = call child async after
    {CHILD}
    ---
    start => c<
    states => active
    run c => c[a]
    complete a => c>
    run c => b

a job before the start of the called process
    start -> c -> b -> end
    c = call child
    process child
    start -> a -> end
    start = start async
    ---
    start => c[start<]
    run start => c[a]

an error after the called instance has ended: it stays completed
    start -> c -> b -> end
    c = call child on:end=error:E1
    caught = boundary c error E1
    caught -> d -> end
    {CHILD}
    ---
    start => c[a]
    complete a => d
    states => active completed

a process that calls itself
    start -> x?
    x -[n == 0]-> a -> end
    x -[else]-> c -> end
    c = call process "in:n=$n + -1"
    ---
    start n=2 => c[c[a]]
    complete a => completed
    states => completed completed completed

an event sub-process of the called process
    start -> c -> b -> end
    c = call child
    process child
    start -> a -> end
    h = eventsub
    h: hs -> x -> he
    hs = start message stop
    he = end
    ---
    start => c[a]
    message stop => c[h(x)]
    complete x => b

a suspended caller waits with a job
    start -> c -> b -> end
    c = call child "out:total=$n"
    process child
    start -> a -> end
    ---
    start => c[a]
    suspend process => c[a]
    complete a n=5 => c>
    jobs => continue:c
    history => start start a end c
    var total => 5
    suspend => c>
    run c => b

with several that it has called
    start -> c -> b -> end
    c = call child loop=2
    process child
    start -> a -> end
    ---
    start => c(c#0[a] c#1[a])
    suspend process => c(c#0[a] c#1[a])
    complete a => c(c#0> c#1[a])
    complete a => c(c#0> c#1>)
    suspend => c(c#0> c#1>)
    run c => c(c#1>)
    run c => b

an error that it catches
    start -> c -> end
    c = call child
    e = boundary c error E1
    e -> b
    process child
    start -> a -> f -> end
    f = service error:E1
    ---
    start => c[a]
    suspend process => c[a]
    complete a => e<
    suspend => e<
    run e => b

a signal that it waits for
    start -> f+ -> c, w
    c = call child
    w = catch signal go
    w -> b
    c, b -> end
    process child
    start -> a -> t -> z -> end
    t = throw signal go
    ---
    start => c[a] w
    suspend process => c[a] w
    complete a => c[z] w>
    suspend => c[z] w>
    run w => b c[z]

a suspended process that is called holds nobody else
    start -> c -> b -> end
    c = call child
    process child
    start -> a -> end
    ---
    start => c[a]
    suspend child => c[a]
    complete a => b

the end of the root ends nothing but itself
    start -> f+ -> c, b
    c = call child
    c, b -> end
    {CHILD}
    ---
    start => b c[a]
    complete b => c[a]
    complete a => completed

an output that throws: nothing has happened, since nothing would be left of the variables of what was called
    start -> c -> end
    c = call child "out:x=$error E1 if n"
    process child
    start -> a -> end
    ---
    start => c[a]
    complete a n=true => UncaughtError c
    complete a n=false => completed
    var x => true

it may be caught
    start -> c -> end
    c = call child "out:x=$error E1 if n"
    caught = boundary c error E1
    caught -> b -> end
    process child
    start -> a -> end
    ---
    start => c[a]
    complete a n=true => b

a listener to the end of the call that throws: the variables are there when it is tried again
    start -> c -> b -> end
    c = call child out:x=$n on:end=once:E1
    process child
    start -> a -> end
    ---
    start => c[a]
    complete a n=5 => c![]
    retry c => b
    var x => 5
""")
def test_calls(scenario: Scenario) -> None:
    scenario.run()


def test_a_called_instance_knows_its_place():
    world = World(model("start -> c -> end\n c = call child"), model("start -> a -> end", "child"))
    root = world.start()
    (called,) = (row for row in world.instances.values() if row.id != root)
    (calling,) = (token for token in world.tokens.values() if token.element == "c")
    assert (called.root, called.parent, calling.called) == (root, calling.id, called.id)
    assert called.state is InstanceState.ACTIVE


def test_a_process_without_a_plain_start_cannot_be_called():
    world = World(
        model("start -> c -> end\n c = call child"), model("start -> a -> end\n start = start message m", "child")
    )
    with pytest.raises(ValueError, match="c: child has no start event"):
        world.start()
    assert not world.instances


CATCHES = """
    start -> c -> end
    c = call child in:=
    caught = boundary c error E1
    caught -> b -> end
"""


def called(when: When) -> World:
    """A listener of the called process throws an error, which could be caught there, and by the caller."""
    child = model(
        "start -> a -> end\nh: hs -> x -> he\nh = eventsub\nhs = start error E1\nhe = end",
        "child",
        listeners=(Listener(when, handler="error:E1"),),
    )
    return World(model(CATCHES), child)


def test_an_error_of_a_listener_to_the_end_of_what_is_called():
    """As in Camunda, nothing catches it: the step fails, and can be made again."""
    world = called(When.END)
    root = world.start()
    _, token = world.tokens.values()
    with pytest.raises(UncaughtError, match="child: Nothing catches the error E1 of a listener"):
        world.do(Completed(token.id, token.activity), root)
    assert [row.element for row in world.tokens.values()] == ["c", "a"]
    assert [row.state for row in world.instances.values()] == [InstanceState.ACTIVE] * 2
    world.notify = lambda notice: None
    world.do(Completed(token.id, token.activity), root)
    assert [row.state for row in world.instances.values()] == [InstanceState.COMPLETED] * 2


def test_an_error_of_a_listener_to_the_start_of_what_is_called():
    world = called(When.START)
    with pytest.raises(UncaughtError, match="child: Nothing catches the error E1 of a listener"):
        world.start()
    assert not world.instances


def test_an_error_at_the_start_of_what_is_called():
    """The instance that was about to begin has not: it is over, and the retry calls another one."""
    child = model("start -> a -> end\nh: hs -> x\nh = eventsub\nhs = start message '$error E2 if bad'", "child")
    world = World(model(CATCHES), child)
    root = world.start(bad=True)
    (token,) = world.tokens.values()
    assert (token.element, token.state, token.called) == ("c", State.FAILED, None)
    assert [row.state for row in world.instances.values()] == [InstanceState.ACTIVE, InstanceState.CANCELLED]
    world.variables[root]["bad"] = False
    world.do(Retried(token.id), root)
    assert [row.element for row in world.tokens.values()] == ["c", "a"]
