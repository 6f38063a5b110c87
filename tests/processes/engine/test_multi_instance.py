"""Multi-instance activities: parallel and sequential, their counts, conditions and results."""

from tests.processes.support.scenarios import Scenario, scenarios


@scenarios("""
as many as the cardinality says
    start -> a -> b -> end
    a = user loop=3
    ---
    start => a(a#0 a#1 a#2)
    complete a#1 => a(a#0 a#2)
    complete a#0 => a(a#2)
    complete a#2 => b
    history => start a a a a

by an expression
    start -> a -> b -> end
    a = user loop=$n
    ---
    start n=2 => a(a#0 a#1)

none at all
    start -> a -> b -> end
    a = user loop=0
    ---
    start => b
    history => start a

one
    start -> a -> b -> end
    a = user loop=1
    ---
    start => a(a#0)
    complete a => b

over a list, with its items
    start -> a -> b -> end
    a = user over=names item=name
    ---
    start names=["x","y"] => a(a#0 a#1)
    local a#0 name => "x"
    local a#1 name => "y"
    see a#1 loopCounter => 1
    complete a#0 => a(a#1)
    complete a#1 => b
    var name => unknown

over an empty list
    start -> a -> b -> end
    a = user over=names item=name
    ---
    start names=[] => b

the counts
    start -> a -> b -> end
    a = user loop=3
    ---
    start => a(a#0 a#1 a#2)
    see a#0 nrOfInstances => 3
    see a#0 nrOfActiveInstances => 3
    see a#0 nrOfCompletedInstances => 0
    complete a#1 => a(a#0 a#2)
    see a#0 nrOfActiveInstances => 2
    see a#0 nrOfCompletedInstances => 1

a completion condition cancels the rest
    start -> a -> b -> end
    a = user loop=4 "until=nrOfCompletedInstances >= 2"
    ---
    start => a(a#0 a#1 a#2 a#3)
    complete a#3 => a(a#0 a#1 a#2)
    complete a#0 => b
    history => start a a a! a! a
    tasks => b:None

it sees what the instance has set
    start -> a -> b -> end
    a = user loop=2 until=enough
    ---
    start enough=false => a(a#0 a#1)
    complete a#1 enough=true => b

it sees the item
    start -> a -> b -> end
    a = user over=names item=name "until=name == 'y'"
    ---
    start names=["x","y","z"] => a(a#0 a#1 a#2)
    complete a#0 => a(a#1 a#2)
    complete a#1 => b

a completion condition by the names of Zeebe
    start -> a -> b -> end
    a = user loop=5 "until=numberOfInstances == 5 and numberOfCompletedInstances >= 2 and numberOfActiveInstances == 3"
    ---
    start => a(a#0 a#1 a#2 a#3 a#4)
    see a#0 numberOfInstances => unknown
    complete a#1 => a(a#0 a#2 a#3 a#4)
    complete a#0 => b

counted from one, as in Zeebe
    start -> a -> b -> end
    a = outside x -> y over=names item=name first=1 results=all result=y
    ---
    start names=["x","y"] => a(a#1* a#2*)
    see a#1 loopCounter => 1
    local a#2 name => "y"
    done a#2 7 => a(a#1*)
    done a#1 6 => b
    var all => [6, 7]

each instance has a result of its own, as in Zeebe
    start -> a -> b -> end
    a = user over=names item=name first=1 results=all result=y own=y
    ---
    start names=[1,2,3] => a(a#1 a#2 a#3)
    see a#1 y => null
    complete a#2 y=7 => a(a#1 a#3)
    see a#1 y => null
    complete a#3 => a(a#1)
    complete a#1 y=6 => b
    var all => [6, 7, null]
    var y => unknown

an output into the result of an instance stays there, as in Zeebe
    start -> a -> b -> end
    a = user over=names item=name first=1 results=all result=r own=r put:r=$q put:seen=$q
    ---
    start names=[1,2] r=7 => a(a#1 a#2)
    complete a#2 q=6 => a(a#1)
    complete a#1 q=5 => b
    var all => [5, 6]
    var r => 7
    var seen => 5

the condition sees the counts, whatever the instances have of their names
    start -> c -> b -> end
    c = call child loop=3 seq in:= stay:= "until=nrOfCompletedInstances >= 2"
    process child
    start -> a -> end
    ---
    start x=1 => c(c#0[a])
    complete a nrOfCompletedInstances=0 => c(c#1[a])
    complete a nrOfCompletedInstances=0 => b

counts that are sent back are not set
    start -> a -> b -> end
    a = user loop=3 "until=nrOfCompletedInstances >= 2"
    ---
    start => a(a#0 a#1 a#2)
    complete a#1 loopCounter=9 nrOfInstances=9 nrOfCompletedInstances=0 => a(a#0 a#2)
    see a#0 nrOfInstances => 3
    complete a#0 nrOfCompletedInstances=0 => b
    var loopCounter => unknown
    var nrOfInstances => unknown

counts that a called process gives back are not set
    start -> c -> b -> end
    c = call child loop=2 seq in:= out:=
    process child
    start -> a -> end
    ---
    start x=1 => c(c#0[a])
    complete a x=2 => c(c#1[a])
    complete a => b
    var x => 2
    var loopCounter => unknown
    var nrOfInstances => unknown

counted from one, one after the other
    start -> a -> b -> end
    a = user over=names item=name first=1 seq
    ---
    start names=["x","y"] => a(a#1)
    complete a => a(a#2)
    local a name => "y"
    complete a => b

services in the step
    start -> a -> b -> end
    a = service ship loop=3
    ---
    start => b
    calls => a0 a1 a2

services in the step until it is enough
    start -> a -> b -> end
    a = service ship loop=3 "until=nrOfCompletedInstances == 2"
    ---
    start => b
    calls => a0 a1

results in the order of the list, not of the ends
    start -> a -> b -> end
    a = outside ship over=names item=name results=parcels result=parcel
    a = outside ship -> parcel over=names item=name results=parcels result=parcel
    ---
    start names=["x","y"] => a(a#0* a#1*)
    done a#1 "P2" => a(a#0*)
    done a#0 "P1" => b
    var parcels => ["P1", "P2"]
    var parcel => unknown

results of those that were cancelled are null
    start -> a -> b -> end
    a = user loop=3 results=all result=x "until=nrOfCompletedInstances == 1"
    ---
    start => a(a#0 a#1 a#2)
    complete a#1 x=7 => b
    var all => [null, 7, null]

a list that is none
    start -> x -> a -> b -> end
    a = user over=names item=name
    ---
    start names=3 => x
    complete x => BadLoop a

a cardinality that is no number
    start -> x -> a -> b -> end
    a = user loop=$n
    ---
    start n="many" => x
    complete x => BadLoop a

a cardinality below zero
    start -> x -> a -> b -> end
    a = user loop=$n
    ---
    start n=-1 => x
    complete x => BadLoop a

a sub-process
    start -> sub -> b -> end
    sub = sub loop=2
    sub: s -> f+ -> a, c -> j+ -> e
    ---
    start => sub(sub#0(a c) sub#1(a c))
    complete a#0 => sub(sub#0(c j+) sub#1(a c))
    complete c#0 => sub(sub#1(a c))
    complete c#1 => sub(sub#1(a j+))
    complete a#1 => b

a call
    start -> c -> b -> end
    c = call child over=names item=name in:x=$name
    process child
    start -> a -> end
    ---
    start names=["x","y"] => c(c#0[a] c#1[a])
    complete a@1 => c(c#0[a])
    complete a => b
    states => active completed completed

nested in each other
    start -> sub -> b -> end
    sub = sub over=rows item=row
    sub: s -> a -> e
    a = user over=row item=cell
    ---
    start rows=[[1,2],[3]] => sub(sub#0(a(a#0 a#1)) sub#1(a(a#0)))
    see a@2 cell => 3
    see a@2 loopCounter => 0
    complete a@2 => sub(sub#0(a(a#0 a#1)))
    complete a#0 => sub(sub#0(a(a#1)))
    complete a#1 => b

inputs are of each instance
    start -> a -> b -> end
    a = user loop=2 "in:x=$loopCounter + 10"
    ---
    start => a(a#0 a#1)
    local a#0 x => 10
    local a#1 x => 11

two flows lead out of it once
    start -> a -> b, c -> end
    a = user loop=2
    ---
    start => a(a#0 a#1)
    complete a#0 => a(a#1)
    complete a#1 => b c
""")
def test_parallel(scenario: Scenario) -> None:
    scenario.run()


