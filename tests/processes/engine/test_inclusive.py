"""Inclusive gateways: several of many, and a join that asks who can still come."""

from tests.processes.support.scenarios import Scenario, scenarios

# A split by the variables a, b and c, and a join of its branches.
SPLIT = """
    start -> in*
    in -[a]-> ta -> out*
    in -[b]-> tb -> out
    in -[c]-> tc -> out
    out -> after -> end
"""


@scenarios(f"""
one branch
    {SPLIT}
    ---
    start a=true b=false c=false => ta
    complete ta => after

two branches
    {SPLIT}
    ---
    start a=true b=true c=false => ta tb
    complete tb => out+ ta
    complete ta => after

all branches
    {SPLIT}
    ---
    start a=true b=true c=true => ta tb tc
    complete tc => out+ ta tb
    complete ta => out+ out+ tb
    complete tb => after
    complete after => completed

no branch and no default
    {SPLIT}
    ---
    start a=true b=true c=true => ta tb tc
    complete ta => out+ tb tc

the default is taken if no condition holds
    start -> in*
    in -[x > 5]-> a -> out*
    in -[else]-> b -> out
    out -> end
    ---
    start x=1 => b
    complete b => completed

the default is not taken if one holds
    start -> in*
    in -[x > 5]-> a -> out*
    in -[else]-> b -> out
    out -> end
    ---
    start x=6 => a

a flow without a condition is always taken
    start -> in*
    in -[x > 5]-> a -> out*
    in -> b -> out
    out -> end
    ---
    start x=1 => b
    complete b => completed

a branch that ended elsewhere is not waited for
    start -> fork+ -> a, b
    a -> x?
    x -[stop]-> end1
    x -[else]-> join*
    b -> join -> c -> end
    ---
    start stop=true => a b
    complete b => a join+
    complete a => c

the other order: the end of a branch lets the join go on
    start -> fork+ -> a, b
    a -> x?
    x -[stop]-> end1
    x -[else]-> join*
    b -> join -> c -> end
    ---
    start stop=false => a b
    complete b => a join+
    complete a => c

a token far behind is waited for
    start -> fork+ -> a, b
    a -> a2 -> a3 -> join*
    b -> join -> c -> end
    ---
    start => a b
    complete b => a join+
    complete a => a2 join+
    complete a2 => a3 join+
    complete a3 => c

a token in a sub-process before it is waited for
    start -> fork+ -> sub, b -> join* -> c -> end
    sub: s -> x -> e
    ---
    start => b sub(x)
    complete b => join+ sub(x)
    complete x => c

a token that only a boundary event could send is waited for
    start -> fork+ -> a, b
    late = boundary a timer in PT1H
    late -> join*
    b -> join -> c -> end
    a -> end2
    ---
    start => a b
    complete b => a join+
    complete a => c

and comes by it
    start -> fork+ -> a, b
    late = boundary a timer in PT1H
    late -> join*
    b -> join -> c -> end
    a -> end2
    ---
    start => a b
    complete b => a join+
    fire late => c

a token that can come by a link is waited for
    start -> fork+ -> a, b
    a -> jump
    jump = throw link L
    land = catch link L
    land -> join*
    b -> join -> c -> end
    ---
    start => a b
    complete b => a join+
    complete a => c

what waits after the join does not hold it up
    start -> fork+ -> a, b, d
    a, b -> join* -> c -> end
    d -> end2
    ---
    start => a b d
    complete a => b d join+
    complete b => c d

a token that can only come by a flow that has one does not hold it up
    start -> fork+ -> a, b, c
    a, b -> m?
    m -> join*
    c -> join -> d -> end
    ---
    start => a b c
    complete c => a b join+
    complete a => b d

a loop back to before the join
    start -> m? -> in*
    in -[x]-> a -> out*
    in -[else]-> b -> out
    out -> again?
    again -[more]-> m
    again -[else]-> end
    ---
    start x=true more=true => a
    complete a => a
    set more=false => a
    complete a => completed

a job before the join holds it up
    start -> fork+ -> a, b -> join* -> c -> end
    join = gateway async
    ---
    start => a b
    complete a => b join<
    complete b => join< join<
    run join => join+ join<
    run join => c

a token that is about to come by a flow that has one does not hold it up
    start -> f+ -> a, b, c
    a, b -> m?
    m -> join*
    c -> x?
    x -[stop]-> end1
    x -[else]-> join
    join -> d -> end
    join = gateway async
    ---
    start stop=true => a b c
    complete a => b c join<
    complete b => c join< join<
    run join => c join+ join<
    complete c => d join<

a job after the join
    start -> fork+ -> a, b -> join* -> c -> end
    join = gateway after
    ---
    start => a b
    complete a => b join+
    complete b => join>
    run join => c

a dead branch by a terminated sub-process
    start -> fork+ -> sub, b -> join* -> c -> end
    sub: s -> f+ -> x, y
    sub: x -> stop
    sub: y -> e
    stop = end terminate
    ---
    start => b sub(x y)
    complete b => join+ sub(x y)
    complete x => c

an interrupted branch goes elsewhere, and the join goes on
    start -> fork+ -> a, b -> join* -> c -> end
    late = boundary a timer in PT1H
    late -> d -> end
    ---
    start => a b
    complete b => a join+
    fire late => c d

two joins behind each other
    start -> f+ -> a, b, d
    a, b -> j1* -> x
    x, d -> j2* -> y -> end
    ---
    start => a b d
    complete d => a b j2+
    complete a => b j1+ j2+
    complete b => j2+ x
    complete x => y

asked again at the end of a step that touched another branch
    start -> f+ -> a, b, d
    a -> x?
    x -[false]-> j*
    x -[else]-> end1
    b -> j -> c -> end
    d -> end3
    ---
    start => a b d
    complete b => a d j+
    complete d => a j+
    complete a => c

a join in each instance of a multi-instance
    start -> sub -> end
    sub = sub loop=2
    sub: s -> f+ -> a, b -> j* -> c -> e
    ---
    start => sub(sub#0(a b) sub#1(a b))
    complete a#0 => sub(sub#0(b j+) sub#1(a b))
    complete b#1 => sub(sub#0(b j+) sub#1(a j+))
    complete b#0 => sub(sub#0(c) sub#1(a j+))
    complete a#1 => sub(sub#0(c) sub#1(c))

joined tokens wait at their own gateway only
    start -> f+ -> a, b
    a -> j1*
    b -> j1 -> c -> end
    ---
    start => a b
    complete a => b j1+
    complete b => c

an inclusive gateway without flows out
    start -> in*
    in -[x]-> a -> out*
    in -[else]-> b -> out
    ---
    start x=true => a
    complete a => completed
""")
def test_inclusive(scenario: Scenario) -> None:
    scenario.run()


@scenarios("""
an inclusive gateway by which no flow can be taken
    start -> a -> in*
    in -[x]-> b -> end
    in -[y]-> c -> end
    ---
    start x=false y=false => a
    complete a => NoFlowTaken in
    calls =>
    set x=true => a
    complete a => b
""")
def test_no_flow(scenario: Scenario) -> None:
    scenario.run()
