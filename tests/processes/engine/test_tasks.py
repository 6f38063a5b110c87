"""Tasks: in the step, outside, at a worker, by people; their variables and their listeners."""

from tests.processes.support.scenarios import Scenario, scenarios


@scenarios("""
a plain task is done at once
    start -> a -> b -> end
    a = task
    b = manual
    ---
    start => completed
    history => start a b end

a service task calls its handler in the step
    start -> a -> end
    a = service ship
    ---
    start => completed
    calls => a

five in a row
    start -> a -> b -> c -> d -> f -> end
    a = service x
    b = service x
    c = send x
    d = rule x
    f = script x
    ---
    start => completed
    calls => a b c d f

a result that is an object sets variables
    start -> a -> b -> end
    a = service set:x=n+1
    b = user
    a = service set:x=n
    ---
    start n=4 => b
    var x => 4

a result that is named is one variable
    start -> a -> b -> end
    a = service give:[1,2] -> list
    ---
    start => b
    var list => [1, 2]

an object that is named stays one
    start -> a -> b -> end
    a = service give:{} -> found
    ---
    start => b
    var found => {}

a result that is no object and has no name is dropped
    start -> a -> b -> end
    a = service give:3
    ---
    start => b
    var a => unknown

an expression instead of a handler
    start -> a -> b -> end
    a = script "$n + 1" -> m
    ---
    start n=1 => b
    var m => 2

a handler that crashes: the step has not happened
    start -> a -> b -> end
    b = service crash
    ---
    start => a
    complete a x=1 => crash
    var x => unknown
    history => start

a handler outside gets a job, and its result is taken once
    start -> a -> b -> end
    a = outside charge -> amount
    ---
    start => a*
    jobs => run:a
    done a 7 => b
    var amount => 7
    jobs =>

a handler that says itself that it runs outside
    start -> a -> b -> end
    a = service apart:charge -> amount loop=2
    ---
    start => a(a#0* a#1*)
    done a@0 7 => a(a#1*)
    done a 8 => b
    calls =>

an external worker
    start -> a -> b -> end
    a = external charge
    ---
    start => a*
    jobs => external:a
    done a {"x":1} => b
    var x => 1

a business rule outside
    start -> a -> end
    a = outside charge
    ---
    start => a*
    done a => completed
    history => start a end

a user task waits
    start -> a -> end
    a = user kim
    ---
    start => a
    tasks => a:kim
    complete a x=1 => completed
    tasks =>
    var x => 1

an assignee by an expression
    start -> a -> end
    a = user $boss
    ---
    start boss="kim" => a
    tasks => a:kim

a user task with a job before
    start -> a -> end
    a = user kim async
    ---
    start => a<
    tasks =>
    run a => a
    tasks => a:kim

completing twice is not accepted
    start -> a -> a2 -> end
    ---
    start => a
    complete a => a2

a receive task waits for its message
    start -> a -> end
    a = receive paid
    ---
    start => a
    waits => message:paid
    message paid amount=3 => completed
    var amount => 3
    waits =>

a receive task without a message waits until it is told
    start -> a -> end
    a = receive
    ---
    start => a
    waits =>
    complete a => completed

the name of a message by an expression
    start -> a -> end
    a = receive $kind
    ---
    start kind="paid" => a
    waits => message:paid

an empty name of a message
    start -> b -> a -> end
    a = receive $kind
    ---
    start kind="" => b
    complete b => NoName a
""")
def test_tasks(scenario: Scenario) -> None:
    scenario.run()


