"""The built-in functions of FEEL, one file per kind of value.

Null semantics are the caller's: a function is called only if its arguments have the declared kinds, and what has no
answer returns None. A function gets the running ``evaluation`` where its cost depends on more than its arguments'
lengths.
"""

from __future__ import annotations

from ..functions import Functions
from . import contexts, conversion, lists, numeric, patterns, ranges, strings, temporal

FEEL_FUNCTIONS = Functions()
for _table in (conversion, strings, patterns, numeric, lists, contexts, temporal, ranges):
    FEEL_FUNCTIONS.update(_table.FUNCTIONS)

__all__ = ["FEEL_FUNCTIONS"]