@scenarios("""
one after the other
    start -> a -> b -> end
    a = user loop=3 seq
    ---
    start => a(a#0)
    complete a => a(a#1)
    complete a => a(a#2)
    complete a => b
    history => start a a a a

none at all
    start -> a -> b -> end
    a = user loop=0 seq
    ---
    start => b

over a list
    start -> a -> b -> end
    a = user over=names item=name seq
    ---
    start names=["x","y"] => a(a#0)
    local a name => "x"
    complete a => a(a#1)
    local a name => "y"
    complete a => b

the list of the beginning counts
    start -> a -> b -> end
    a = user over=names item=name seq
    ---
    start names=["x","y"] => a(a#0)
    set names=[] => a(a#0)
    complete a => a(a#1)
    local a name => "y"

the counts
    start -> a -> b -> end
    a = user loop=3 seq
    ---
    start => a(a#0)
    complete a => a(a#1)
    see a nrOfInstances => 3
    see a nrOfActiveInstances => 1
    see a nrOfCompletedInstances => 1
    see a loopCounter => 1

a completion condition
    start -> a -> b -> end
    a = user loop=5 seq "until=nrOfCompletedInstances >= 2"
    ---
    start => a(a#0)
    complete a => a(a#1)
    complete a => b

many services in the step need no deep stack
    start -> a -> b -> end
    a = service ship loop=2000 seq
    ---
    start => b

results
    start -> a -> b -> end
    a = script "$loopCounter + 1" -> x loop=3 seq results=all result=x
    ---
    start => b
    var all => [1, 2, 3]

a sub-process
    start -> sub -> b -> end
    sub = sub loop=2 seq
    sub: s -> a -> e
    ---
    start => sub(sub#0(a))
    complete a => sub(sub#1(a))
    complete a => b

a call
    start -> c -> b -> end
    c = call child loop=2 seq
    process child
    start -> a -> end
    ---
    start => c(c#0[a])
    complete a => c(c#1[a])
    complete a => b
""")
def test_sequential(scenario: Scenario) -> None:
    scenario.run()


