"""Tables of scenarios: a model, and what each step leads to.

::

    a join waits for both
        start -> fork+ -> a, b -> join+ -> end
        ---
        start        => a b
        complete a   => b join+
        complete b   => completed

Before ``=>`` stands a command, behind it what ``picture`` or the command says. Tokens are the ids of their elements in
the order of the alphabet: ``a`` waits, ``a<`` has a job before, ``a>`` after, ``a*`` works outside, ``a+`` is joined,
``a!`` has an incident, ``sub(a b)`` is a scope, ``a#2`` is the third instance of a multi-instance whose body is
``a(…)``, ``call[a]`` a called instance, ``~a`` the memory of what is done. ``process child`` begins another definition.
"""

from __future__ import annotations

import dataclasses
import json
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from jobexec.processes.engine.exceptions import StepError
from jobexec.processes.engine.inputs import (
    Assigned,
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
    Triggered,
)
from jobexec.processes.engine.rows import AT_JOBS, Instance, JobKind, State, Token

from .expressions import Unknown, evaluate
from .notation import model
from .world import World

MARKS = {
    State.WAITING: "",
    State.BEFORE: "<",
    State.AFTER: ">",
    State.OUTSIDE: "*",
    State.JOINED: "+",
    State.FAILED: "!",
    State.SCOPE: "",
    State.COMPENSABLE: "",
}


@dataclass
class Scenario:
    name: str
    models: dict[str, str]
    script: list[tuple[str, str]]

    def run(self) -> None:
        play = Play(self.models)
        for number, (command, expected) in enumerate(self.script, 1):
            found = play.do(command)
            assert found == expected, f"{self.name}, line {number}: {command} => {found}, not {expected}"


def scenarios(text: str) -> Any:
    """The decorator of a test that runs each scenario of a text."""
    found = [read(block) for block in re.split(r"\n(?=\S)", textwrap.dedent(text).strip())]
    names = [scenario.name for scenario in found]
    assert len(set(names)) == len(names), "two scenarios with one name"
    return pytest.mark.parametrize("scenario", found, ids=names)


def read(block: str) -> Scenario:
    name, *lines = block.splitlines()
    middle = next(number for number, line in enumerate(lines) if line.strip() == "---")
    models: dict[str, str] = {}
    key = "process"
    for line in lines[:middle]:
        if line.strip().startswith("process "):
            key = line.strip().removeprefix("process ")
        else:
            models[key] = models.get(key, "") + line + "\n"
    script = []
    for line in lines[middle + 1 :]:
        if line.strip():
            command, mark, expected = line.partition("=>")
            assert mark, f"{name}: {line}"
            script.append((command.strip(), expected.strip()))
    return Scenario(name, models, script)


