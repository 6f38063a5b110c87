"""Cancelling instances, and events that come too late."""

from typing import Any
from uuid import UUID

import pytest

from jobexec.processes.definition import Listener, When
from jobexec.processes.engine.exceptions import UncaughtError
from jobexec.processes.engine.inputs import (
    Cancelled,
    Change,
    Command,
    Completed,
    Continue,
    ErrorThrown,
    EscalationThrown,
    JobDone,
    JobFailed,
    Modified,
    Retried,
    Start,
    Triggered,
)
from jobexec.processes.engine.rows import InstanceState
from tests.processes.support.notation import model
from tests.processes.support.scenarios import Scenario, scenarios
from tests.processes.support.world import World

NOBODY = UUID(int=999)


@scenarios("""
all goes
    start -> f+ -> a, m, o, t, sub -> end
    m = catch message paid
    o = outside work
    t = catch timer in PT1H
    sub: s -> x -> e
    h = eventsub
    h: hs -> b -> he
    hs = start message stop
    he = end
    ---
    start => a m o* sub(x) t
    cancel enough => cancelled
    jobs =>
    waits =>
    tasks =>
    history => start f s a! m! o! t! x! sub!

what it called goes, too
    start -> c -> end
    c = call child
    process child
    start -> a -> end
    ---
    start => c[a]
    cancel enough => cancelled
    states => cancelled cancelled

twice
    start -> a -> end
    ---
    start => a
    cancel enough => cancelled
    cancel enough => not accepted

the final variables are kept
    start -> a -> end
    ---
    start x=1 => a
    cancel enough => cancelled
    var x => 1
""")
def test_cancel(scenario: Scenario) -> None:
    scenario.run()


def test_a_called_instance_is_not_cancelled_alone():
    world = World(model("start -> c -> end\n c = call child"), model("start -> a -> end", "child"))
    root = world.start()
    (called,) = (row.id for row in world.instances.values() if row.id != root)
    assert not world.do(Cancelled(called), root).accepted


@pytest.fixture
def world() -> World:
    return World(
        model("""
            start -> f+ -> a, o, m, j -> end
            o = outside work
            m = catch message paid
            j = task async
            late = boundary a timer in PT1H
            late -> end
        """)
    )


@pytest.fixture
def root(world: World) -> UUID:
    return world.start()


@pytest.fixture
def at(world: World, root: UUID) -> dict[str, Any]:
    return {token.element: token for token in world.tokens.values()}


def late_events(at: dict[str, Any]) -> list[object]:
    a, o, m, j = (at[id] for id in "aomj")
    other = NOBODY
    return [
        Continue(NOBODY, j.job),
        Continue(j.id, NOBODY),
        Continue(o.id, o.job),
        Continue(a.id, NOBODY),
        JobDone(NOBODY, o.job),
        JobDone(o.id, NOBODY),
        JobDone(j.id, j.job),
        JobFailed(NOBODY, o.job),
        JobFailed(o.id, NOBODY),
        ErrorThrown(NOBODY, a.activity, "E1"),
        ErrorThrown(a.id, NOBODY, "E1"),
        ErrorThrown(m.id, m.activity, "E1"),
        EscalationThrown(a.id, NOBODY, "U1"),
        EscalationThrown(NOBODY, a.activity, "U1"),
        Completed(NOBODY, a.activity),
        Completed(a.id, NOBODY),
        Completed(m.id, m.activity),
        Completed(o.id, o.activity),
        Triggered(NOBODY, "m", m.activity),
        Triggered(m.id, "m", other),
        Triggered(m.id, "nothing", m.activity),
        Triggered(m.id, "late", m.activity),
        Triggered(m.id, "a", m.activity),
        Triggered(a.id, "a", a.activity),
        Triggered(a.id, "late", other),
        Triggered(a.id, "start", a.activity),
        Triggered(o.id, "o", o.activity),
        Triggered(j.id, "late", None),
        Retried(a.id),
        Retried(NOBODY),
        Cancelled(NOBODY),
    ]


