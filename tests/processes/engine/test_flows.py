"""Flows in Python, as the processes that they become: the engine has no rules for them alone."""

from tests.processes.support.scenarios import Scenario, scenarios

# charged, then packed and billed, then shipped; apologised if the charge fails.
CHECKOUT = """
    start -> charged
    charged = outside charge -> charged
    packed = outside pack -> packed
    billed = outside invoice -> billed
    shipped = outside ship -> shipped
    apologised = outside apologise -> apologised
    charged_failed = boundary charged failure
    charged -> packed, billed
    packed, billed -> both* -> shipped
    charged_failed -> apologised
"""


@scenarios(f"""
a chain
    start -> a -> b -> c
    a = outside one -> a
    b = outside two -> b
    c = outside three -> c
    ---
    start => a*
    done a 1 => b*
    done b 2 => c*
    done c 3 => completed
    var b => 2

all goes well
    {CHECKOUT}
    ---
    start => charged*
    done charged 9 => billed* packed*
    done billed => both+ packed*
    done packed => shipped*
    done shipped => completed

a step fails, and an edge catches that; what comes after it is skipped
    {CHECKOUT}
    ---
    start => charged*
    fail charged => apologised*
    done apologised => completed
    history => start charged! charged_failed apologised

a step fails without an edge: the instance waits, and goes on when it is requeued
    {CHECKOUT}
    ---
    start => charged*
    done charged 9 => billed* packed*
    fail packed => not accepted
    done billed => both+ packed*
    done packed => shipped*

a condition on a step: it runs
    start -> charged
    charged = outside charge -> charged
    approved = outside approve -> approved
    shipped = outside ship -> shipped
    charged -[charged > 1000]-> approved
    charged -> join*
    approved -> join -> shipped
    ---
    start => charged*
    done charged 2000 => approved* join+
    done approved => shipped*

a condition on a step: it is skipped, and the join is not held up
    start -> charged
    charged = outside charge -> charged
    approved = outside approve -> approved
    shipped = outside ship -> shipped
    charged -[charged > 1000]-> approved
    charged -> join*
    approved -> join -> shipped
    ---
    start => charged*
    done charged 10 => shipped*

all is skipped behind a condition
    start -> a
    a = outside one -> a
    b = outside two -> b
    c = outside three -> c
    a -[a > 5]-> b -> c
    a -[else]-> end
    ---
    start => a*
    done a 1 => completed

a join runs if one edge was taken, and only when all before it are over
    start -> f+ -> a, b
    a = outside one -> a
    b = outside two -> b
    x = outside x -> x
    last = outside last -> last
    a -[a > 5]-> x -> join*
    a -[else]-> end
    b -> join -> last
    ---
    start => a* b*
    done b => a* join+
    done a 1 => last*

a join of a success and a failure: finished
    start -> a
    a = outside one -> a
    clean = outside clean -> clean
    bad = boundary a failure
    a, bad -> finished* -> clean
    ---
    start => a*
    fail a => clean*
    done clean => completed

finished, when it succeeds
    start -> a
    a = outside one -> a
    clean = outside clean -> clean
    bad = boundary a failure
    a, bad -> finished* -> clean
    ---
    start => a*
    done a 1 => clean*

nothing runs if none of the edges of a join is taken
    start -> f+ -> a, b
    a = outside one -> a
    b = outside two -> b
    last = outside last -> last
    abad = boundary a failure
    bbad = boundary b failure
    abad, bbad -> join* -> last
    ---
    start => a* b*
    done a 1 => b*
    done b 1 => completed
    history => start f a b

one of two fails
    start -> f+ -> a, b
    a = outside one -> a
    b = outside two -> b
    last = outside last -> last
    abad = boundary a failure
    bbad = boundary b failure
    abad, bbad -> join* -> last
    ---
    start => a* b*
    fail a => b* join+
    done b 1 => last*

a diamond in a diamond
    start -> f+ -> a, b
    a = outside x -> a
    b = outside x -> b
    c = outside x -> c
    d = outside x -> d
    last = outside x -> last
    a -> c, j1*
    b -> j1 -> d
    c, d -> j2* -> last
    ---
    start => a* b*
    done a => b* c* j1+
    done c => b* j1+ j2+
    done b => d* j2+
    done d => last*

the first choice that fits
    start -> a -> choose?
    a = outside x -> a
    choose -[a > 100]-> big
    choose -[a > 10]-> middle
    choose -[else]-> small
    ---
    start => a*
    done a 50 => middle

a wait is over by its message
    start -> approved -> ship
    approved = receive approved key=$execution.business_key
    late = boundary approved timer in P3D
    late -> remind
    ---
    start => approved
    waits => message:approved
    message approved => ship
    timers =>

a wait is over by its timeout
    start -> approved -> ship
    approved = receive approved
    late = boundary approved timer in P3D
    late -> remind
    ---
    start => approved
    fire late => remind
    waits =>

a map over a result
    start -> listed -> rows -> done
    listed = outside list -> listed
    rows = outside row -> row over=listed item=item results=rows result=row
    ---
    start => listed*
    done listed [1,2] => rows(rows#0* rows#1*)
    done rows#1 "b" => rows(rows#0*)
    done rows#0 "a" => done
    var rows => ["a", "b"]

a map of a long list
    start -> listed -> rows -> done
    listed = outside list -> listed
    rows = outside row over=listed item=item batch results=rows
    ---
    start => listed*
    done listed [1,2] => rows*
    jobs => batch:rows
    done rows => done

a map of a list that may be long
    start -> listed -> rows -> done
    listed = outside list -> listed
    rows = outside row -> row over=listed item=item batch=2 results=rows result=row
    ---
    start => listed*
    done listed [1,2] => rows(rows#0* rows#1*)
    done rows#0 "a" => rows(rows#1*)
    done rows#1 "b" => done
    var rows => ["a", "b"]

a map of a list that is longer
    start -> listed -> rows -> done
    listed = outside list -> listed
    rows = outside row -> row over=listed item=item batch=2 results=rows result=row
    ---
    start => listed*
    done listed [1,2,3] => rows*
    jobs => batch:rows
    done rows ["a","b","c"] => done
    var rows => ["a", "b", "c"]

one of a map fails
    start -> rows -> done
    rows = outside row over=listed item=item
    bad = boundary rows failure
    bad -> apologise
    ---
    start listed=[1,2] => rows(rows#0* rows#1*)
    fail rows#0 => apologise
    jobs =>

cancelled: what is done is undone, backwards
    compensates
    start -> charged -> packed -> shipped
    charged = outside charge -> charged undo=refund
    packed = outside pack -> packed undo=unpack
    shipped = outside ship -> shipped
    refund = outside refund compensation
    unpack = outside unpack compensation
    ---
    start => charged*
    done charged 9 => packed* ~charged
    done packed 1 => shipped* ~charged ~packed
    cancel why => unpack* ~charged
    jobs => run:unpack
    done unpack => refund*
    done refund => cancelled

a deadline undoes and ends
    start -> charged -> shipped
    charged = outside charge -> charged undo=refund
    shipped = outside ship -> shipped
    refund = outside refund compensation
    deadline = eventsub
    deadline: over -> undo -> stop
    over = start timer in P1D
    undo = throw compensate
    stop = end terminate
    ---
    start => charged*
    done charged 9 => shipped* ~charged
    fire over => deadline(undo) refund*
    done refund => completed
    jobs =>

done before the deadline
    start -> charged
    charged = outside charge -> charged
    deadline = eventsub
    deadline: over -> stop
    over = start timer in P1D
    stop = end terminate
    ---
    start => charged*
    timers => over:duration:P1D
    done charged => completed
    jobs =>
""")
def test_flows(scenario: Scenario) -> None:
    scenario.run()
