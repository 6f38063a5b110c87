"""Bars in time: one small SVG for each row of a table, so that the text stays in the table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.html import format_html
from django.utils.safestring import SafeString

_WIDTH = 1000
#: What is shorter is still visible.
_LEAST = 4


@dataclass(frozen=True)
class Span:
    """The time that all bars share."""

    start: datetime
    end: datetime

    def bar(self, start: datetime, end: datetime, kind: str) -> SafeString:
        """The bar of what began and ended then; ``kind`` is its class."""
        left = self._place(start)
        width = max(self._place(end) - left, _LEAST)
        return format_html(
            '<svg class="jobexec-bar" viewBox="0 0 {} 10" preserveAspectRatio="none" aria-hidden="true">'
            '<rect class="{}" x="{}" y="0" width="{}" height="10"></rect></svg>',
            _WIDTH,
            kind,
            min(left, _WIDTH - _LEAST),
            width,
        )

    def _place(self, moment: datetime) -> int:
        length = (self.end - self.start).total_seconds()
        share = (moment - self.start).total_seconds() / length if length > 0 else 0.0
        return round(min(max(share, 0.0), 1.0) * _WIDTH)
