"""Run `manage.py jobs` in this process, as a shell would."""

import json
from io import StringIO

from django.core.management import CommandError

from jobexec.management.commands.jobs import Command


class Terminal(StringIO):
    """An output that claims to be a terminal; the environment variable COLUMNS sets its width."""

    def isatty(self):
        return True


def jobs(*arguments, alias, terminal=False):
    """Return the exit code and the output."""
    out = Terminal() if terminal else StringIO()
    command = Command(stdout=out, stderr=out, no_color=not terminal, force_color=terminal)
    name, *others = (str(argument) for argument in arguments)
    parser = command.create_parser("manage.py", "jobs")
    options = vars(parser.parse_args([name, "--database", alias, *others]))
    try:
        command.execute(*options.pop("args", ()), **options)  # as manage.py does; call_command would keep it
    except SystemExit as ended:
        return ended.code, out.getvalue()
    except CommandError as error:
        return error.returncode, f"{out.getvalue()}{error}"
    return 0, out.getvalue()


def objects(*arguments, alias):
    """Return the exit code and the objects written with --json, one per line."""
    code, written = jobs(arguments[0], "--json", *arguments[1:], alias=alias)
    return code, [json.loads(line) for line in written.splitlines()]