@pytest.mark.parametrize("number", range(31))
def test_what_comes_too_late_or_fits_nothing_is_not_accepted(world, root, at, number):
    before = (dict(world.tokens), dict(world.jobs), dict(world.subscriptions), list(world.history))
    assert not world.do(late_events(at)[number], root).accepted
    assert (world.tokens, world.jobs, world.subscriptions, world.history) == before


def test_there_is_no_other_late_event(at):
    assert len(late_events(at)) == 31


def test_the_start_event_must_exist(world):
    with pytest.raises(ValueError, match="there is no start event nothing"):
        world.do(Start(NOBODY, "process", element="nothing"), None)
    with pytest.raises(ValueError, match="there is no start event a"):
        world.do(Start(NOBODY, "process", element="a"), None)


def test_a_process_that_only_starts_by_message_is_started_there():
    world = World(model("start -> a -> end\n start = start message m"))
    with pytest.raises(ValueError, match="without an event definition"):
        world.start()
    root = world.start(element="start", x=1)
    assert [token.element for token in world.tokens.values()] == ["a"]
    assert world.variables[root] == {"x": 1}


def test_the_timer_of_an_earlier_arrival_does_not_fire_at_the_next():
    """A worker that already had the timer's job when it was disarmed comes with the old activity."""
    world = World(model("start -> m? -> a -> m\n late = boundary a timer in PT1H\n late -> end"))
    root = world.start()
    (token,) = world.tokens.values()
    (old,) = world.jobs.values()
    world.do(Completed(token.id, token.activity), root)
    assert [job.activity for job in world.jobs.values()] != [old.activity]
    assert not world.do(Triggered(old.owner, old.element, old.activity), root).accepted
    assert [token.element for token in world.tokens.values()] == ["a"]


INTERRUPTED = """
    start -> a -> end
    h = eventsub
    h: hs -> b -> he
    hs = start message one
    he = end
    k = eventsub
    k: ks -> c -> ke
    ks = start timer in PT1H{keep}
    ke = end
"""


@pytest.mark.parametrize("keep", ["", " keep"])
def test_a_timer_that_was_disarmed_does_not_start_an_event_sub_process(keep):
    """A worker has the job of the timer already when a message interrupts the process."""
    world = World(model(INTERRUPTED.format(keep=keep)))
    root = world.start()
    (timer,) = world.jobs.values()
    (row,) = world.subscriptions.values()
    assert world.do(Triggered(row.owner, row.element, row.activity), root).accepted
    assert not world.do(Triggered(timer.owner, timer.element, timer.activity), root).accepted
    assert sorted(token.element for token in world.tokens.values()) == ["b", "h"]


def test_an_error_of_a_listener_of_the_whole_process_is_not_caught():
    listener = Listener(When.END, handler="error:E1")
    world = World(model("start -> a -> end", listeners=(listener,)))
    root = world.start()
    (token,) = world.tokens.values()
    with pytest.raises(UncaughtError, match="process: Nothing catches the error E1 of a listener"):
        world.do(Completed(token.id, token.activity), root)
    assert world.running(root)


def test_listeners_of_the_whole_process():
    listeners = (Listener(When.START, handler="one"), Listener(When.END, handler="two"))
    world = World(model("start -> a -> end", listeners=listeners))
    root = world.start()
    world.do(Cancelled(root), root)
    assert world.notices == ["one:start:process", "two:end:process!"]


