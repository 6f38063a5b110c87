"""Escalations: thrown by events and people; who throws goes on unless it is interrupted."""

from tests.processes.support.scenarios import Scenario, scenarios

SUB = """
    start -> sub -> d -> end
    sub: s -> a -> up -> b -> e
    up = throw escalation U1
"""


@scenarios(f"""
nobody catches: it goes on
    {SUB}
    ---
    start => sub(a)
    complete a => sub(b)

caught beside: both go on
    {SUB}
    told = boundary sub escalation U1 keep
    told -> c -> end
    ---
    start => sub(a)
    complete a => c sub(b)

caught and interrupted
    {SUB}
    told = boundary sub escalation U1
    told -> c -> end
    ---
    start => sub(a)
    complete a => c
    history => start s a up! sub! told

another code
    {SUB}
    told = boundary sub escalation U2
    told -> c -> end
    ---
    start => sub(a)
    complete a => sub(b)

the one with the code before the one for all
    {SUB}
    all = boundary sub escalation keep
    one = boundary sub escalation U1 keep
    all -> c -> end
    one -> f -> end
    ---
    start => sub(a)
    complete a => f sub(b)

an event sub-process beside
    {SUB}
    sub: h
    h = eventsub
    h: hs -> c -> he
    hs = start escalation U1 keep
    he = end
    ---
    start => sub(a)
    complete a => sub(b h(c))
    complete b => sub(h(c))
    complete c => d

an event sub-process that interrupts
    {SUB}
    sub: h
    h = eventsub
    h: hs -> c -> he
    hs = start escalation U1
    he = end
    ---
    start => sub(a)
    complete a => sub(h(c))

an end event
    start -> sub -> d -> end
    sub: s -> a -> e
    e = end escalation U1
    told = boundary sub escalation U1 keep
    told -> c -> end
    ---
    start => sub(a)
    complete a => c d

an end event, interrupted
    start -> sub -> d -> end
    sub: s -> a -> e
    e = end escalation U1
    told = boundary sub escalation U1
    told -> c -> end
    ---
    start => sub(a)
    complete a => c

with its code as a variable
    {SUB}
    told = boundary sub escalation keep codevar=code
    told -> c -> end
    ---
    start => sub(a)
    complete a => c sub(b)
    var code => "U1"

across a call
    start -> c -> end
    c = call child
    told = boundary c escalation U1 keep
    told -> b -> end
    process child
    start -> a -> up -> x -> end
    up = throw escalation U1
    ---
    start => c[a]
    complete a => b c[x]

across a call, interrupted
    start -> c -> end
    c = call child
    told = boundary c escalation U1
    told -> b -> end
    process child
    start -> a -> up -> x -> end
    up = throw escalation U1
    ---
    start => c[a]
    complete a => b
    states => active cancelled

the nearest place wins
    start -> outer -> end
    outer: s1 -> sub -> e1
    s1 = start
    e1 = end
    sub: s -> a -> up -> b -> e
    up = throw escalation U1
    near = boundary sub escalation U1 keep
    outer: near -> c -> e1
    far = boundary outer escalation U1
    far -> d -> end
    ---
    start => outer(sub(a))
    complete a => outer(c sub(b))

an error event does not catch it
    {SUB}
    told = boundary sub error
    told -> c -> end
    ---
    start => sub(a)
    complete a => sub(b)

a user escalates and goes on
    start -> a -> end
    told = boundary a escalation U1 keep
    told -> b -> end
    ---
    start => a
    escalate a U1 => a b
    escalate a U1 => a b b

a user escalates and is interrupted
    start -> a -> end
    told = boundary a escalation U1
    told -> b -> end
    ---
    start => a
    escalate a U1 => b
    tasks => b:None

a code by an expression
    start -> sub -> d -> end
    sub: s -> a -> up -> b -> e
    up = throw escalation $level
    told = boundary sub escalation U1 keep
    told -> c -> end
    ---
    start level="U1" => sub(a)
    complete a => c sub(b)
""")
def test_escalations(scenario: Scenario) -> None:
    scenario.run()
