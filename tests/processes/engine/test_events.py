"""Intermediate events: timers, messages, signals, links; and the event-based gateway."""

from tests.processes.support.scenarios import Scenario, scenarios


@scenarios("""
a duration
    start -> t -> a -> end
    t = catch timer in PT10M
    ---
    start => t
    timers => t:duration:PT10M
    fire t => a
    timers =>

a date by an expression
    start -> t -> a -> end
    t = catch timer date $due
    ---
    start due="2027-01-01" => t
    timers => t:date:2027-01-01

a cycle on an intermediate event fires once
    start -> t -> a -> end
    t = catch timer every R3/PT1H
    ---
    start => t
    timers => t:cycle:R3/PT1H
    fire t => a
    timers =>

a timer in a loop is armed anew
    start -> m? -> t -> x?
    t = catch timer in PT1H
    x -[again]-> m
    x -[else]-> end
    ---
    start again=true => t
    fire t => t
    timers => t:duration:PT1H
    set again=false => t
    fire t => completed

a message
    start -> m -> a -> end
    m = catch message paid
    ---
    start => m
    waits => message:paid
    message paid amount=3 => a
    var amount => 3
    waits =>
    message paid => nobody waits

two wait for one message, one gets it
    start -> f+ -> m1, m2 -> end
    m1 = catch message paid
    m2 = catch message paid
    ---
    start => m1 m2
    message paid => m2
    message paid => completed

an event with a job before is armed by the job
    start -> m -> end
    m = catch message paid async
    ---
    start => m<
    waits =>
    run m => m
    waits => message:paid

an event with a job after
    start -> m -> end
    m = catch message paid after
    ---
    start => m
    message paid => m>
    waits =>
    run m => completed

a message in a sub-process sets the variables of the instance
    start -> sub -> end
    sub: s -> m -> a -> e
    m = catch message paid
    ---
    start => sub(m)
    message paid x=1 => sub(a)
    var x => 1
""")
def test_waiting(scenario: Scenario) -> None:
    scenario.run()


@scenarios("""
a signal is caught
    start -> w -> a -> end
    w = catch signal go
    ---
    start => w
    waits => signal:go
    signal go x=1 => a
    var x => 1

a signal that is thrown reaches all of the instance in the same step
    start -> f+ -> w1, w2, a
    w1 = catch signal go
    w2 = catch signal go
    a -> shout -> b -> end
    shout = throw signal go
    w1 -> c -> end
    w2 -> d -> end
    ---
    start => a w1 w2
    complete a => b c d
    signals => go:{}

it reaches called instances
    start -> f+ -> call, a
    call = call child
    a -> shout -> b -> end
    shout = throw signal go
    call -> end
    process child
    start -> w -> c -> end
    w = catch signal go
    ---
    start => a call[w]
    complete a => b call[c]

and the caller
    start -> f+ -> call, w
    call = call child
    w = catch signal go
    w -> d -> end
    call -> end
    process child
    start -> a -> shout -> b -> end
    shout = throw signal go
    ---
    start => call[a] w
    complete a => call[b] d

another name reaches nobody
    start -> f+ -> w, a
    w = catch signal other
    a -> shout -> b -> end
    shout = throw signal go
    w -> end
    ---
    start => a w
    complete a => b w

an end event throws
    start -> f+ -> w, a
    w = catch signal go
    a -> end1
    end1 = end signal go
    w -> c -> end
    ---
    start => a w
    complete a => c

a signal with variables
    start -> f+ -> w, a
    w = catch signal go
    a -> shout -> end
    shout = throw signal go in:x=$n
    w -> c -> end
    ---
    start n=5 => a w
    complete a => c
    var x => 5
    signals => go:{"x": 5}

a signal with the local variables of its thrower, which has none
    start -> f+ -> w, a
    w = catch signal go
    a -> shout -> end
    shout = throw signal go local:=
    w -> c -> end
    ---
    start n=5 => a w
    complete a => c
    signals => go:{}

a signal that interrupts the scope of its thrower
    start -> sub -> end
    sub: s -> a -> shout -> b -> e
    shout = throw signal go
    stop = boundary sub signal go
    stop -> c -> end
    ---
    start => sub(a)
    complete a => c
    history => start s a shout! sub! stop

a thrower does not hear what it throws itself if it waits only later
    start -> shout -> w -> end
    shout = throw signal go
    w = catch signal go
    ---
    start => w

a message of the same name is not a signal
    start -> f+ -> w, a
    w = catch message go
    a -> shout -> b -> end
    shout = throw signal go
    w -> end
    ---
    start => a w
    complete a => b w

a signal with all variables
    start -> f+ -> w, a
    w = catch signal go
    a -> shout -> end
    shout = throw signal go in:=
    w -> c -> end
    ---
    start n=5 => a w
    complete a => c
    signals => go:{"n": 5}

the name of a signal by an expression
    start -> f+ -> w, a
    w = catch signal $name
    a -> shout -> b -> end
    shout = throw signal $name
    w -> c -> end
    ---
    start name="go" => a w
    waits => signal:go
    complete a => b c

a signal ends the one that waits at a gateway
    start -> f+ -> g~, a
    g -> w, t -> c -> end
    w = catch signal go
    t = catch timer in PT1H
    a -> shout -> b -> end
    shout = throw signal go
    ---
    start => a g
    complete a => b c
    timers =>
""")
def test_signals(scenario: Scenario) -> None:
    scenario.run()


