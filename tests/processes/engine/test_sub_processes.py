"""Sub-processes, terminate, and event sub-processes."""

from tests.processes.support.scenarios import Scenario, scenarios


@scenarios("""
it is left when its last token ends
    start -> sub -> c -> end
    sub: s -> f+ -> a, b -> e
    ---
    start => sub(a b)
    complete a => sub(b)
    complete b => c
    history => start s f a e b e sub

without a wait
    start -> sub -> end
    sub: s -> a -> e
    a = task
    ---
    start => completed
    history => start s a e sub end

nested
    start -> outer -> b -> end
    outer: s1 -> inner -> e1
    s1 = start
    e1 = end
    inner: s2 -> a -> e2
    s2 = start
    e2 = end
    ---
    start => outer(inner(a))
    complete a => b

with a job before and after
    start -> sub -> end
    sub = sub async after
    sub: s -> a -> e
    ---
    start => sub<
    run sub => sub(a)
    complete a => sub>
    run sub => completed

a job before its start event
    start -> sub -> end
    sub: s -> a -> e
    s = start async
    ---
    start => sub(s<)
    run s => sub(a)

a job before the start of the process
    start -> a -> end
    start = start async
    ---
    start => start<
    run start => a

a job before its end event
    start -> sub -> end
    sub: s -> a -> e
    e = end async
    ---
    start => sub(a)
    complete a => sub(e<)
    run e => completed

two tokens make two scopes
    start -> f+ -> x, y -> sub -> end
    sub: s -> a -> e
    ---
    start => x y
    complete x => sub(a) y
    complete y => sub(a) sub(a)
    complete a => sub(a)
    complete a => completed

a token that ends without an end event
    start -> sub -> b -> end
    sub: s -> a
    ---
    start => sub(a)
    complete a => b
""")
def test_scopes(scenario: Scenario) -> None:
    scenario.run()


@scenarios("""
terminate ends the process
    start -> f+ -> a, b
    a -> stop
    b -> end
    stop = end terminate
    ---
    start => a b
    complete a => terminated
    end => stop
    history => start f a b! stop

the other branch ends plainly
    start -> f+ -> a, b
    a -> stop
    b -> end
    stop = end terminate
    ---
    start => a b
    complete b => a
    complete a => terminated

terminate ends its own sub-process only
    start -> f+ -> sub, x
    x -> end
    sub: s -> g+ -> a, b
    sub: a -> stop
    sub: b -> e
    stop = end terminate
    sub -> c -> end
    ---
    start => sub(a b) x
    complete a => c x
    history => start f s g a b! stop sub

an outer terminate ends what is inside
    start -> f+ -> sub, x
    sub: s -> a -> e
    sub -> end
    x -> stop
    stop = end terminate
    ---
    start => sub(a) x
    complete x => terminated
    history => start f s x a! sub! stop

terminate in one instance of a multi-instance
    start -> sub -> c -> end
    sub = sub loop=2
    sub: s -> g+ -> a, b
    sub: a -> stop
    sub: b -> e
    stop = end terminate
    ---
    start => sub(sub#0(a b) sub#1(a b))
    complete a#0 => sub(sub#1(a b))
    complete a#1 => c

terminate in a called instance
    start -> c -> b -> end
    c = call child
    process child
    start -> f+ -> a, x
    a -> stop
    x -> end
    stop = end terminate
    ---
    start => c[a x]
    complete a => b
    states => active terminated

terminate takes jobs and subscriptions along
    start -> f+ -> a, m, o
    m = catch message paid
    o = outside work
    a -> stop
    m, o -> end
    stop = end terminate
    ---
    start => a m o*
    complete a => terminated
    jobs =>
    waits =>

terminate with a job before
    start -> f+ -> a, b
    a -> stop
    b -> end
    stop = end terminate async
    ---
    start => a b
    complete a => b stop<
    run stop => terminated
""")
def test_terminate(scenario: Scenario) -> None:
    scenario.run()


