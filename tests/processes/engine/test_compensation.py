"""Compensation: undoing what is done, backwards."""

from tests.processes.support.scenarios import Scenario, scenarios

TRIP = """
    start -> hotel -> flight -> pay -> end
    hotel = service book undo=unhotel
    flight = service book undo=unflight
    unhotel = user compensation
    unflight = user compensation
"""
THROWN = """
    start -> hotel -> flight -> pay -> undo -> rest -> end
    undo = throw compensate
    hotel = service book undo=unhotel
    flight = service book undo=unflight
    unhotel = user compensation
    unflight = user compensation
"""
TWICE = """
    start -> hotel -> flight -> f+ -> a, b
    a -> undo -> rest -> end
    b -> undo2 -> last -> end2
    undo = throw compensate
    undo2 = throw compensate
    hotel = service book undo=unhotel
    flight = service book undo=unflight
    unhotel = user compensation
    unflight = user compensation
"""


@scenarios(f"""
what is done is remembered
    {TRIP}
    ---
    start => pay ~flight ~hotel
    complete pay => completed

an event undoes all of its scope, backwards, and then goes on
    {THROWN}
    ---
    start => pay ~flight ~hotel
    complete pay => undo unflight ~hotel
    complete unflight => undo unhotel
    complete unhotel => rest
    history => start hotel flight pay unflight unhotel undo

at the end
    start -> hotel -> pay -> undo
    undo = end compensate
    hotel = service book undo=unhotel
    unhotel = user compensation
    ---
    start => pay ~hotel
    complete pay => undo unhotel
    complete unhotel => completed

nothing to undo
    start -> pay -> undo -> rest -> end
    undo = throw compensate
    ---
    start => pay
    complete pay => rest

one activity only
    start -> hotel -> flight -> pay -> undo -> rest -> end
    undo = throw compensate hotel
    hotel = service book undo=unhotel
    flight = service book undo=unflight
    unhotel = user compensation
    unflight = user compensation
    ---
    start => pay ~flight ~hotel
    complete pay => undo unhotel ~flight
    complete unhotel => rest ~flight

what was done twice is undone twice
    start -> m? -> hotel -> x?
    x -[again]-> m
    x -[else]-> pay -> undo -> rest -> end
    hotel = user undo=unhotel
    undo = throw compensate
    unhotel = user compensation
    ---
    start again=true => hotel
    complete hotel => hotel ~hotel
    complete hotel again=false => pay ~hotel ~hotel
    complete pay => undo unhotel ~hotel
    complete unhotel => undo unhotel
    complete unhotel => rest

two events at once: what is done is undone for the first one, and the second one goes on (Camunda)
    {TWICE}
    ---
    start => a b ~flight ~hotel
    complete a => b undo unflight ~hotel
    complete b => last undo unflight ~hotel
    complete unflight => last undo unhotel
    complete unhotel => last rest

what the first of two events does not undo any more is undone for the second one
    {TWICE}
    ---
    start => a b ~flight ~hotel
    complete a => b undo unflight ~hotel
    modify cancel:undo => b ~hotel
    complete b => undo2 unhotel
    complete unhotel => last

once undone, it is not undone again
    start -> hotel -> pay -> undo -> rest -> undo2 -> last -> end
    hotel = service book undo=unhotel
    undo = throw compensate
    undo2 = throw compensate
    unhotel = user compensation
    ---
    start => pay ~hotel
    complete pay => undo unhotel
    complete unhotel => rest
    complete rest => last

what is not done is not undone
    start -> f+ -> hotel, pay
    hotel -> end
    pay -> undo -> rest -> end
    hotel = user undo=unhotel
    undo = throw compensate
    unhotel = user compensation
    ---
    start => hotel pay
    complete pay => hotel rest

what was interrupted is not undone
    start -> hotel -> end
    late = boundary hotel timer in PT1H
    late -> undo -> rest -> end
    hotel = user undo=unhotel
    undo = throw compensate
    unhotel = user compensation
    ---
    start => hotel
    fire late => rest

handlers outside
    start -> hotel -> undo -> rest -> end
    undo = throw compensate
    hotel = service book undo=unhotel
    unhotel = outside cancel compensation
    ---
    start => undo unhotel*
    done unhotel => rest

handlers in the step
    start -> hotel -> flight -> undo -> rest -> end
    undo = throw compensate
    hotel = service book undo=unhotel
    flight = service book undo=unflight
    unhotel = service cancel compensation
    unflight = service cancel compensation
    ---
    start => rest
    calls => hotel flight unflight unhotel

a handler sees the inputs of what it undoes
    start -> hotel -> undo -> rest -> end
    undo = throw compensate
    hotel = service book in:room=$n undo=unhotel
    unhotel = user compensation
    ---
    start n=7 => undo unhotel
    see unhotel room => 7
    var room => unknown

a sub-process that is done is undone from within
    start -> sub -> pay -> undo -> rest -> end
    sub: s -> hotel -> flight -> e
    hotel = service book undo=unhotel
    flight = service book undo=unflight
    sub: unhotel
    sub: unflight
    unhotel = user compensation
    unflight = user compensation
    undo = throw compensate
    ---
    start => pay ~sub(~flight ~hotel)
    complete pay => undo ~sub(unflight ~hotel)
    complete unflight => undo ~sub(unhotel)
    complete unhotel => rest

a sub-process keeps its variables for that
    start -> sub -> pay -> undo -> rest -> end
    sub = sub in:city=Rome
    sub: s -> hotel -> e
    hotel = service book undo=unhotel
    sub: unhotel
    unhotel = user compensation
    undo = throw compensate
    ---
    start => pay ~sub(~hotel)
    complete pay => undo ~sub(unhotel)
    see unhotel city => "Rome"
    complete unhotel => rest

a sub-process with a handler of its own
    start -> sub -> pay -> undo -> rest -> end
    sub = sub undo=unsub
    sub: s -> hotel -> e
    hotel = service book undo=unhotel
    sub: unhotel
    unhotel = user compensation
    unsub = user compensation
    undo = throw compensate
    ---
    start => pay ~sub
    complete pay => undo unsub
    complete unsub => rest

the order goes over sub-processes
    start -> car -> sub -> flight -> undo -> rest -> end
    car = service book undo=uncar
    flight = service book undo=unflight
    uncar = user compensation
    unflight = user compensation
    sub: s -> hotel -> e
    hotel = service book undo=unhotel
    sub: unhotel
    unhotel = user compensation
    undo = throw compensate
    ---
    start => undo unflight ~car ~sub(~hotel)
    complete unflight => undo ~car ~sub(unhotel)
    complete unhotel => uncar undo
    complete uncar => rest

each instance of a multi-instance, backwards
    start -> hotel -> undo -> rest -> end
    hotel = service book loop=2 in:room=$loopCounter undo=unhotel
    unhotel = user compensation
    undo = throw compensate
    ---
    start => undo ~hotel(unhotel ~hotel)
    see unhotel room => 1
    see unhotel loopCounter => 1
    complete unhotel => undo ~hotel(unhotel)
    see unhotel room => 0
    complete unhotel => rest

an event in a sub-process undoes that only
    start -> hotel -> sub -> rest -> end
    hotel = service book undo=unhotel
    unhotel = user compensation
    sub: s -> flight -> undo -> e
    flight = service book undo=unflight
    sub: unflight
    unflight = user compensation
    undo = throw compensate
    ---
    start => sub(undo unflight) ~hotel
    complete unflight => rest ~hotel

an event sub-process undoes the scope around it
    start -> hotel -> pay -> end
    hotel = service book undo=unhotel
    unhotel = user compensation
    h = eventsub
    h: hs -> undo -> he
    hs = start message stop
    undo = throw compensate
    he = end
    ---
    start => pay ~hotel
    message stop => h(undo) unhotel
    complete unhotel => completed

an error undoes, too
    start -> sub -> rest -> end
    sub: s -> hotel -> pay -> bad
    hotel = service book undo=unhotel
    sub: unhotel
    unhotel = user compensation
    bad = end error E1
    sub: h
    h = eventsub
    h: hs -> undo -> he
    hs = start error E1
    undo = throw compensate
    he = end
    ---
    start => sub(pay ~hotel)
    complete pay => sub(h(undo) unhotel)
    complete unhotel => rest

an interrupted sub-process forgets what was done in it
    start -> sub -> rest -> end
    sub: s -> hotel -> pay -> e
    hotel = service book undo=unhotel
    sub: unhotel
    unhotel = user compensation
    late = boundary sub timer in PT1H
    late -> undo -> last -> end
    undo = throw compensate
    ---
    start => sub(pay ~hotel)
    fire late => last

what a handler does is not undone
    start -> hotel -> undo -> rest -> end
    hotel = service book undo=unhotel
    unhotel = sub compensation
    unhotel: s -> a -> e
    a = user undo=again
    unhotel: again
    again = user compensation
    undo = throw compensate
    ---
    start => undo unhotel(a)
    complete a => rest

no instance of a multi-instance: nothing to undo
    start -> hotel -> pay -> undo -> rest -> end
    hotel = service book loop=0 undo=unhotel
    unhotel = user compensation
    undo = throw compensate
    ---
    start => pay
    complete pay => rest

a completion condition sees the variables of a sub-process that is remembered
    start -> sub -> pay -> end
    sub = sub over=names item=name "until=name == 'x'"
    sub: s -> a -> e
    a = user undo=un
    sub: un
    un = user compensation
    ---
    start names=["x","y"] => sub(sub#0(a) sub#1(a))
    complete a#0 => pay ~sub(~sub#0(~a))

a sub-process with a handler of its own forgets all within
    start -> sub -> pay -> undo -> rest -> end
    sub = sub undo=unsub
    sub: s -> inner -> e
    inner: s2 -> hotel -> e2
    s2 = start
    e2 = end
    hotel = service book undo=unhotel
    inner: unhotel
    unhotel = user compensation
    unsub = user compensation
    undo = throw compensate
    ---
    start => pay ~sub
    complete pay => undo unsub
    complete unsub => rest

a handler that is repeated
    start -> hotel -> undo -> rest -> end
    hotel = service book undo=unhotel
    unhotel = user loop=2 compensation
    undo = throw compensate
    ---
    start => undo unhotel(unhotel#0 unhotel#1)
    complete unhotel#0 => undo unhotel(unhotel#1)
    see unhotel nrOfActiveInstances => 1
    complete unhotel#1 => rest

an incident of a handler: it begins again with what it knew
    start -> hotel -> undo -> rest -> end
    hotel = service book loop=2 in:room=$loopCounter undo=unhotel
    unhotel = external cancel compensation
    undo = throw compensate
    ---
    start => undo ~hotel(unhotel* ~hotel)
    error unhotel E1 => undo ~hotel(unhotel! ~hotel)
    retry unhotel => undo ~hotel(unhotel* ~hotel)
    see unhotel room => 1
    see unhotel loopCounter => 1
    done unhotel => undo ~hotel(unhotel*)
    done unhotel => rest

the handlers of an event that is cancelled are cancelled with it
    start -> hotel -> pay -> end
    hotel = service book undo=unhotel
    unhotel = user compensation
    h = eventsub
    h: hs -> f+ -> undo, stop
    h: undo -> he
    h: stop -> ht
    hs = start message stop keep
    undo = throw compensate
    ht = end terminate
    he = end
    ---
    start => pay ~hotel
    message stop => h(stop undo) pay unhotel
    complete stop => pay
    history => start hotel hs f stop unhotel! undo! ht h
    complete pay => completed

a terminate event beside it cancels both
    start -> hotel -> sub -> rest -> end
    hotel = service book
    sub: s -> flight -> f+ -> undo, stop
    sub: undo -> e
    sub: stop -> t
    flight = service book undo=unflight
    sub: unflight
    unflight = user compensation
    undo = throw compensate
    t = end terminate
    ---
    start => sub(stop undo unflight)
    complete stop => rest

a handler that is a sub-process
    start -> hotel -> undo -> rest -> end
    hotel = service book undo=unhotel
    unhotel = sub compensation
    unhotel: s -> a -> e
    undo = throw compensate
    ---
    start => undo unhotel(a)
    complete a => rest
""")
def test_compensation(scenario: Scenario) -> None:
    scenario.run()


