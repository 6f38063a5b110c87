"""Parallel gateways: a fork, and a join by incoming flow."""

from tests.processes.support.scenarios import Scenario, scenarios


@scenarios("""
a join waits for both
    start -> fork+ -> a, b -> join+ -> end
    ---
    start => a b
    complete a => b join+
    complete b => completed
    history => start fork a b join end

the other way round
    start -> fork+ -> a, b -> join+ -> end
    ---
    start => a b
    complete b => a join+
    complete a => completed

three branches
    start -> fork+ -> a, b, c -> join+ -> d -> end
    ---
    start => a b c
    complete b => a c join+
    complete a => c join+ join+
    complete c => d

one gateway joins and forks
    start -> fork+ -> a, b -> both+ -> c, d -> end
    ---
    start => a b
    complete a => b both+
    complete b => c d
    complete c => d
    complete d => completed

no gateway before a task: each token runs it
    start -> fork+ -> a, b -> c -> end
    ---
    start => a b
    complete a => b c
    complete b => c c
    complete c => c
    complete c => completed

a fork with one flow
    start -> fork+ -> a -> end
    ---
    start => a

a gateway with one flow in joins nothing
    start -> a -> join+ -> b -> end
    ---
    start => a
    complete a => b

a gateway without flows out ends the token
    start -> fork+ -> a, b -> join+
    ---
    start => a b
    complete a => b join+
    complete b => completed
    end => join

nested forks, inner join first
    start -> f+ -> a, g+
    g -> b, c -> h+ -> i
    a, i -> j+ -> end
    ---
    start => a b c
    complete b => a c h+
    complete c => a i
    complete i => a j+
    complete a => completed

two forks to one join of three
    start -> f+ -> a, g+ -> j+ -> end
    g -> b -> j
    a -> j
    ---
    start => a b j+
    complete b => a j+ j+
    complete a => completed

two flows between the same two gateways
    start -> fork+ -> join+
    fork -> join
    join -> a -> end
    ---
    start => a

surplus tokens stay, and the join does not fire by counting
    start -> fork+ -> a, b, c
    a, b -> merge?
    merge -> join+
    c -> join
    join -> d -> end
    ---
    start => a b c
    complete a => b c join+
    complete b => c join+ join+
    complete c => d join+
    complete d => join+

a loop around a join: a second token of one flow does not fire it
    start -> fork+ -> a, b
    a -> again?
    again -[more]-> fork2+
    again -[else]-> join+
    fork2 -> a, join
    b -> join
    join -> d -> end
    ---
    start more=true => a b
    complete a => a b join+
    set more=false => a b join+
    complete a => b join+ join+

each round of a loop joins anew
    start -> m? -> fork+ -> a, b -> join+ -> x?
    x -[again]-> m
    x -[else]-> end
    ---
    start again=true => a b
    complete a => b join+
    complete b => a b
    complete b => a join+
    set again=false => a join+
    complete a => completed

a branch that ends before the join leaves it waiting for ever
    start -> fork+ -> a, b
    a -> x?
    x -[stop]-> end1
    x -[else]-> join+
    b -> join -> c -> end
    ---
    start stop=true => a b
    complete a => b
    complete b => join+

jobs before a join: each token has one, and then they join
    start -> fork+ -> a, b -> join+ -> c -> end
    join = gateway async
    ---
    start => a b
    complete a => b join<
    run join => b join+
    complete b => join+ join<
    run join => c

a job after a join is one
    start -> fork+ -> a, b -> join+ -> c -> end
    join = gateway after
    ---
    start => a b
    complete a => b join+
    complete b => join>
    run join => c

jobs on each branch
    start -> fork+ -> hotel, flight, concert -> join+ -> end
    hotel = service book async
    flight = service book async
    concert = service book async
    ---
    start => concert< flight< hotel<
    jobs => continue:concert continue:flight continue:hotel
    run flight => concert< hotel< join+
    run hotel => concert< join+ join+
    run concert => completed
    calls => flight hotel concert

a fork in a sub-process joins in it
    start -> sub -> c -> end
    sub: s -> fork+ -> a, b -> join+ -> e
    ---
    start => sub(a b)
    complete a => sub(b join+)
    complete b => c

tokens of two runs of a sub-process do not join
    start -> fork+ -> x, y -> sub -> end
    sub: s -> f+ -> a, b -> j+ -> c -> e
    ---
    start => x y
    complete x => sub(a b) y
    complete y => sub(a b) sub(a b)
    complete a@0 => sub(a b) sub(b j+)
    complete b@1 => sub(a j+) sub(b j+)
    complete a => sub(b j+) sub(c)

conditions are not asked at a parallel gateway
    start -> fork+ -> a, b -> end
    ---
    start x=false => a b

the first branch runs to its wait before the second begins
    start -> fork+ -> a, b -> end
    a -> end
    a = service one
    b = service two
    ---
    start => completed
    calls => a b
""")
def test_parallel(scenario: Scenario) -> None:
    scenario.run()
