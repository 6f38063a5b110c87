"""``manage.py jobs``: a thin wrapper of :mod:`jobexec.management.jobs`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.core.management.color import no_style
from django.db import DEFAULT_DB_ALIAS, router

from jobexec.management.jobs.actions import ACTIONS, add_options
from jobexec.management.jobs.arguments.parser import Parser, suggesting
from jobexec.management.jobs.nested import LOOKING
from jobexec.management.jobs.output.failures import engine_named, told
from jobexec.management.jobs.output.outcome import operator
from jobexec.management.jobs.output.screen import Exit, Screen, usage
from jobexec.management.jobs.output.table import Column
from jobexec.management.jobs.stats.top import watch
from jobexec.models import Job
from jobexec.operations.audit import acting

_MORE_HELP = "manage.py jobs ACTION --help lists the options of an action."


class Command(BaseCommand):
    help = "Inspect and change jobs: list, show, why, retry, requeue, suspend, and more."
    requires_system_checks: list[str] = []  # it must also work when a check fails

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return suggesting(super().create_parser(prog_name, subcommand, **kwargs))

    def add_arguments(self, parser: ArgumentParser) -> None:
        groups = parser.add_subparsers(dest="action", metavar="ACTION", parser_class=Parser)
        for action in ACTIONS.values():
            group = groups.add_parser(action.name, help=action.help, description=action.help)
            group.usage = f"{group.prog} [options]{action.positionals}"
            add_options(group, action)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] is None:
            self._say_actions()
            sys.exit(Exit.USAGE)
        code, default = 0, router.db_for_write(Job)
        with told(self.stdout, options["database"] or default):
            code = self._run(engine_named(options["database"], default), options)
        if code:
            sys.exit(code)

    def _say_actions(self) -> None:
        """Write the short help: a line for each action. Not to stdout, where a script expects the result of one."""
        screen = Screen.of(self.stderr, no_style(), DEFAULT_DB_ALIAS, json=False)
        rows = [[action.name, action.help] for action in ACTIONS.values()]
        actions = screen.lines([Column("ACTION"), Column("", least=10)], rows)
        text = "\n".join(["usage: manage.py jobs ACTION [options]", "", *actions, "", _MORE_HELP])
        self.stderr.write(text, str)

    def _run(self, using: str, options: dict[str, Any]) -> int:
        screen = Screen.of(self.stdout, self.style, using, json=options["json"])
        action = ACTIONS[options["action"]]
        with acting(operator("jobs", action.name)):
            if options.get("watch") is None:
                return action.run(options, screen)
            if options.get("nested") not in (None, *LOOKING):
                raise usage(
                    f"--watch works only with actions that change nothing, not with {action.name} {options['nested']}."
                )
            return watch(action, options, screen)
