"""Limits of evaluation. A model is input from outside; no expression may stop the process that evaluates it."""

from __future__ import annotations

#: Characters of an expression's source.
MAX_SOURCE = 4_000
#: Levels of the tree.
MAX_DEPTH = 40
#: Nodes that one evaluation visits, plus the items that its functions walk over or create.
MAX_OPERATIONS = 10_000
#: Making a text of this many characters counts as one operation.
CHARACTERS_PER_OPERATION = 256
#: Characters of a text that an expression makes.
MAX_TEXT = 64 * 1024
#: Bits of an integer that takes part in arithmetic or becomes a text.
MAX_BITS = 1_024
#: Values in the lists and contexts of a result, counted as JSON would repeat them.
MAX_RESULT_VALUES = 64 * 1024
#: Levels of the lists and contexts that are compared, flattened, shown or returned.
MAX_VALUE_DEPTH = 100