@scenarios("""
inputs are local
    start -> a -> b -> end
    a = user in:x=$n in:y=5
    ---
    start n=1 => a
    local a x => 1
    local a y => 5
    var x => unknown
    complete a => b
    var x => unknown

inputs see those before them
    start -> a -> end
    a = user "in:x=$n + 1" "in:y=$x + 1"
    ---
    start n=1 => a
    local a y => 3

a task writes to its input where there is one
    start -> a -> b -> end
    a = user in:x=$n
    ---
    start n=1 => a
    complete a x=9 => b
    var x => unknown

local variables are gone with what is done
    start -> a -> b -> end
    a = user in:x=5
    ---
    start x=1 => a
    see a x => 5
    complete a => b
    see b x => 1

also those of a sub-process
    start -> sub -> b -> end
    sub = sub in:x=5
    sub: s -> a -> e
    ---
    start => sub(a)
    see a x => 5
    complete a => b
    see b x => unknown

outputs go to the scope around
    start -> a -> b -> end
    a = service "give:{}" in:x=3 "out:y=$x + 1"
    ---
    start => b
    var y => 4
    var x => unknown

outputs of a user task
    start -> a -> b -> end
    a = user in:x=0 "out:y=$x"
    ---
    start => a
    complete a x=7 => b
    var y => 7

a variable of a sub-process hides that of the instance
    start -> sub -> end
    sub = sub in:x=2
    sub: s -> a -> e
    ---
    start x=1 => sub(a)
    see a x => 2
    var x => 1
    complete a x=3 => completed
    var x => 1

outputs of a sub-process
    start -> sub -> b -> end
    sub = sub in:x=2 "out:y=$x"
    sub: s -> a -> e
    ---
    start => sub(a)
    complete a x=3 => b
    var y => 3

writing changes the variable where it is found
    start -> sub -> end
    sub = sub in:x=2
    sub: s -> a -> b -> e
    ---
    start => sub(a)
    complete a x=3 z=4 => sub(b)
    see b x => 3
    var z => 4

a worker gets what the inputs name
    start -> a -> end
    a = external t in:x=$n
    ---
    start n=1 m=2 => a*
    local a x => 1

an expression knows its instance
    start -> a -> b -> end
    a = script $execution.business_key -> key
    ---
    start => b
    var key => "4711"

what a worker sends stays inside where Zeebe's outputs say what leaves
    start -> a -> b -> end
    a = external t put:payment=$status put:seen=$payment
    ---
    start status="new" => a*
    done a {"status":"paid","other":1} => b
    var status => "new"
    var payment => "paid"
    var seen => "paid"
    var other => unknown

what leaves may have the name of what a worker sends
    start -> a -> b -> end
    a = external t put:status=$status
    ---
    start status="new" => a*
    done a {"status":"paid"} => b
    var status => "paid"

by Camunda's rules, what a worker sends leaves, too
    start -> a -> b -> end
    a = external t out:payment=$status
    ---
    start status="new" => a*
    done a {"status":"paid"} => b
    var status => "paid"
    var payment => "paid"

a place in an object: the rest of it stays
    start -> a -> b -> end
    a = external t put:order.receipt=$receipt put:order.paid.by=$by
    ---
    start order={"id":7,"paid":{"at":1}} => a*
    done a {"receipt":"r1","by":"ann"} => b
    var order => {"id": 7, "paid": {"at": 1, "by": "ann"}, "receipt": "r1"}
    var order.receipt => unknown

a place in an object that is not there, or is none
    start -> a -> b -> end
    a = external t put:order.receipt=$receipt put:total.sum=$receipt
    ---
    start total=5 => a*
    done a {"receipt":"r1"} => b
    var order => {"receipt": "r1"}
    var total => {"sum": "r1"}

inputs that are places in one object, which is another one
    start -> a -> b -> end
    a = user get:order.id=$order.number get:order.sum=$n
    ---
    start order={"number":7} n=3 => a
    local a order => {"id": 7, "sum": 3}
    complete a => b
    var order => {"number": 7}

with the outputs of Zeebe: what a user sets
    start -> a -> b -> end
    a = user put:y=$x
    ---
    start x=1 => a
    complete a x=7 => b
    var y => 7
    var x => 1

with the outputs of Zeebe: what a handler returns, and what a script results in
    start -> a -> b -> c -> end
    a = service set:x=2 put:y=$x
    b = script "$y + 1" -> x put:z=$x
    ---
    start x=1 => c
    var x => 1
    var y => 2
    var z => 3

with the outputs of Zeebe: what a message brings
    start -> a -> b -> c -> end
    a = catch message paid put:y=$x
    late = boundary b message late put:z=$x
    late -> d
    ---
    start x=1 => a
    message paid x=2 => b
    var x => 1
    var y => 2
    message late x=3 => d
    var x => 1
    var z => 3

with the outputs of Zeebe: what the message behind a gateway brings
    start -> g~ -> a, t
    a -> b
    t -> b
    a = catch message paid put:y=$x
    t = catch timer in PT1H
    ---
    start x=1 => g
    message paid x=2 => b
    var x => 1
    var y => 2

with the outputs of Zeebe: each instance of a multi-instance
    start -> a -> b -> end
    a = external t loop=2 results=all result=x put:y=$x
    ---
    start x=1 => a(a#0* a#1*)
    done a#1 {"x":3} => a(a#0*)
    done a#0 {"x":2} => b
    var all => [2, 3]
    var x => 1

with the outputs of Zeebe: what a called process has
    start -> c -> b -> end
    c = call child out:= put:order.y=$x put:order.z=$order.y
    process child
    start -> a -> end
    ---
    start x=1 order={"id":7} => c[a]
    complete a x=2 => b
    var x => 1
    var order => {"id": 7, "y": 2, "z": 2}

a sub-process sees what its instance has
    start -> sub -> end
    sub: s -> a -> e
    ---
    start x=1 => sub(a)
    see a x => 1
    see a y => unknown
""")
def test_variables(scenario: Scenario) -> None:
    scenario.run()