@scenarios(f"""
cancelled: what is done is undone, backwards
    compensates
    {TRIP}
    ---
    start => pay ~flight ~hotel
    cancel why => unflight ~hotel
    states => compensating
    tasks => unflight:None
    complete unflight => unhotel
    complete unhotel => cancelled
    history => start hotel flight pay! unflight unhotel

with nothing done
    compensates
    start -> pay -> end
    ---
    start => pay
    cancel why => cancelled

while an event undoes: its handler carries on, and then the rest is undone
    compensates
    start -> car -> hotel -> flight -> undo -> pay -> end
    undo = throw compensate flight
    car = service book undo=uncar
    hotel = service book undo=unhotel
    flight = service book undo=unflight
    uncar = user compensation
    unhotel = user compensation
    unflight = user compensation
    ---
    start => undo unflight ~car ~hotel
    cancel why => unflight ~car ~hotel
    tasks => unflight:None
    complete unflight => unhotel ~car
    complete unhotel => uncar
    complete uncar => cancelled
    history => start car hotel flight undo! unflight unhotel uncar

while two events undo: the rest is undone after both
    compensates
    start -> car -> hotel -> flight -> f+ -> a, b
    a = throw compensate flight
    b = throw compensate hotel
    a -> end
    b -> end2
    car = service book undo=uncar
    hotel = service book undo=unhotel
    flight = service book undo=unflight
    uncar = user compensation
    unhotel = user compensation
    unflight = user compensation
    ---
    start => a b unflight unhotel ~car
    cancel why => unflight unhotel ~car
    complete unhotel => unflight ~car
    complete unflight => uncar
    complete uncar => cancelled

while a deadline undoes, also within what is done: a handler that is dead waits on
    compensates
    start -> sub -> pay -> end
    sub: s -> hotel -> flight -> e
    hotel = service book undo=unhotel
    flight = service book undo=unflight
    sub: unhotel
    sub: unflight
    unhotel = outside book compensation
    unflight = outside book compensation
    deadline = eventsub
    deadline: over -> undo -> stop
    over = start timer in P1D
    undo = throw compensate
    stop = end terminate
    ---
    start => pay ~sub(~flight ~hotel)
    fire over => deadline(undo) ~sub(unflight* ~hotel)
    fail unflight => not accepted
    cancel why => ~sub(unflight* ~hotel)
    jobs => run:unflight
    done unflight => ~sub(unhotel*)
    done unhotel => cancelled

while an event undoes in a scope that is not done: that goes with it
    compensates
    start -> car -> sub -> end
    car = service book undo=uncar
    uncar = user compensation
    sub: s -> hotel -> undo -> e
    hotel = service book undo=unhotel
    undo = throw compensate
    sub: unhotel
    unhotel = user compensation
    ---
    start => sub(undo unhotel) ~car
    cancel why => uncar
    complete uncar => cancelled

with a handler that has an incident
    compensates
    start -> hotel -> undo -> pay -> end
    undo = throw compensate
    hotel = service book undo=unhotel
    unhotel = external cancel compensation
    ---
    start => undo unhotel*
    error unhotel E1 => undo unhotel!
    cancel why => unhotel!
    retry unhotel => unhotel*
    done unhotel => cancelled

cancelled again: at once
    compensates
    {TRIP}
    ---
    start => pay ~flight ~hotel
    cancel why => unflight ~hotel
    cancel why => cancelled
    tasks =>

without compensation: at once
    {TRIP}
    ---
    start => pay ~flight ~hotel
    cancel why => cancelled
    history => start hotel flight pay!

handlers in the step
    compensates
    start -> hotel -> pay -> end
    hotel = service book undo=unhotel
    unhotel = service cancel compensation
    ---
    start => pay ~hotel
    cancel why => cancelled
    calls => hotel unhotel

events of the process are not awaited any more
    compensates
    start -> hotel -> pay -> end
    hotel = service book undo=unhotel
    unhotel = user compensation
    h = eventsub
    h: hs -> b -> he
    hs = start message stop
    he = end
    ---
    start => pay ~hotel
    waits => message:stop
    cancel why => unhotel
    waits =>

a handler that throws waits for an operator
    compensates
    start -> hotel -> pay -> end
    hotel = service book undo=unhotel
    unhotel = service error:E1 compensation
    ---
    start => pay ~hotel
    cancel why => unhotel!
    cancel why => cancelled
    incidents =>
""")
def test_cancellation_undoes(scenario: Scenario) -> None:
    scenario.run()
