"""``jobs message publish`` and ``delete``."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from jobexec import operations
from jobexec.operations.manage.purge import delete_messages

from ..arguments import values
from ..output.screen import Exit, Screen


class Publish:
    """Publish a message."""

    name = "publish"
    help = "Publish a message: every job that waits for its name and key continues."
    positionals = " NAME KEY"

    def add_options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("message", metavar="NAME", help="its name")
        add("key", metavar="KEY", help="its key")
        add("--payload", type=values.json_value, metavar="JSON", help="what the jobs receive; default: null")
        add(
            "--ttl",
            metavar="DURATION",
            help="keep it for jobs that wait later: seconds, or an ISO 8601 duration such as PT1H",
        )
        add("--message-id", metavar="ID", help="ignore it while a message with this id is kept")
        add("--tenant", default="", metavar="TENANT", help="the tenant of the jobs; default: none")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        ttl = options["ttl"]
        row = operations.publish_message(
            options["message"],
            key=options["key"],
            payload=options["payload"],
            ttl=int(ttl) if ttl is not None and ttl.isdecimal() else ttl,
            message_id=options["message_id"],
            tenant_id=options["tenant"],
            using=screen.using,
        )
        if screen.json:
            screen.tell({"operation": self.name, "number": row.pk, "is_duplicate": row.is_duplicate})
        elif row.is_duplicate:
            text = _("A message with this message id is already kept. Nothing was published.")
            screen.say(text, screen.style.WARNING)
        else:
            screen.say(_("Message %(number)d published.") % {"number": row.pk}, screen.style.SUCCESS)
        return Exit.LEFT_ALONE if row.is_duplicate else Exit.DONE


class Delete:
    """Delete a message."""

    name = "delete"
    help = "Delete a message, so that no further job receives it."
    positionals = " NUMBER"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("message", type=int, metavar="NUMBER", help="the message, by its number")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        gone = delete_messages([options["message"]], using=screen.using)
        if screen.json:
            screen.tell({"operation": self.name, "changed": gone})
        elif gone:
            screen.say(_("Message %(number)d deleted.") % {"number": gone[0]}, screen.style.SUCCESS)
        else:
            screen.say(_("There is no such message."), screen.style.WARNING)
        return Exit.DONE if gone else Exit.LEFT_ALONE


CHANGES = (Publish(), Delete())