@scenarios("""
a link jumps
    start -> a -> jump
    jump = throw link L
    land = catch link L
    land -> b -> end
    ---
    start => a
    complete a => b
    history => start a jump land

two throw, one catches
    start -> f+ -> j1, j2
    j1 = throw link L
    j2 = throw link L
    land = catch link L
    land -> b -> end
    ---
    start => b b

a link inside a sub-process
    start -> sub -> end
    sub: s -> jump
    sub: land -> b -> e
    jump = throw link L
    land = catch link L
    ---
    start => sub(b)
    complete b => completed

a plain throwing event passes
    start -> t -> a -> end
    t = throw
    ---
    start => a
    history => start t

a message that is thrown is work
    start -> t -> a -> end
    t = throw message hello
    ---
    start => a
    calls => t

at an external worker
    start -> t -> a -> end
    t = throw message hello topic
    ---
    start => t*
    jobs => external:t
    done t => a

at the end
    start -> end
    end = end message hello topic
    ---
    start => end*
    done end => completed
    history => start end
""")
def test_links_and_throws(scenario: Scenario) -> None:
    scenario.run()


EITHER = """
    start -> g~ -> m, t, w
    m = catch message paid
    t = catch timer in PT1H
    w = catch signal stop
    m -> a -> end
    t -> b -> end
    w -> c -> end
"""


@scenarios(f"""
all are armed
    {EITHER}
    ---
    start => g
    waits => message:paid signal:stop
    timers => t:duration:PT1H
    history => start

the message comes first
    {EITHER}
    ---
    start => g
    message paid x=1 => a
    var x => 1
    waits =>
    timers =>
    history => start g m

the timer
    {EITHER}
    ---
    start => g
    fire t => b
    waits =>
    history => start g t

the signal
    {EITHER}
    ---
    start => g
    signal stop => c
    message paid => nobody waits

a job before the gateway
    {EITHER}
    g = gateway async
    ---
    start => g<
    waits =>
    run g => g
    fire t => b

in a loop
    start -> m0? -> g~ -> m, t
    m = catch message paid
    t = catch timer in PT1H
    m -> m0
    t -> end
    ---
    start => g
    message paid => g
    message paid => g
    fire t => completed

an interrupted gateway takes its events along
    start -> sub -> end
    sub: s -> g~ -> m, t -> e
    m = catch message paid
    t = catch timer in PT1H
    stop = boundary sub message stop
    stop -> a -> end
    ---
    start => sub(g)
    waits => message:paid message:stop
    message stop => a
    waits =>
    timers =>

listeners of the gateway and of the event
    start -> g~ -> m, t -> a -> end
    g = gateway on:start=one on:end=two
    m = catch message paid on:start=three on:end=four
    t = catch timer in PT1H on:start=no
    ---
    start => g
    notices => one:start:g
    message paid => a
    notices => one:start:g two:end:g three:start:m four:end:m

an error of a listener of the event: nothing of the gateway is left
    start -> g~ -> m, t -> a -> end
    m = catch message paid on:start=error:E1
    t = catch timer in PT1H
    ---
    start => g
    message paid => m!
    timers =>
    waits =>
    retry m => a

an error of a listener of the gateway: it waits anew
    start -> g~ -> m, t -> a -> end
    g = gateway on:end=error:E1
    m = catch message paid
    t = catch timer in PT1H
    ---
    start => g
    message paid => g!
    retry g => g
    waits => message:paid
    timers => t:duration:PT1H

an event behind it with a job after
    start -> g~ -> m, t -> a -> end
    m = catch message paid after
    t = catch timer in PT1H
    ---
    start => g
    message paid => m>
    timers =>
    run m => a
""")
def test_event_based_gateway(scenario: Scenario) -> None:
    scenario.run()