@scenarios("""
listeners of a task, in their order
    start -> a -> end
    a = user on:start=one on:create=two on:complete=three on:end=four
    ---
    start => a
    notices => one:start:a two:create:a
    complete a => completed
    notices => one:start:a two:create:a three:complete:a four:end:a

of an assignment, after that of the creation
    start -> a -> b -> end
    a = user kim on:assignment=two on:create=one
    b = user on:assignment=none
    ---
    start => a
    notices => one:create:a two:assignment:a
    complete a => b
    notices => one:create:a two:assignment:a

of an assignment to nobody
    start -> a -> end
    a = user $boss on:assignment=none
    ---
    start boss="" => a
    notices =>

of a task that gets another assignee
    start -> a -> end
    a = user on:assignment=one
    ---
    start => a
    notices =>
    assign a => a
    notices => one:assignment:a

an error of a listener to an assignment is caught as one of the activity
    start -> a -> end
    a = user on:assignment=error:E1
    caught = boundary a error E1
    caught -> b -> end
    ---
    start => a
    assign a => b

an error of a listener to an assignment that nothing catches
    start -> a -> end
    a = user on:assignment=error:E1
    ---
    start => a
    assign a => UncaughtError a

of a gateway and an event
    start -> x? -> end
    x = gateway on:start=in on:end=out
    end = end on:end=last
    ---
    start => completed
    notices => in:start:x out:end:x last:end:end

of what is cancelled
    start -> a -> end
    late = boundary a timer in PT1H
    a = user on:end=gone on:delete=del
    late -> end
    ---
    start => a
    fire late => completed
    notices => del:delete:a! gone:end:a!

of what is cancelled in a multi-instance: each instance, not the body
    start -> a -> end
    a = user loop=2 on:end=out
    late = boundary a timer in PT1H
    late -> end
    ---
    start => a(a#0 a#1)
    fire late => completed
    notices => out:end:a! out:end:a!

of a join: when it goes on, and not for what is cancelled at it
    start -> sub -> end
    sub: s -> f+ -> a, b -> j+ -> e
    j = gateway on:end=out
    late = boundary sub timer in PT1H
    late -> end
    ---
    start => sub(a b)
    complete a => sub(b j+)
    fire late => completed
    notices =>
    history => start s f a j! b! sub! late end

of each instance, not of the body
    start -> a -> end
    a = user loop=2 on:start=in on:end=out
    ---
    start => a(a#0 a#1)
    notices => in:start:a in:start:a
    complete a#1 => a(a#0)
    complete a#0 => completed
    notices => in:start:a in:start:a out:end:a out:end:a

of an event sub-process
    start -> a -> end
    h = eventsub on:start=in on:end=out
    h: hs -> b -> he
    hs = start message m keep
    he = end
    ---
    start => a
    message m => a h(b)
    complete b => a
    notices => in:start:h out:end:h

an error of a listener of an event sub-process is thrown there
    start -> sub -> end
    sub: s -> a -> e
    sub: h
    h = eventsub on:start=error:E1
    h: hs -> b -> he
    hs = start message m
    he = end
    caught = boundary sub error E1
    caught -> c -> end
    ---
    start => sub(a)
    message m => c
    waits =>

an error that a listener throws is caught as one of the activity
    start -> a -> end
    a = user on:start=error:E1
    caught = boundary a error E1
    caught -> b -> end
    ---
    start => b
    tasks => b:None

an error of an end listener is caught, too
    start -> a -> end
    a = user on:end=error:E1
    caught = boundary a error E1
    caught -> b -> end
    ---
    start => a
    complete a => b
    history => start a! caught

a listener to the end that has thrown an error is called once, and the other listeners are not called for that
    start -> a -> end
    a = user on:end=one on:end=error:E1 on:end=two on:delete=del
    caught = boundary a error E1
    caught -> b -> end
    ---
    start => a
    complete a => b
    notices => one:end:a

of an event, too, if the error is caught around it
    start -> sub -> end
    sub: s -> a -> e
    e = end on:end=one on:end=error:E1
    caught = boundary sub error E1
    caught -> b -> end
    ---
    start => sub(a)
    complete a => b
    notices => one:end:e
    history => start s a e! sub! caught

and of a task in a multi-instance
    start -> a -> end
    a = user loop=2 on:end=one on:end=once:E1
    caught = boundary a error E1
    caught -> b -> end
    ---
    start => a(a#0 a#1)
    complete a#0 => b
    notices => one:end:a one:end:a! once:E1:end:a!

if nothing catches its error, it is called again when it is tried again, but not for a cancellation
    start -> f+ -> a, b -> end
    a = receive on:end=one on:end=error:E1
    ---
    start => a b
    complete a => a! b
    retry a => a! b
    notices => one:end:a one:end:a
    cancel enough => cancelled
    notices => one:end:a one:end:a

an error of a listener to the start: the element is cancelled, with its listeners
    start -> a -> end
    a = user on:start=error:E1 on:end=out
    caught = boundary a error E1
    caught -> b -> end
    ---
    start => b
    notices => out:end:a!
""")
def test_listeners(scenario: Scenario) -> None:
    scenario.run()
