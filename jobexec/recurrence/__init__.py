"""Recurring times: cron expressions and ISO 8601 cycles. Pure values, no database.

==============================  ========================================================================
text                            meaning
==============================  ========================================================================
``0 3 * * *``                   cron, five fields: minute, hour, day of the month, month, day of the week
``30 0 3 * * MON-FRI``          six fields: the seconds come first
``@daily``                      and ``@hourly``, ``@midnight``, ``@weekly``, ``@monthly``, ``@yearly``, ``@annually``
``R/PT1H``                      every hour, counted from the anchor; the first after an hour
``R5/PT10M``                    the same five times
``R/2026-01-01T00:00Z/P1M``     from this moment on, inclusive
``R/PT1H/2026-12-31T00:00Z``    every hour until this moment, inclusive
``R/<start>/<end>``             from the start on, at intervals of the length from start to end
==============================  ========================================================================

**Cron** expressions have Debian's syntax, as the library cronsim implements it: with ``L``, ``LW``, ``MON#2``, ``5L``,
and Quartz' ``?`` for ``*``. Sunday is 0 or 7. An expression with a fixed hour and minute fires once each day, even when
the clocks change: a skipped time fires at the end of the gap, and of a repeated time only the first fires. If minute or
hour begins with ``*``, elapsed time counts.

**Cycles** are those of Camunda and Flowable. Days and shorter units have fixed lengths; months and years follow the
calendar of the time zone. A cycle is never shorter than a second.

All times are whole seconds in UTC.
"""

from __future__ import annotations

from .base import Recurrence
from .text import MAX_LENGTH, parse
from .zones import zone_named

__all__ = ["MAX_LENGTH", "Recurrence", "parse", "zone_named"]