@scenarios("""
by a boundary event
    start -> a -> end
    a = user on:end=error:E1
    late = boundary a timer in PT1H
    late -> b -> end
    caught = boundary a error E1
    caught -> c -> end
    ---
    start => a
    fire late => UncaughtError a
    tasks => a:None

by a boundary event, around it
    start -> sub -> end
    sub: s -> a -> e
    a = user on:end=error:E1
    late = boundary sub timer in PT1H
    late -> b -> end
    caught = boundary sub error E1
    caught -> c -> end
    ---
    start => sub(a)
    fire late => UncaughtError a
    complete a => c

a listener to the deletion of a task
    start -> a -> end
    a = user on:delete=error:E1
    late = boundary a timer in PT1H
    late -> b -> end
    ---
    start => a
    fire late => UncaughtError a
    complete a => completed

by a terminate end event
    start -> f+ -> a, b
    a = user on:end=error:E1
    b -> stop
    stop = end terminate
    ---
    start => a b
    complete b => UncaughtError a
    tasks => a:None b:None

by an event sub-process
    start -> a -> end
    a = user on:end=error:E1
    h = eventsub
    h: hs -> b -> he
    hs = start message m
    he = end
    ---
    start => a
    message m => UncaughtError a

by a multi-instance that has enough
    start -> a -> end
    a = user loop=2 until=n on:end=objects:E1
    ---
    start n=true => a(a#0 a#1)
    complete a#1 => UncaughtError a
    set n=false => a(a#0 a#1)
    complete a#1 => a(a#0)

by another error, at a worker
    start -> sub -> end
    sub: s -> f+ -> a, b -> e
    a = user on:end=error:E1
    b = outside work
    caught = boundary sub error
    caught -> c -> end
    ---
    start => sub(a b*)
    error b E2 => UncaughtError a

by a modification
    start -> a -> b -> end
    a = user on:end=error:E1
    ---
    start => a
    modify cancel:a before:b => UncaughtError a

by an operator
    start -> a -> end
    a = user on:end=error:E1
    ---
    start => a
    cancel enough => UncaughtError a
    tasks => a:None

of a process that is called
    start -> c -> end
    c = call child
    process child
    start -> a -> end
    a = user on:end=error:E1
    ---
    start => c[a]
    cancel enough => UncaughtError a
""")
def test_an_error_of_a_listener_to_a_cancellation_is_caught_nowhere(scenario: Scenario) -> None:
    """The step fails, as after any other exception of a listener; nothing has happened (Camunda 7)."""
    scenario.run()


def test_an_error_of_a_listener_of_the_whole_process_to_its_cancellation():
    world = World(model("start -> a -> end", listeners=(Listener(When.END, handler="error:E1"),)))
    root = world.start()
    with pytest.raises(UncaughtError, match="process: Nothing catches the error E1 of a listener"):
        world.do(Cancelled(root), root)
    assert world.running(root)


def test_an_operator_may_skip_listeners():
    """Otherwise an instance whose listener always fails could never be ended (Camunda: skipCustomListeners)."""
    ends = (Listener(When.END, handler="error:E1"),)
    world = World(model("start -> a -> end\na = user on:end=error:E1 on:delete=error:E2", listeners=ends))
    root = world.start()
    with pytest.raises(UncaughtError):
        world.do(Cancelled(root, "no", skip_listeners=False), root)
    assert world.do(Cancelled(root, "enough", skip_listeners=True), root).accepted
    assert (world.instances[root].state, world.notices, world.tokens) == (InstanceState.CANCELLED, [], {})


def test_a_modification_that_skips_listeners_calls_none_of_what_it_starts_either():
    world = World(model("start -> a -> b -> end\na = user on:end=error:E1\nb = user on:start=one on:end=two"))
    root = world.start()
    commands = (Command(Change.CANCEL, "a"), Command(Change.BEFORE, "b"))
    assert world.do(Modified(root, commands, skip_listeners=True), root).accepted
    (token,) = world.tokens.values()
    assert (token.element, world.notices) == ("b", [])
    world.do(Completed(token.id, token.activity), root)
    assert world.notices == ["two:end:b"], "those of later steps are called"


