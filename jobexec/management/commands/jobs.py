"""``manage.py jobs``: a thin wrapper of :mod:`jobexec.management.jobs`."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from typing import Any, NoReturn

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.management.color import no_style
from django.db import DEFAULT_DB_ALIAS, DatabaseError, router

from jobexec.conf import get_settings
from jobexec.exceptions import InvalidJob, InvalidQuery, InvalidSettings, JobExecError, NodeRefused
from jobexec.executor.process.preflight import check_migrations
from jobexec.management.jobs.actions import ACTIONS, add_options
from jobexec.management.jobs.arguments.meant import with_suggestion
from jobexec.management.jobs.output.outcome import operator
from jobexec.management.jobs.output.screen import Exit, Screen, usage
from jobexec.management.jobs.output.table import Column
from jobexec.management.jobs.stats.top import watch
from jobexec.models import Job
from jobexec.operations.audit import acting

_MORE_HELP = "manage.py jobs ACTION --help lists the options of an action."


class Parser(CommandParser):
    """The parser of an action: an error about a word that it does not know names the one that is probably meant."""

    def error(self, message: str) -> NoReturn:
        super().error(with_suggestion(message))
        raise AssertionError  # Django's ends the process or raises


class Command(BaseCommand):
    help = "Inspect and change jobs: list, show, why, retry, requeue, suspend, and more."
    requires_system_checks: list[str] = []  # it must also work when a check fails

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        error = parser.error
        parser.error = lambda message: error(with_suggestion(message))  # type: ignore[method-assign]
        return parser

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
        try:
            code = self._run(options)
            self.stdout.flush()
        except BrokenPipeError:
            # The reader has closed the pipe, as with "| head". Python must not complain about it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = Exit.DONE
        except (InvalidJob, InvalidQuery) as error:
            raise usage(str(error)) from error
        except (JobExecError, ImproperlyConfigured) as error:
            raise CommandError(str(error), returncode=Exit.ERROR) from error
        except DatabaseError as error:
            raise CommandError(_reason(options, error), returncode=Exit.ERROR) from error
        except KeyboardInterrupt:
            raise CommandError("Interrupted.", returncode=130) from None
        if code:
            sys.exit(code)

    def _say_actions(self) -> None:
        """Write the short help: a line for each action. Not to stdout, where a script expects the result of one."""
        screen = Screen.of(self.stderr, no_style(), DEFAULT_DB_ALIAS, json=False)
        rows = [[action.name, action.help] for action in ACTIONS.values()]
        actions = screen.lines([Column("ACTION"), Column("", least=10)], rows)
        text = "\n".join(["usage: manage.py jobs ACTION [options]", "", *actions, "", _MORE_HELP])
        self.stderr.write(text, str)

    def _run(self, options: dict[str, Any]) -> int:
        using = options["database"] or router.db_for_write(Job)
        try:
            get_settings().engine(using)
        except InvalidSettings as error:
            if options["database"]:
                raise usage(f"--database: {error}") from error
            raise
        screen = Screen.of(self.stdout, self.style, using, json=options["json"])
        action = ACTIONS[options["action"]]
        with acting(operator("jobs", action.name)):
            if options.get("watch") is None:
                return action.run(options, screen)
            if options.get("nested"):
                raise usage(
                    f"--watch works only with actions that change nothing, not with {action.name} {options['nested']}."
                )
            return watch(action, options, screen)


def _reason(options: dict[str, Any], error: DatabaseError) -> str:
    """Describe a database error: above all, that the tables do not exist yet."""
    try:
        check_migrations(options["database"] or router.db_for_write(Job))
    except NodeRefused as refusal:
        return str(refusal)
    return str(error)