@scenarios("""
an event sub-process interrupts its process
    start -> a -> end
    h = eventsub
    h: hs -> b -> he
    hs = start message stop
    he = end
    ---
    start => a
    waits => message:stop
    message stop x=1 => h(b)
    var x => 1
    waits =>
    complete b => completed
    history => start a! hs b he h

beside its process
    start -> a -> end
    h = eventsub
    h: hs -> b -> he
    hs = start message note keep
    he = end
    ---
    start => a
    message note => a h(b)
    message note => a h(b) h(b)
    complete a => h(b) h(b)
    waits => message:note
    complete b => h(b)
    complete b => completed
    waits =>

a timer beside
    start -> a -> end
    h = eventsub
    h: hs -> b -> he
    hs = start timer in PT1H keep
    he = end
    ---
    start => a
    timers => hs:duration:PT1H
    fire hs => a h(b)
    timers =>
    complete a => h(b)

a cycle beside
    start -> a -> end
    h = eventsub
    h: hs -> b -> he
    hs = start timer every R2/PT1H keep
    he = end
    ---
    start => a
    fire hs => a h(b)
    fire hs => a h(b) h(b)
    complete a => h(b) h(b)
    complete b => h(b)
    complete b => completed
    timers =>

in a sub-process
    start -> sub -> c -> end
    sub: s -> a -> e
    sub: h
    h = eventsub
    h: hs -> b -> he
    hs = start message stop
    he = end
    ---
    start => sub(a)
    message stop => sub(h(b))
    complete b => c

armed only while its sub-process runs
    start -> x -> sub -> c -> end
    sub: s -> a -> e
    sub: h
    h = eventsub
    h: hs -> b -> he
    hs = start message stop
    he = end
    ---
    start => x
    waits =>
    complete x => sub(a)
    waits => message:stop
    complete a => c
    waits =>

one that interrupts takes the others along
    start -> a -> end
    h = eventsub
    h: hs -> b -> he
    hs = start message one keep
    he = end
    k = eventsub
    k: ks -> c -> ke
    ks = start timer in PT1H
    ke = end
    ---
    start => a
    message one => a h(b)
    fire ks => k(c)
    waits =>
    timers =>

while a sub-process runs in the same scope
    start -> sub -> end
    sub: s -> a -> e
    h = eventsub
    h: hs -> b -> he
    hs = start message note keep
    he = end
    k = eventsub
    k: ks -> c -> ke
    ks = start message stop
    ke = end
    ---
    start => sub(a)
    message note => h(b) sub(a)
    message stop => k(c)

the boundary events of the scope stay
    start -> sub -> end
    sub: s -> a -> e
    sub: h
    h = eventsub
    h: hs -> b -> he
    hs = start message stop
    he = end
    late = boundary sub timer in PT1H
    late -> d -> end
    ---
    start => sub(a)
    message stop => sub(h(b))
    timers => late:duration:PT1H
    fire late => d

a signal of its own scope
    start -> a -> shout -> b -> end
    shout = throw signal go
    h = eventsub
    h: hs -> c -> he
    hs = start signal go
    he = end
    ---
    start => a
    complete a => h(c)

a signal of its own scope, beside
    start -> a -> shout -> b -> end
    shout = throw signal go
    h = eventsub
    h: hs -> c -> he
    hs = start signal go keep
    he = end
    ---
    start => a
    complete a => b h(c)

an event sub-process in an event sub-process
    start -> a -> end
    h = eventsub
    h: hs -> b -> he
    hs = start message one
    he = end
    h: k
    k = eventsub
    k: ks -> c -> ke
    ks = start message two
    ke = end
    ---
    start => a
    waits => message:one
    message one => h(b)
    waits => message:two
    message two => h(k(c))
    complete c => completed

terminate in an event sub-process ends that one
    start -> a -> end
    h = eventsub
    h: hs -> f+ -> b, c
    h: b -> he
    h: c -> hd
    hs = start message one keep
    he = end terminate
    hd = end
    ---
    start => a
    message one => a h(b c)
    complete b => a

in each instance of a multi-instance
    start -> sub -> end
    sub = sub loop=2
    sub: s -> a -> e
    sub: h
    h = eventsub
    h: hs -> b -> he
    hs = start message stop
    he = end
    ---
    start => sub(sub#0(a) sub#1(a))
    waits => message:stop message:stop
    message stop#1 => sub(sub#0(a) sub#1(h(b)))
    waits => message:stop
    complete b => sub(sub#0(a))

an event that comes too late is not accepted
    start -> a -> end
    h = eventsub
    h: hs -> b -> he
    hs = start timer in PT1H
    he = end
    ---
    start => a
    complete a => completed
    jobs =>
""")
def test_event_sub_processes(scenario: Scenario) -> None:
    scenario.run()