class Play:
    """One instance of the first model, driven by commands."""

    def __init__(self, models: dict[str, str]) -> None:
        self.world = World(*(read_model(key, text) for key, text in models.items()))
        self.key = next(iter(models))
        self.root: Any = None

    def do(self, command: str) -> str:
        word, *arguments = command.split(None, 1)
        if "=" in word:
            raise AssertionError(command)
        action: Callable[[str], str | None] = getattr(self, f"do_{word}")
        try:
            found = action(arguments[0] if arguments else "")
        except StepError as error:
            return f"{type(error).__name__} {error.element}"
        except ZeroDivisionError:
            return "crash"
        return self.picture() if found is None else found

    # What happens

    def do_start(self, text: str) -> None:
        words, variables = arguments_of(text)
        self.root = self.world.start(self.key, words[0] if words else None, **variables)

    def do_complete(self, text: str) -> str | None:
        (element,), variables = arguments_of(text)
        token = self.token(element)
        return self.step(Completed(token.id, token.activity, variables))

    def do_assign(self, text: str) -> str | None:
        token = self.token(text)
        return self.step(Assigned(token.id, token.activity))

    def do_run(self, text: str) -> str | None:
        """Run the job of an element."""
        token = self.token(text, State.BEFORE, State.AFTER)
        return self.step(Continue(token.id, token.job), token.job)

    def do_done(self, text: str) -> str | None:
        """A handler outside, or a worker, is done."""
        element, _, result = text.partition(" ")
        token = self.token(element, State.OUTSIDE)
        return self.step(JobDone(token.id, token.job, json.loads(result) if result else None), token.job)

    def do_fail(self, text: str) -> str | None:
        """The job of an element has no retries left."""
        token = self.token(text, *AT_JOBS)
        return self.step(JobFailed(token.id, token.job), token.job)

    def do_error(self, text: str) -> str | None:
        """A worker or a user ends with a BPMN error."""
        (element, code), variables = arguments_of(text)
        token = self.token(element, *State)
        return self.step(ErrorThrown(token.id, token.activity, code, "told so", variables), token.job)

    def do_escalate(self, text: str) -> str | None:
        element, code = text.split()
        token = self.token(element)
        return self.step(EscalationThrown(token.id, token.activity, code))

    def do_fire(self, text: str) -> str | None:
        """A timer fires; if it repeats, its job stays."""
        (element,), _ = arguments_of(text)
        name, _, index = element.partition("#")
        timers: list[Any] = [
            job for job in self.world.jobs.values() if job.kind is JobKind.TIMER and job.element == name
        ]
        if not timers:
            return "no such timer"
        job = timers[int(index or 0)]
        done = None if job.timer.repeats else job.id
        return self.step(Triggered(job.owner, job.element, job.activity), done)

    def do_message(self, text: str) -> str | None:
        (name,), variables = arguments_of(text)
        return self.occur("message", name, variables)

    def do_signal(self, text: str) -> str | None:
        (name,), variables = arguments_of(text)
        return self.occur("signal", name, variables)

    def occur(self, kind: str, name: str, variables: dict[str, Any]) -> str | None:
        name, _, index = name.partition("#")
        found = [row for row in self.world.subscriptions.values() if (row.kind, row.name) == (kind, name)]
        if not found:
            return "nobody waits"
        row = found[int(index or 0)]
        return self.step(Triggered(row.owner, row.element, row.activity, variables))

    def do_retry(self, text: str) -> str | None:
        return self.step(Retried(self.token(text, State.FAILED).id))

    def do_cancel(self, text: str) -> str | None:
        return self.step(Cancelled(self.root, text))

    def do_modify(self, text: str) -> str | None:
        """``cancel:a before:b after:c``, and variables for what is started; ``of:a`` the instance that a called.

        ``cancel:a/a#1``: only this one of a multi-instance; ``before:b/a#1``: in this scope.
        """
        words, variables = arguments_of(text)
        root = self.root
        if words[0].startswith("of:"):
            root = self.token(words.pop(0)[3:]).called
        return self.step(Modified(root, self.commands_of(words, variables), "by hand"))

    def commands_of(self, words: list[str], variables: dict[str, Any]) -> tuple[Command, ...]:
        parts = [word.partition("/") for word in words]
        activities = [self.token(place, *State).activity if place else None for _, _, place in parts]
        commands = commands_of([word for word, _, _ in parts], variables)
        pairs = zip(commands, activities, strict=True)
        return tuple(dataclasses.replace(command, activity=activity) for command, activity in pairs)

    def do_suspend(self, text: str) -> None:
        """All instances of a process; without its key, none any more."""
        self.world.suspended = set(text.split())

    def do_begin(self, text: str) -> None:
        """A new instance that starts where it is told to."""
        words, variables = arguments_of(text)
        self.root = self.world.start(self.key, None, commands_of(words, {}), **variables)

    def do_set(self, text: str) -> None:
        """A variable of the instance changes, from outside."""
        _, variables = arguments_of(text)
        self.world.variables.setdefault(self.root, {}).update(variables)

    def step(self, event: Any, job: Any = None) -> str | None:
        changes = self.world.do(event, self.root, job)
        return None if changes.accepted else "not accepted"

    # What one may ask

    def do_calls(self, text: str) -> str:
        return " ".join(self.world.handlers_called)

    def do_notices(self, text: str) -> str:
        return " ".join(self.world.notices)

    def do_history(self, text: str) -> str:
        """Elements in the order of their ends; ! is cancelled."""
        return " ".join(f"{row.element}{'!' if row.state == 'cancelled' else ''}" for row in self.world.history)

    def do_var(self, text: str) -> str:
        """A variable of the instance, or, after its end, of what it ended with."""
        instance = self.world.instances[self.root]
        found = self.world.variables.get(self.root) or instance.final_variables or {}
        return json.dumps(found[text]) if text in found else "unknown"

    def do_local(self, text: str) -> str:
        """A local variable of an element."""
        element, name = text.split()
        found = self.world.variables.get(self.token(element).id, {})
        return json.dumps(found[name]) if name in found else "unknown"

    def do_see(self, text: str) -> str:
        """An expression at an element."""
        element, expression = text.split(None, 1)
        tokens = self.world.load(self.root)
        try:
            return json.dumps(evaluate(expression, tokens.scope(tokens.tokens[self.token(element).id])))
        except Unknown:
            return "unknown"

    def do_jobs(self, text: str) -> str:
        return " ".join(sorted(f"{job.kind}:{job.element}" for job in self.world.jobs.values()))

    def do_timers(self, text: str) -> str:
        timers = [(job.element, job.timer) for job in self.world.jobs.values() if job.timer]
        return " ".join(sorted(f"{element}:{timer.kind}:{timer.when}" for element, timer in timers))

    def do_waits(self, text: str) -> str:
        """What is subscribed."""
        return " ".join(sorted(f"{row.kind}:{row.name}" for row in self.world.subscriptions.values()))

    def do_tasks(self, text: str) -> str:
        return " ".join(sorted(f"{task.element}:{task.form.get('assignee')}" for task in self.world.tasks.values()))

    def do_incidents(self, text: str) -> str:
        return " ".join(sorted(row.element for row in self.world.incidents.values()))

    def do_signals(self, text: str) -> str:
        return " ".join(f"{row.name}:{json.dumps(row.variables)}" for row in self.world.signals)

    def do_end(self, text: str) -> str:
        return str(self.world.instances[self.root].end_element)

    def do_states(self, text: str) -> str:
        """How each instance is, in the order of their starts."""
        return " ".join(row.state for row in self.world.instances.values())

    # Tokens

    def token(self, text: str, *states: State) -> Any:
        """``a``, ``a#1`` (in a multi-instance), ``a@2`` (the third of several)."""
        name, _, index = text.partition("@")
        name, _, counter = name.partition("#")
        found = [
            token
            for token in self.world.tokens.values()
            if token.element == name and (token.state in states or not states)
            if states or token.state not in (State.COMPENSABLE, State.SCOPE)
            if not counter or self.counter(token) == int(counter)
        ]
        assert found, f"no token at {text}: {self.picture()}"
        return found[int(index or 0)]

    def counter(self, token: Token | None) -> Any:
        while token is not None:
            if "counter" in token.data:
                return token.data["counter"]
            token = self.world.tokens.get(token.parent)
        return None

    def picture(self) -> str:
        instance = self.world.instances[self.root]
        if instance.ended_at is not None:
            return str(instance.state)
        return self.picture_of(instance)

    def picture_of(self, place: Token | Instance) -> str:
        children = [token for token in self.world.tokens.values() if token.parent == place.id]
        return " ".join(sorted(map(self.picture_of_token, children)))

    def picture_of_token(self, token: Token) -> str:
        text = ("~" if token.state is State.COMPENSABLE else "") + token.element
        if "counter" in token.data:
            text += f"#{token.data['counter']}"
        text += MARKS[token.state]
        if token.state is State.SCOPE or any(other.parent == token.id for other in self.world.tokens.values()):
            text += f"({self.picture_of(token)})"
        if token.called is not None:
            text += f"[{self.picture_of(self.world.instances[token.called])}]"
        return text


def commands_of(words: list[str], variables: dict[str, Any]) -> tuple[Command, ...]:
    found = []
    for word in words:
        change, _, element = word.partition(":")
        found.append(Command(Change(change), element, {} if change == "cancel" else variables))
    return tuple(found)


def arguments_of(text: str) -> tuple[list[str], dict[str, Any]]:
    """Words, and ``name=json`` (without spaces)."""
    words, variables = [], {}
    for word in text.split():
        name, mark, content = word.partition("=")
        if mark:
            variables[name] = json.loads(content)
        else:
            words.append(word)
    return words, variables


def read_model(key: str, text: str) -> Any:
    """The first line of a model may say ``compensates``."""
    attributes = {}
    if "compensates\n" in text:
        text = text.replace("compensates\n", "\n")
        attributes["compensates"] = True
    return model(text, key, **attributes)
