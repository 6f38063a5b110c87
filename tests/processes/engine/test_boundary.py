"""Boundary events: interrupting and not, on tasks, sub-processes, calls and multi-instances."""

from tests.processes.support.scenarios import Scenario, scenarios


@scenarios("""
a timer interrupts
    start -> a -> end
    late = boundary a timer in PT1H
    late -> b -> end
    ---
    start => a
    timers => late:duration:PT1H
    fire late => b
    tasks => b:None
    timers =>
    history => start a! late

the activity is done first
    start -> a -> c -> end
    late = boundary a timer in PT1H
    late -> b -> end
    ---
    start => a
    complete a => c
    timers =>
    fire late => no such timer

a timer beside the activity
    start -> a -> end
    late = boundary a timer in PT1H keep
    late -> b -> end
    ---
    start => a
    fire late => a b
    fire late => no such timer
    complete a => b
    complete b => completed
    history => start late a end b end

a cycle fires again and again
    start -> a -> end
    late = boundary a timer every R3/PT1H keep
    late -> b -> end
    ---
    start => a
    fire late => a b
    fire late => a b b
    complete a => b b
    timers =>

a cycle that interrupts fires once
    start -> a -> end
    late = boundary a timer every R3/PT1H
    late -> b -> end
    ---
    start => a
    fire late => b
    timers =>

a message interrupts
    start -> a -> end
    stop = boundary a message stop
    stop -> b -> end
    ---
    start => a
    waits => message:stop
    message stop x=1 => b
    var x => 1
    waits =>

a message that does not interrupt can come again
    start -> a -> end
    stop = boundary a message stop keep
    stop -> b -> end
    ---
    start => a
    message stop => a b
    message stop => a b b
    complete a => b b
    waits =>

a signal
    start -> a -> end
    stop = boundary a signal stop
    stop -> b -> end
    ---
    start => a
    signal stop => b

two events on one activity: the first to come takes the other along
    start -> a -> end
    late = boundary a timer in PT1H
    stop = boundary a message stop
    late -> b -> end
    stop -> c -> end
    ---
    start => a
    message stop => c
    timers =>

without a flow out, the token ends
    start -> a -> end
    late = boundary a timer in PT1H
    ---
    start => a
    fire late => completed
    end => late

two flows out
    start -> a -> end
    late = boundary a timer in PT1H
    late -> b, c -> end
    ---
    start => a
    fire late => b c

on a task with a job before: armed when it begins
    start -> a -> end
    a = user async
    late = boundary a timer in PT1H
    late -> b -> end
    ---
    start => a<
    timers =>
    run a => a
    timers => late:duration:PT1H

on a task with a job after: gone when it is done
    start -> a -> end
    a = user after
    late = boundary a timer in PT1H
    late -> b -> end
    ---
    start => a
    complete a => a>
    timers =>
    run a => completed

an event with a job of its own
    start -> a -> end
    late = boundary a timer in PT1H async
    late -> b -> end
    ---
    start => a
    fire late => late<
    tasks =>
    run late => b

a handler outside is interrupted, its job goes
    start -> a -> end
    a = outside charge
    late = boundary a timer in PT1H
    late -> b -> end
    ---
    start => a*
    jobs => run:a timer:late
    fire late => b
    jobs =>

a worker is interrupted
    start -> a -> end
    a = external charge
    late = boundary a timer in PT1H
    late -> b -> end
    ---
    start => a*
    fire late => b
    jobs =>

a receive task is interrupted
    start -> a -> end
    a = receive paid
    late = boundary a timer in PT1H
    late -> b -> end
    ---
    start => a
    waits => message:paid
    fire late => b
    waits =>

the timer sees the inputs of the activity
    start -> a -> end
    a = user in:due=PT5M
    late = boundary a timer in $due
    late -> b -> end
    ---
    start => a
    timers => late:duration:PT5M

the same activity again has a new timer
    start -> m? -> a -> m
    late = boundary a timer in PT1H
    late -> b -> end
    ---
    start => a
    complete a => a
    timers => late:duration:PT1H
    fire late => b

two tokens at one activity have two timers
    start -> f+ -> a, x
    x -> a
    late = boundary a timer in PT1H
    late -> b -> end
    a -> end
    ---
    start => a x
    complete x => a a
    timers => late:duration:PT1H late:duration:PT1H
    fire late#1 => a b
    timers => late:duration:PT1H
""")
def test_on_tasks(scenario: Scenario) -> None:
    scenario.run()


