"""Formatting of values in the admin: HTML without inline script or style, and text that fits into a cell."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.operations.values.humanize import NONE as NONE
from jobexec.operations.values.humanize import absolute as absolute
from jobexec.operations.values.humanize import distance
from jobexec.operations.values.humanize import duration as duration

MAX_TEXT = 100_000
#: A frame of a stack trace: its file, and the lines below that are deeper.
_FRAME = re.compile(r'^  File ".*(?:\n    .*)*', re.MULTILINE)
#: In the file of a frame that is no code of the project.
_FOREIGN = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python3[^/\\]*|jobexec)[/\\]|<frozen ")
#: In a cell.
LONGEST_CALL, LONGEST_EXCEPTION = 80, 160


def now(row: Model) -> datetime:
    """The current time of the row's database, to compare the row's times with."""
    return clock.now(row._state.db or "default")


def relative(moment: datetime | None, reference: datetime) -> str | SafeString:
    """A moment relative to a reference: "in 3 min", "2 h ago"; the tooltip has the exact time."""
    if moment is None:
        return NONE
    return _time(moment, distance(moment, reference))


def age(moment: datetime, reference: datetime) -> SafeString:
    """How long ago a moment was, without the word "ago"."""
    return _time(moment, duration((reference - moment).total_seconds()))


def handler(name: str) -> SafeString:
    """A handler's name, which may be long, with line break opportunities."""
    return format_html_join(SafeString("<wbr>."), "{}", ((part,) for part in name.split(".")))


def exact(moment: datetime | None, reference: datetime) -> str | SafeString:
    """A moment with seconds, and its distance from the reference."""
    if moment is None:
        return NONE
    return format_html("{} ({})", absolute(moment), relative(moment, reference))


def _time(moment: datetime, text: str) -> SafeString:
    return format_html(
        '<time class="jobexec-time" datetime="{}" title="{}">{}</time>', moment.isoformat(), absolute(moment), text
    )


def yes_or_no(flag: Any) -> str:
    """A flag as a word: Django shows a red cross for False, as if something were wrong."""
    return _("yes") if flag else _("no")


def badge(kind: str, text: Any) -> SafeString:
    """A coloured label. ``kind``: ok, work, wait, warn, bad, off."""
    return format_html('<span class="jobexec-badge jobexec-{}">{}</span>', kind, text)


def call(handler_type: str, text: str, tenant: str = "", exception: str = "") -> SafeString:
    """A call, ``charge_card(order_id=17)``, cut if it is long; below it its module, its tenant and its exception.

    Without a text, as for a job that is gone, the name of the handler.
    """
    module, _dot, name = handler_type.rpartition(".")
    text = text or name or handler_type
    where = [handler(module)] if module else []
    where += [format_html("{}", _("tenant %(tenant)s") % {"tenant": tenant})] if tenant else []
    parts = [format_html('<span class="jobexec-call" title="{}">{}</span>', text, cut(text, LONGEST_CALL))]
    parts += [_beneath(format_html_join(" · ", "{}", ((each,) for each in where)))] if where else []
    parts += [_beneath(shortened(exception, LONGEST_EXCEPTION), " jobexec-error")] if exception else []
    return format_html_join("", "{}", ((part,) for part in parts))


def _beneath(text: str | SafeString, more: str = "") -> SafeString:
    return format_html('<span class="jobexec-beneath{}">{}</span>', more, text)


def cut(text: str, length: int) -> str:
    """The text, with "…" in place of what is longer."""
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"


def shortened(text: str, length: int = 80) -> str | SafeString:
    """The first line, cut to ``length``; the tooltip has up to 500 characters of the text."""
    if not text:
        return NONE
    line = text.strip().split("\n", 1)[0]
    if line == text and len(line) <= length:
        return line
    kept = line if len(line) <= length else line[: length - 1].rstrip()
    return format_html('<span title="{}">{}…</span>', text[:500], kept)


def lock_owner(owner: str | None) -> str | SafeString:
    """The node name of a lock owner (name:boot), which is the tooltip; "free" for None."""
    if owner is None:
        return format_html('<span class="jobexec-quiet">{}</span>', _("free"))
    return format_html('<span title="{}">{}</span>', owner, owner.rpartition(":")[0] or owner)


def pre(text: str) -> str | SafeString:
    """Preformatted text in a box that scrolls, cut to ``MAX_TEXT`` characters."""
    if not text:
        return NONE
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + "\n…"
    # Focusable, so that keyboard users can scroll it.
    return format_html('<pre class="jobexec-pre" tabindex="0">{}</pre>', text)


def stack_trace(text: str) -> str | SafeString:
    """A stack trace, with the frames of the project's own code before it, the innermost first."""
    frames = [frame for frame in _FRAME.findall(text[:MAX_TEXT]) if not _FOREIGN.search(frame.split("\n", 1)[0])]
    if not frames or len(frames) == len(_FRAME.findall(text[:MAX_TEXT])):
        return pre(text)
    own = "\n".join(textwrap.dedent(frame).rstrip() for frame in reversed(frames))
    title = _("Whole stack trace")
    return format_html("{}<details><summary>{}</summary>{}</details>", pre(own), title, pre(text))


def json_text(value: Any) -> str | SafeString:
    """Indented JSON; numbers of any size are shown exactly."""
    if value in (None, "", {}, []):
        return NONE
    return pre(
        value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, cls=DjangoJSONEncoder)
    )


def lines(values: Any) -> str | SafeString:
    """A list with one value per line."""
    if not values:
        return NONE
    return format_html_join(SafeString("<br>"), "{}", ((value,) for value in values))


def row(parts: Sequence[Any]) -> str | SafeString:
    """Several values side by side."""
    return format_html_join(" ", "{}", ((part,) for part in parts)) or NONE


def link(url: str, text: Any, **query: str) -> SafeString:
    """A link with query parameters."""
    return format_html('<a href="{}{}">{}</a>', url, f"?{urlencode(query)}" if query else "", text)


def job_link(id: UUID, site: str) -> SafeString:
    """A link to a job in any table. It shows the end of the id, which differs even for jobs of the same moment."""
    url = reverse("admin:jobexec_job_locate", args=[id], current_app=site)
    return format_html('<a class="jobexec-line" href="{}" title="{}">…{}</a>', url, id, str(id)[-12:])


def number(value: int) -> str:
    """With separators of thousands: 1,204,112."""
    return number_format(value, force_grouping=True)


def load(used: int, total: int) -> SafeString:
    """A bar with its numbers: ``used / total``."""
    return format_html(
        '<span class="jobexec-load"><meter min="0" max="{}" value="{}"></meter> {} / {}</span>',
        max(total, 1),
        used,
        number(used),
        number(total),
    )