def refused(world: World, root: UUID, owner: UUID, element: str, activity: Any) -> bool:
    before = dict(world.tokens)
    accepted = world.do(Triggered(owner, element, activity), root).accepted
    return not accepted and world.tokens == before


def the(world: World, element: str, **columns: Any) -> Any:
    (found,) = (
        token
        for token in world.tokens.values()
        if token.element == element and all(getattr(token, name) == value for name, value in columns.items())
    )
    return found


@pytest.mark.parametrize("jobs", ["async", "after"])
def test_a_boundary_event_of_what_has_not_begun_or_is_over(jobs):
    world = World(model(f"start -> a -> end\na = task {jobs}\nlate = boundary a timer in PT1H\nlate -> end"))
    root = world.start()
    assert refused(world, root, the(world, "a").id, "late", None)


def test_a_boundary_event_is_at_the_body_and_not_at_an_instance():
    world = World(model("start -> a -> end\na = user loop=1\nlate = boundary a timer in PT1H\nlate -> end"))
    root = world.start()
    inner = the(world, "a", is_inner=True)
    assert refused(world, root, inner.id, "late", inner.activity)


def test_a_message_that_has_come():
    world = World(model("start -> a -> end\na = receive paid on:end=error:E1"))
    root = world.start()
    token = the(world, "a")
    world.do(Triggered(token.id, "a", token.activity), root)
    assert the(world, "a").state == "failed"
    assert refused(world, root, token.id, "a", token.activity)


@pytest.mark.parametrize("element", ["g", "a", "start"])
def test_what_is_not_behind_the_gateway(element):
    world = World(model("start -> g~ -> m, n -> a -> end\nm = catch message m\nn = catch message n"))
    root = world.start()
    token = the(world, "g")
    assert refused(world, root, token.id, element, token.activity)


NESTED = """
    start -> sub -> end
    sub = sub {options}
    sub: s -> a -> e
    sub: h
    h = eventsub
    h: hs -> b -> he
    hs = start message m
    he = end
"""


@pytest.mark.parametrize("element", ["s", "hs", "b", "a", "sub", "start", "h"])
def test_what_is_no_event_of_the_process(element):
    world = World(model(NESTED.format(options="")))
    root = world.start()
    assert refused(world, root, root, element, None)


@pytest.mark.parametrize("element", ["s", "b", "a", "sub", "start", "h", "end"])
def test_what_is_no_event_of_the_sub_process(element):
    world = World(model(NESTED.format(options="")))
    root = world.start()
    scope = the(world, "sub")
    assert refused(world, root, scope.id, element, scope.activity)


def test_an_event_sub_process_is_in_the_instance_and_not_in_the_body():
    world = World(model(NESTED.format(options="loop=1")))
    root = world.start()
    body = the(world, "sub", is_body=True)
    assert refused(world, root, body.id, "hs", body.activity)


def test_an_event_of_a_sub_process_that_is_over():
    world = World(model(NESTED.format(options="on:end=error:E1")))
    root = world.start()
    token = the(world, "a")
    world.do(Completed(token.id, token.activity), root)
    scope = the(world, "sub", state="failed")
    assert refused(world, root, scope.id, "hs", scope.activity)


def test_an_event_of_an_instance_that_compensates():
    world = World(
        model(
            """
            start -> hotel -> pay -> end
            hotel = service book undo=unhotel
            unhotel = user compensation
            h = eventsub
            h: hs -> b -> he
            hs = start message stop
            he = end
            """,
            compensates=True,
        )
    )
    root = world.start()
    world.do(Cancelled(root), root)
    assert the(world, "unhotel")
    assert refused(world, root, root, "hs", None)


@pytest.mark.parametrize("element", ["s", "hs", "sub", "a"])
def test_only_a_start_event_of_the_process_itself_starts_it(element):
    world = World(model(NESTED.format(options="")))
    with pytest.raises(ValueError, match=f"there is no start event {element}"):
        world.start(element=element)