@scenarios("""
a sub-process is interrupted: children first
    start -> sub -> end
    sub: s -> f+ -> a, b -> e
    late = boundary sub timer in PT1H
    late -> c -> end
    ---
    start => sub(a b)
    fire late => c
    history => start s f a! b! sub! late

with all that is armed in it
    start -> sub -> end
    sub: s -> f+ -> a, m, x -> e
    m = catch message paid
    x = outside work
    stop = boundary sub message stop
    stop -> c -> end
    soon = boundary a timer in PT1M
    sub: soon -> e
    ---
    start => sub(a m x*)
    message stop => c
    waits =>
    jobs =>
    timers =>
    tasks => c:None

beside a sub-process
    start -> sub -> end
    sub: s -> a -> e
    late = boundary sub timer in PT1H keep
    late -> c -> end
    ---
    start => sub(a)
    fire late => c sub(a)
    complete a => c
    complete c => completed

the sub-process is done before the side branch
    start -> sub -> d -> end
    sub: s -> a -> e
    late = boundary sub message m keep
    late -> c -> end
    ---
    start => sub(a)
    message m => c sub(a)
    message m => c c sub(a)
    complete a => c c d
    waits =>

nested: the outer event takes the inner sub-process along
    start -> outer -> end
    outer: s1 -> inner -> e1
    s1 = start
    e1 = end
    inner: s2 -> a -> e2
    s2 = start
    e2 = end
    out = boundary outer message out
    in = boundary inner message in
    outer: in -> b -> e1
    out -> c -> end
    ---
    start => outer(inner(a))
    waits => message:in message:out
    message out => c
    history => start s1 s2 a! inner! outer! out
    waits =>

nested: the inner event leaves the outer alone
    start -> outer -> end
    outer: s1 -> inner -> e1
    s1 = start
    e1 = end
    inner: s2 -> a -> e2
    s2 = start
    e2 = end
    out = boundary outer message out
    in = boundary inner message in
    outer: in -> b -> e1
    out -> c -> end
    ---
    start => outer(inner(a))
    message in => outer(b)
    waits => message:out
    complete b => completed

a called instance is cancelled with the call
    start -> c -> end
    c = call child
    late = boundary c timer in PT1H
    late -> b -> end
    process child
    start -> a -> end
    ---
    start => c[a]
    fire late => b
    states => active cancelled
    history => start start a! c! late

calls of calls
    start -> c -> end
    c = call middle
    late = boundary c timer in PT1H
    late -> b -> end
    process middle
    start -> c2 -> end
    c2 = call inner
    process inner
    start -> a -> end
    ---
    start => c[c2[a]]
    fire late => b
    states => active cancelled cancelled

the body of a multi-instance is interrupted
    start -> a -> end
    a = user loop=3
    late = boundary a timer in PT1H
    late -> b -> end
    ---
    start => a(a#0 a#1 a#2)
    timers => late:duration:PT1H
    complete a#1 => a(a#0 a#2)
    fire late => b
    history => start a a! a! a! late

beside a multi-instance
    start -> a -> end
    a = user loop=2 keep
    late = boundary a timer in PT1H keep
    late -> b -> end
    ---
    start => a(a#0 a#1)
    fire late => a(a#0 a#1) b
    complete a#0 => a(a#1) b
    complete a#1 => b

the variables of an event do not end in those that are gone
    start -> a -> end
    a = user in:x=5
    stop = boundary a message stop
    stop -> b -> end
    ---
    start x=1 => a
    message stop x=9 => b
    var x => 9

those of an event beside do not, either
    start -> a -> end
    a = user in:x=5
    stop = boundary a message stop keep
    stop -> b -> end
    ---
    start x=1 => a
    message stop x=9 => a b
    var x => 9
    local a x => 5

local variables are gone with what is interrupted
    start -> a -> end
    a = user in:x=5
    late = boundary a timer in PT1H
    late -> b -> end
    ---
    start x=1 => a
    see a x => 5
    fire late => b
    see b x => 1
""")
def test_on_scopes(scenario: Scenario) -> None:
    scenario.run()
