"""What an operator changes by hand: cancel, start before, start after; and instances that begin in the middle."""

from tests.processes.support.scenarios import scenarios


@scenarios("""
from one activity to another
    start -> a -> b -> end
    ---
    start => a
    modify cancel:a before:b => b
    history => start a!
    complete b => completed
    end => end

after an activity, by the flows that leave it
    start -> a -> dec?
    dec -[n > 1]-> b
    dec -[else]-> c
    ---
    start => a
    modify cancel:a after:a n=5 => b
    var n => 5
    modify cancel:b after:a n=0 => c

one beside the other
    start -> a -> end
    ---
    start => a
    modify before:a => a a
    complete a => a
    modify before:a before:a => a a a
    modify cancel:a => cancelled

one instance more of a multi-instance that runs
    start -> a -> b -> end
    a = user loop=2
    ---
    start => a(a#0 a#1)
    modify before:a => a(a#0 a#1 a#2)
    see a#2 nrOfInstances => 3
    see a#2 loopCounter => 2
    complete a#0 => a(a#1 a#2)
    modify cancel:a/a#1 before:a => a(a#2 a#3)
    complete a#3 => a(a#2)
    complete a#2 => b

one instance more has a result, too
    start -> a -> b -> end
    a = user over=names item=name first=1 results=all result=y own=y
    ---
    start names=[1,2] => a(a#1 a#2)
    modify before:a => a(a#1 a#2 a#3)
    see a#3 name => unknown
    complete a#3 y=7 => a(a#1 a#2)
    complete a#1 y=5 => a(a#2)
    complete a#2 y=6 => b
    var all => [5, 6, 7]

the body of a multi-instance, and one that does not run
    start -> a -> b -> end
    a = user loop=2
    ---
    start => a(a#0 a#1)
    modify before:a#multiInstanceBody => a(a#0 a#1) a(a#0 a#1)
    modify before:a => BadChange a
    modify cancel:a before:b => b
    modify before:a => a(a#0 a#1) b
    modify before:b#multiInstanceBody => a(a#0 a#1) b b

one after the other there is no instance more
    start -> a -> b -> end
    a = user loop=2 seq
    ---
    start => a(a#0)
    modify before:a => BadChange a

an asynchronous activity begins by its job
    start -> a -> b -> end
    b = service charge -> amount async
    ---
    start => a
    modify cancel:a before:b => b<
    run b => completed
    calls => b

a token that is put before a join counts as one that has come
    start -> fork+ -> a, b -> join+ -> c -> end
    ---
    start => a b
    complete a => b join+
    modify before:join => b c
    complete b => c join+

the job of what is cancelled goes, and its timers and subscriptions
    start -> a -> b -> end
    a = service charge -> amount async
    t = boundary b timer in PT1H
    t -> x
    m = boundary b message paid
    m -> x
    ---
    start => a<
    modify cancel:a before:b => b
    jobs => timer:t
    waits => message:paid
    modify cancel:b before:a => a<
    jobs => continue:a
    waits =>

nothing is left
    start -> a -> end
    ---
    start => a
    modify cancel:a => cancelled
    history => start a!

an error of a listener to the start of a scope that is begun for it: nothing has happened
    start -> a -> sub -> end
    sub = sub on:start=error:E1
    sub: s -> b -> e
    caught = boundary sub error E1
    caught -> c -> end
    ---
    start => a
    modify cancel:a before:b => UncaughtError process
    tasks => a:None

what does not stand there, and what there is not
    start -> a -> b -> end
    ---
    start => a
    modify cancel:b before:a => BadChange b
    modify before:x => BadChange x
    modify cancel:x => BadChange x
    modify after:end => BadChange end

an incident is left behind
    start -> a -> b -> end
    a = service error:E1
    ---
    start => a!
    incidents => a
    modify cancel:a after:a => b
    incidents =>

into a sub-process, which begins for that
    start -> a -> sub -> end
    sub: s -> x -> y -> e
    t = boundary sub timer in PT1H
    t -> late
    ---
    start => a
    modify cancel:a before:y => sub(y)
    jobs => timer:t
    history => start a!
    complete y => completed

its own event sub-processes are armed
    start -> a -> sub -> end
    sub: s -> x -> e
    sub: h
    h = eventsub
    h: hs -> b -> he
    hs = start message stop
    he = end
    ---
    start => a
    modify cancel:a before:x => sub(x)
    waits => message:stop
    message stop => sub(h(b))
    modify before:hs => BadChange hs
    modify before:h => BadChange h
    modify cancel:b before:x => sub(x)

into the one that runs
    start -> sub -> end
    sub: s -> x -> y -> e
    ---
    start => sub(x)
    modify before:y => sub(x y)
    modify cancel:x cancel:y before:y => sub(y)
    history => start s x! y! sub!

two scopes deep
    start -> a -> sub -> end
    sub: s -> in -> e
    in: is -> x -> ie
    ie = end
    is = start
    ---
    start => a
    modify cancel:a before:x => sub(in(x))
    modify cancel:x before:a => a
    complete a => sub(in(x))

which of several
    start -> sub -> end
    sub = sub loop=2
    sub: s -> x -> e
    ---
    start => sub(sub#0(x) sub#1(x))
    modify before:x => BadChange x
    modify cancel:sub before:x => BadChange x
    modify cancel:sub before:sub => sub(sub#0(x) sub#1(x))
    complete x@0 => sub(sub#1(x))
    modify before:x => sub(sub#1(x x))

one of several is enough
    start -> a -> end
    a = user loop=3
    ---
    start => a(a#0 a#1 a#2)
    modify before:a#multiInstanceBody => a(a#0 a#1 a#2) a(a#0 a#1 a#2)
    modify cancel:a => cancelled

one instance in a multi-instance less
    start -> sub -> end
    sub = sub loop=3
    sub: s -> dec?
    sub: dec -[loopCounter == 1]-> x -> e
    sub: dec -[else]-> y -> e
    ---
    start => sub(sub#0(y) sub#1(x) sub#2(y))
    modify cancel:x => sub(sub#0(y) sub#2(y))
    see y nrOfInstances => 2
    see y nrOfActiveInstances => 2
    complete y => sub(sub#2(y))
    complete y => completed

one arrival alone
    start -> a -> end
    a = user loop=3
    ---
    start => a(a#0 a#1 a#2)
    modify cancel:a/a#1 => a(a#0 a#2)
    see a nrOfInstances => 2
    complete a => a(a#2)
    see a nrOfActiveInstances => 1
    modify cancel:a/a#2 => cancelled

one arrival of several
    start -> a -> end
    ---
    start => a
    modify before:a => a a
    modify cancel:a/a@1 before:b => BadChange b
    modify cancel:a/a@1 => a
    complete a => completed

the one of a sequential multi-instance is all there is
    start -> fork+ -> a, b -> join+ -> end
    a = user loop=3 seq
    ---
    start => a(a#0) b
    modify cancel:a/a#0 => b

in one scope of several
    start -> sub -> end
    sub = sub loop=2
    sub: s -> x -> y -> e
    ---
    start => sub(sub#0(x) sub#1(x))
    modify before:y/sub#1 => sub(sub#0(x) sub#1(x y))
    modify cancel:sub/sub#0 before:y/sub#1 => sub(sub#1(x y y))
    modify before:s/x => BadChange s

below a scope that is named
    start -> sub -> end
    sub = sub loop=2
    sub: s -> x -> in -> e
    in: is -> y -> ie
    is = start
    ie = end
    ---
    start => sub(sub#0(x) sub#1(x))
    modify before:y/sub#1 => sub(sub#0(x) sub#1(in(y) x))

a join counts what is put before it
    start -> fork+ -> a, b, c -> join+ -> end
    ---
    start => a b c
    modify cancel:a before:join => b c join+
    modify cancel:b before:join => c join+ join+
    complete c => completed

at once
    start -> fork+ -> a, b -> join+ -> d -> end
    ---
    start => a b
    modify cancel:a cancel:b before:join before:join => d

an inclusive join asks who can still come
    start -> fork* -> a, b -> join* -> end
    ---
    start => a b
    modify cancel:a before:join => b join+
    complete b => completed

what only events begin
    start -> a -> end
    t = boundary a timer in PT1H
    t -> late -> end
    ---
    start => a
    modify before:t => BadChange t
    modify cancel:a after:t => late

a handler of a compensation: its event goes on with the next one, and is cancelled with the last one
    start -> hotel -> flight -> f+ -> undo, pay
    undo -> rest -> end
    undo = throw compensate
    hotel = service book undo=unhotel
    flight = service book undo=unflight
    unhotel = user compensation
    unflight = user compensation
    ---
    start => pay undo unflight ~hotel
    modify cancel:unflight => pay undo unhotel
    modify cancel:unhotel => pay
    history => start hotel flight f unflight! unhotel! undo!
    complete pay => completed

the only handler, and a start after its event
    start -> hotel -> undo -> rest -> end
    undo = throw compensate
    hotel = service book undo=unhotel
    unhotel = user compensation
    ---
    start => undo unhotel
    modify cancel:unhotel after:undo => rest

nothing is left with the only handler
    start -> sub -> rest -> end
    sub: s -> hotel -> undo -> e
    undo = throw compensate
    hotel = service book undo=unhotel
    sub: unhotel
    unhotel = user compensation
    ---
    start => sub(undo unhotel)
    modify cancel:unhotel => cancelled

a handler that failed
    start -> hotel -> flight -> undo -> rest -> end
    undo = throw compensate
    hotel = service book undo=unhotel
    flight = service book undo=unflight
    unhotel = user compensation
    unflight = service error:E1 compensation
    ---
    start => undo unflight! ~hotel
    modify cancel:unflight => undo unhotel
    incidents =>
    complete unhotel => rest

what is in a handler, and a handler of what is done within
    start -> sub -> undo -> rest -> end
    sub: s -> hotel -> flight -> e
    undo = throw compensate
    hotel = service book undo=unhotel
    flight = service book undo=unflight
    sub: unhotel
    unhotel = user compensation
    sub: unflight
    unflight = sub compensation
    unflight: s2 -> x -> e2
    s2 = start
    e2 = end
    ---
    start => undo ~sub(unflight(x) ~hotel)
    modify cancel:x => undo ~sub(unhotel)
    complete unhotel => rest

a handler and its event
    start -> hotel -> flight -> f+ -> undo, pay
    undo -> rest -> end
    undo = throw compensate
    hotel = service book undo=unhotel
    flight = service book undo=unflight
    unhotel = user compensation
    unflight = user compensation
    ---
    start => pay undo unflight ~hotel
    modify cancel:unflight cancel:undo => pay ~hotel

the instances of a handler
    start -> hotel -> undo -> rest -> end
    undo = throw compensate
    hotel = service book undo=unhotel
    unhotel = user loop=2 compensation
    ---
    start => undo unhotel(unhotel#0 unhotel#1)
    modify cancel:unhotel/unhotel#0 => undo unhotel(unhotel#1)
    complete unhotel#1 => rest

a called instance
    start -> c -> end
    c = call child
    process child
    start -> a -> b -> end
    ---
    start => c[a]
    modify of:c cancel:a before:b => c[b]
    modify of:c cancel:b => BadChange b
    modify cancel:c before:c => c[a]
    states => active cancelled active

it begins in the middle
    start -> a -> b -> sub -> end
    sub: s -> x -> e
    h = eventsub
    h: hs -> z -> he
    hs = start message stop
    he = end
    ---
    begin before:b n=5 => b
    var n => 5
    waits => message:stop
    complete b => sub(x)

it begins at two places
    start -> fork+ -> a, b -> join+ -> end
    ---
    begin before:b after:a => b join+
    complete b => completed

it begins where it cannot
    start -> a -> end
    ---
    begin before:x => BadChange x
""")
def test_changes_by_hand(scenario):
    scenario.run()
