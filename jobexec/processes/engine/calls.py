"""Call activities: another process runs as an instance of its own, within the same hierarchy."""

from __future__ import annotations

from ..definition import Mapping, Node, Process, When
from .cancel import end_instance
from .environment import Called
from .exceptions import BpmnError, NoStart, NoValue, TooDeep
from .moves import Do, Moves
from .rows import Instance, InstanceState, Place, Token
from .scopes import arm_event_sub_processes

#: Instances around one that is called, as in Camunda 8.
MAX_DEPTH = 1_000


def begin(moves: Moves, token: Token, node: Node) -> None:
    """The called process starts in the same step."""
    call = node.call
    assert call is not None
    caller = moves.rows.instance(token)
    _check_depth(moves, caller, node)
    called = Called(
        str(moves.value(token, call.key)), call.binding, moves.value(token, call.version), caller.definition
    )
    key = moves.value(token, call.business_key)
    instance = moves.new_instance(
        moves.environment.new_id(),
        moves.environment.resolve(called),
        root=caller.root,
        parent=token.id,
        business_key=None if key is None else str(key),
    )
    token.called = instance.id
    moves.wait(token)
    for mapping in call.inputs:
        pass_on(moves, mapping, token, instance, local=True)
    try:
        start(moves, instance, _plain_start(moves.process(instance), node))
    except BpmnError:  # of an expression of an event sub-process: it has not begun
        end_instance(moves, instance, InstanceState.CANCELLED)
        token.called = None
        raise


def _check_depth(moves: Moves, instance: Instance, node: Node) -> None:
    """A process that calls itself without an end stops here, also if each call is a step of its own."""
    depth = 0
    while instance.parent is not None:
        depth += 1
        instance = moves.rows.instance(moves.rows.place(instance.parent))
    if depth >= MAX_DEPTH:
        raise TooDeep(node.id, f"{MAX_DEPTH:,} instances call each other: this process calls itself without an end.")


def _plain_start(process: Process, node: Node) -> Node:
    found = process.start_event(None)
    if found is None:
        raise NoStart(node.id, f"{process.key} has no start event that a call can use.")
    return found


def start(moves: Moves, instance: Instance, event: Node) -> None:
    """A token starts in a new instance."""
    open_instance(moves, instance)
    moves.push(Do.ENTER, moves.new_token(instance, event.id))


def open_instance(moves: Moves, instance: Instance) -> None:
    """An instance begins, wherever its first token will stand."""
    arm_event_sub_processes(moves, instance, None)
    moves.notify_process(When.START, instance)


def give_back(moves: Moves, token: Token, node: Node, *, thrown: bool = False) -> None:
    """Variables of the called instance go to the caller, or stay in the activity for its outputs.

    They stay there with ``local="true"`` (Camunda 7), and always if the outputs are those of Zeebe. ``thrown``: it is
    not over, but an error or an escalation leaves it, with which variables go in Camunda 7, and not in Zeebe.
    """
    called = moves.rows.called_by(token)
    if node.call is not None and called is not None:
        for mapping in node.call.outputs:
            if not (thrown and mapping.zeebe):
                try:
                    pass_on(moves, mapping, called, token, local=mapping.local or node.keeps_variables)
                except NoValue as error:  # it names the called process, but the expression is here
                    raise NoValue(node.id, error.message) from error


def pass_on(moves: Moves, mapping: Mapping, source: Place, target: Place, local: bool) -> None:
    """Variables go from one place to another; ``local``: into it, not to where they are found around it."""
    for name, value in moves.passed(mapping, source).items():
        if local:
            moves.rows.set_local(target, name, value)
        else:
            moves.rows.set(target, name, value)
