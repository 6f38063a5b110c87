"""``jobs message``: list and show messages."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from jobexec import clock
from jobexec.models import Message
from jobexec.operations.reports.messages import message_counts
from jobexec.operations.values.humanize import NONE, distance
from jobexec.operations.values.messages import shown_payload

from ..nested import Group
from ..output.screen import Exit, Screen
from ..output.table import Cell, Column
from ..output.text import clean
from .change import CHANGES

LIMIT = 100


class ListMessages:
    """List messages, the latest first."""

    name = "list"
    help = "List messages that are delivered or kept, the latest first; the default action."
    positionals = ""

    def add_options(self, parser: ArgumentParser) -> None:
        """Add no options."""

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        rows = Message.objects.using(screen.using).defer("payload").order_by("-id")[: options["limit"]]
        found = list(rows)
        if screen.json:
            for row in found:
                screen.tell(_as_object(row))
            return Exit.DONE
        if found:
            _tell(found, screen)
        else:
            screen.say(_("No messages."))
        waiting = message_counts(screen.using).waiting
        screen.say(_("Jobs that wait for a message: %(count)s") % {"count": waiting})
        return Exit.DONE


class ShowMessage:
    """Show one message, with its payload."""

    name = "show"
    help = "Show a message with its payload, without sensitive values."
    positionals = " NUMBER"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("message", type=int, metavar="NUMBER", help="the message, by its number")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        row = Message.objects.using(screen.using).filter(pk=options["message"]).first()
        if row is None:
            if not screen.json:
                screen.say(_("There is no such message."), screen.style.WARNING)
            return Exit.LEFT_ALONE
        payload = shown_payload(row.payload)
        if screen.json:
            screen.tell({**_as_object(row), "payload": payload})
        else:
            _tell([row], screen)
            screen.say(_("Payload: %(payload)s") % {"payload": clean(json.dumps(payload, ensure_ascii=False))})
        return Exit.DONE


def _as_object(row: Message) -> dict[str, Any]:
    names = ("tenant_id", "name", "key", "message_id", "create_time", "expiration_time", "delivery_time", "delivered")
    return {"number": row.pk, **{name: getattr(row, name) for name in names}}


def _tell(rows: Sequence[Message], screen: Screen) -> None:
    now = clock.now(screen.using)
    columns = [
        Column(_("number"), right=True),
        Column(_("name"), least=8),
        Column(_("key"), least=8, keep_end=True),
        Column(_("state")),
        Column(_("published"), right=True, extra=1),
        Column(_("kept until"), right=True),
        Column(_("delivered"), right=True, extra=2),
        Column(_("tenant id"), extra=3),
        Column(_("message id"), extra=4),
    ]
    screen.table(columns, [_cells(row, now, screen) for row in rows])


def _cells(row: Message, now: Any, screen: Screen) -> list[Cell | str]:
    if row.delivery_time is not None:
        state = Cell(pgettext("state of a message", "being delivered"), screen.style.WARNING)
    elif row.expiration_time is not None and row.expiration_time > now:
        state = Cell(pgettext("state of a message", "kept"), screen.style.SUCCESS)
    else:
        state = Cell(pgettext("state of a message", "expired"), str)
    return [
        str(row.pk),
        row.name,
        row.key,
        state,
        distance(row.create_time, now),
        NONE if row.expiration_time is None else distance(row.expiration_time, now),
        str(row.delivered),
        row.tenant_id or NONE,
        row.message_id or NONE,
    ]


_NESTED = (ListMessages(), ShowMessage(), *CHANGES)


class Messages(Group):
    """List messages, or run a nested action."""

    name = "message"
    help = "List messages for jobs that wait; or show, publish, delete one."
    positionals = " [list|show NUMBER|publish NAME KEY|delete NUMBER]"
    nested = _NESTED
    limit = LIMIT
