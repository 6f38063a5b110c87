"""Exclusive gateways, and several flows out of an activity."""

from tests.processes.support.scenarios import Scenario, scenarios


@scenarios("""
the first condition that holds, in the order of the file
    start -> x?
    x -[n > 5]-> a -> end
    x -[n > 1]-> b -> end
    x -[else]-> c -> end
    ---
    start n=9 => a

the second
    start -> x?
    x -[n > 5]-> a -> end
    x -[n > 1]-> b -> end
    x -[else]-> c -> end
    ---
    start n=3 => b

the default if none holds
    start -> x?
    x -[n > 5]-> a -> end
    x -[n > 1]-> b -> end
    x -[else]-> c -> end
    ---
    start n=1 => c

the default is asked last, even if it stands first
    start -> x?
    x -[else]-> c -> end
    x -[n > 5]-> a -> end
    ---
    start n=9 => a

conditions behind the first that holds are not evaluated
    start -> x?
    x -[n > 5]-> a -> end
    x -[unknown > 1]-> b -> end
    ---
    start n=9 => a

one flow needs no condition
    start -> x? -> a -> end
    ---
    start => a

two tokens pass one after the other
    start -> f+ -> a, b -> x? -> c -> end
    ---
    start => a b
    complete a => b c
    complete b => c c

a gateway with a job before
    start -> x?
    x -[n]-> a -> end
    x -[else]-> b -> end
    x = gateway async
    ---
    start n=true => x<
    set n=false => x<
    run x => b

a gateway with a job after decides in the job
    start -> x?
    x -[n]-> a -> end
    x -[else]-> b -> end
    x = gateway after
    ---
    start n=true => x>
    set n=false => x>
    run x => b

a decision in a loop
    start -> m? -> a -> x?
    x -[again]-> m
    x -[else]-> end
    ---
    start again=true => a
    complete a => a
    complete a again=false => completed
    history => start m a x m a x end
""")
def test_exclusive(scenario: Scenario) -> None:
    scenario.run()


@scenarios("""
all flows without a condition are taken
    start -> a
    a -> b -> end
    a -> c -> end
    ---
    start => a
    complete a => b c

all flows whose condition holds
    start -> a
    a -[n > 1]-> b -> end
    a -[n > 2]-> c -> end
    a -[n > 3]-> d -> end
    ---
    start n=3 => a
    complete a => b c

the default if none holds
    start -> a
    a -[n > 1]-> b -> end
    a -[else]-> c -> end
    ---
    start n=1 => a
    complete a => c

not the default if one holds
    start -> a
    a -[n > 1]-> b -> end
    a -[else]-> c -> end
    ---
    start n=2 => a
    complete a => b

a flow without a condition beside one with
    start -> a
    a -[n > 1]-> b -> end
    a -> c -> end
    ---
    start n=1 => a
    complete a => c

no flow can be taken: the step has not happened
    start -> a
    a -[n > 1]-> b -> end
    ---
    start n=1 => a
    complete a => NoFlowTaken a
    var n => 1
    complete a n=2 => b

nothing of a step that fails has happened
    start -> a
    a -[n > 1]-> b -> end
    ---
    start n=1 => a
    complete a n=0 => NoFlowTaken a
    var n => 1
    history => start

no flow out of an activity ends the token
    start -> a
    ---
    start => a
    complete a => completed
    end => a

conditions on the flows of a sub-process
    start -> sub
    sub: s -> a -> e
    sub -[n]-> b -> end
    sub -[else]-> c -> end
    ---
    start n=false => sub(a)
    complete a n=true => b

conditions on the flows of a call
    start -> c
    c = call child
    c -[n]-> b -> end
    c -[else]-> d -> end
    process child
    start -> a -> end
    ---
    start n=true => c[a]
    complete a => b
""")
def test_flows_out_of_activities(scenario: Scenario) -> None:
    scenario.run()


@scenarios("""
no condition holds and there is no default
    start -> a -> x?
    x -[n > 5]-> b -> end
    x -[n > 6]-> c -> end
    ---
    start n=1 => a
    complete a => NoFlowTaken x
    complete a n=7 => b

a condition is true or false and nothing else
    start -> a -> x?
    x -[n]-> b -> end
    x -[else]-> c -> end
    ---
    start n="false" => a
    complete a => NoCondition x>b
    complete a n=null => NoCondition x>b
    complete a n=0 => NoCondition x>b
    complete a n=false => c

so is a completion condition
    start -> a -> b -> end
    a = user loop=2 until=n
    ---
    start n=1 => a(a#0 a#1)
    complete a#0 => NoCondition a

and a condition behind an activity
    start -> a
    a -[n]-> b -> end
    ---
    start n="yes" => a
    complete a => NoCondition a>b

in the step that starts the instance, there is no instance
    start -> a -> x?
    a = task
    x -[n > 5]-> b -> end
    x -[n > 6]-> c -> end
    ---
    start n=6 => b
""")
def test_no_flow(scenario: Scenario) -> None:
    scenario.run()
