"""``jobs completion``: a script by which a shell completes actions, options and names."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jobexec.conf import Settings, get_settings
from jobexec.models import ExecutorNode
from jobexec.operations.query.job_query import STATES

from .arguments.filters import handler_names
from .changes.subcommands import SCOPES
from .output.screen import Exit, Screen

_MOST = 1000

#: Names that only the project knows. The scripts ask for them when they are needed.
_NAMES: Mapping[str, Callable[[str], Any]] = {
    "handlers": handler_names,
    "nodes": lambda using: ExecutorNode.objects.using(using).values_list("name", flat=True).distinct()[:_MOST],
}
_SHELLS = ("bash", "zsh", "fish")
#: Options and arguments, by their metavar or name, that take such names.
_TAKES = {"--handler": "handlers", "--node": "nodes", "HANDLER": "handlers", "NODE": "nodes"}
_WORDS: Mapping[str, Iterable[str]] = {"--state": STATES, "--scope": SCOPES}
_OF_SETTINGS: Mapping[str, Callable[[Settings], Any]] = {
    "--category": lambda settings: settings.categories,
    "--database": lambda settings: settings.engines,
}


class Completion:
    """Write a script for a shell, or the names for which its function asks."""

    name = "completion"
    help = "Print a script with which bash, zsh or fish completes actions, options, handlers and nodes."
    positionals = " bash|zsh|fish"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=(*_SHELLS, *_NAMES), metavar="SHELL", help=", ".join(_SHELLS))

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        what = options["what"]
        if what in _NAMES:
            for name in sorted(_NAMES[what](screen.using)):
                screen.say(name)
            return Exit.DONE
        table = "\n".join(f"{key}\t{' '.join(words)}" for key, words in completions())
        # zsh runs the functions of bash.
        script = Path(__file__).with_name("completion.fish" if what == "fish" else "completion.bash").read_text()
        begin = "autoload -Uz bashcompinit && bashcompinit\n" if what == "zsh" else ""
        screen.say(begin + script.replace("@TABLE@", table).rstrip("\n"))
        return Exit.DONE


def completions() -> Iterator[tuple[str, list[str]]]:
    """The completions: words after an action ("nodes", "nodes pause"), and values of options and arguments.

    The key of what may follow "jobs" is "-". The key of a value has its action and the option ("list --state"), or "*"
    for an argument; "@handlers" and "@nodes" stand for names.
    """
    from .actions import ACTIONS, add_options  # of which this is one

    parser = ArgumentParser(add_help=False)
    groups = parser.add_subparsers()
    for action in ACTIONS.values():
        add_options(groups.add_parser(action.name, add_help=False), action)
    yield from _of(parser, "")


def _of(parser: ArgumentParser, path: str) -> Iterator[tuple[str, list[str]]]:
    words, below = [], []
    for each in parser._actions:
        words += [option for option in each.option_strings if option.startswith("--")]
        if isinstance(each.choices, Mapping):  # of actions
            words += each.choices
            below += [(name, child) for name, child in each.choices.items()]
            continue
        for name in each.option_strings or ["*"]:
            values = _values(name, each)
            if values:
                yield f"{path} {name}".strip(), values
    yield path or "-", words
    for name, child in below:
        yield from _of(child, f"{path} {name}".strip())


def _values(name: str, argument: Any) -> list[str]:
    if name in _WORDS and argument.choices is None:
        return list(_WORDS[name])
    if name in _OF_SETTINGS:
        return list(_OF_SETTINGS[name](get_settings()))
    if argument.choices is not None:
        return [str(value) for value in argument.choices if value not in _NAMES and " " not in str(value)]
    taken = _TAKES.get(name) or _TAKES.get(argument.metavar or "")
    return [f"@{taken}"] if taken else []
