"""Call activities: instances in one hierarchy, and what is passed on."""

import pytest

from jobexec.processes.engine.rows import InstanceState
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

the end of the root ends nothing but itself
    start -> f+ -> c, b
    c = call child
    c, b -> end
    {CHILD}
    ---
    start => b c[a]
    complete b => c[a]
    complete a => completed
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