@scenarios("""
async is of the body
    start -> a -> b -> end
    a = user loop=2 async
    ---
    start => a<
    jobs => continue:a
    run a => a(a#0 a#1)

async inside is of each instance
    start -> a -> b -> end
    a = user loop=2 inner-async
    ---
    start => a(a#0< a#1<)
    jobs => continue:a continue:a
    run a#1 => a(a#0< a#1)
    complete a#1 => a(a#0<)
    run a#0 => a(a#0)

both
    start -> a -> b -> end
    a = service ship loop=2 async inner-async
    ---
    start => a<
    run a => a(a#0< a#1<)
    run a#0 => a(a#1<)
    run a#1 => b

after is of the body
    start -> a -> b -> end
    a = user loop=2 after
    ---
    start => a(a#0 a#1)
    complete a#0 => a(a#1)
    complete a#1 => a>
    run a => b

after inside is of each instance
    start -> a -> b -> end
    a = user loop=2 inner-after
    ---
    start => a(a#0 a#1)
    complete a#0 => a(a#0> a#1)
    complete a#1 => a(a#0> a#1>)
    run a#0 => a(a#1>)
    run a#1 => b

results are kept while a job is to leave an instance
    start -> a -> b -> end
    a = user loop=2 inner-after results=all result=x
    ---
    start => a(a#0 a#1)
    complete a#1 x=7 => a(a#0 a#1>)
    complete a#0 x=6 => a(a#0> a#1>)
    run a#1 => a(a#0>)
    run a#0 => b
    var all => [6, 7]

sequential, with jobs inside
    start -> a -> b -> end
    a = service ship loop=2 seq inner-async
    ---
    start => a(a#0<)
    run a => a(a#1<)
    run a => b

sequential, with jobs after each
    start -> a -> b -> end
    a = service ship loop=2 seq inner-after
    ---
    start => a(a#0>)
    run a => a(a#1>)
    run a => b

handlers outside
    start -> a -> b -> end
    a = outside ship loop=2
    ---
    start => a(a#0* a#1*)
    jobs => run:a run:a
    done a#0 => a(a#1*)
    done a#1 => b

a condition cancels those that have jobs
    start -> a -> b -> end
    a = outside ship loop=3 "until=nrOfCompletedInstances == 1"
    ---
    start => a(a#0* a#1* a#2*)
    done a#1 => b
    jobs =>

a batch has no token for each
    start -> a -> b -> end
    a = outside ship over=names item=name batch results=all
    ---
    start names=["x","y"] => a*
    jobs => batch:a
    done a [1,2] => b
    var all => [1, 2]

a batch is interrupted
    start -> a -> b -> end
    a = outside ship over=names item=name batch
    late = boundary a timer in PT1H
    late -> c -> end
    ---
    start names=["x","y"] => a*
    fire late => c
    jobs =>
""")
def test_jobs(scenario: Scenario) -> None:
    scenario.run()


@scenarios("""
messages
    start -> a -> b -> end
    a = receive paid loop=2
    ---
    start => a(a#0 a#1)
    waits => message:paid message:paid
    message paid#1 => a(a#0)
    message paid => b

workers
    start -> a -> b -> end
    a = external pick over=names item=name
    ---
    start names=["x","y"] => a(a#0* a#1*)
    done a#1 => a(a#0*)
    done a#0 => b

a terminated instance counts
    start -> sub -> b -> end
    sub = sub loop=2 "until=nrOfCompletedInstances == 1"
    sub: s -> a -> e
    e = end terminate
    ---
    start => sub(sub#0(a) sub#1(a))
    complete a#1 => b

an incident in one holds the body
    start -> a -> b -> end
    a = outside ship loop=2
    ---
    start => a(a#0* a#1*)
    error a#0 E1 => a(a#0! a#1*)
    done a#1 => a(a#0!)
    retry a => a(a#0*)
    done a => b

an error when a result is taken
    start -> a -> b -> end
    a = user loop=2 results=all "result=error E1"
    caught = boundary a error E1
    caught -> c -> end
    ---
    start => a(a#0 a#1)
    complete a#1 => c
    tasks => c:None

a boundary timer of a multi-instance with jobs inside
    start -> a -> b -> end
    a = user loop=2 async inner-async
    late = boundary a timer in PT1H
    late -> c -> end
    ---
    start => a<
    timers =>
    run a => a(a#0< a#1<)
    timers => late:duration:PT1H
    fire late => c
    jobs =>
""")
def test_of_other_activities(scenario: Scenario) -> None:
    scenario.run()
