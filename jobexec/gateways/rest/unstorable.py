"""What a client sends that is right as JSON, and that no database takes."""

from __future__ import annotations

from django.db import DataError

#: What databases and their drivers say of U+0000, of half a surrogate pair, and of numbers that are too large.
UNSTORABLE: tuple[type[Exception], ...] = (DataError, UnicodeEncodeError, OverflowError)

EXPECTED = "The request: expected texts and numbers that a database can hold."
