"""Errors for values that are valid JSON but that databases cannot store."""

from __future__ import annotations

from django.db import DataError

#: What databases and their drivers raise for U+0000, lone surrogates, and numbers that are too large.
UNSTORABLE: tuple[type[Exception], ...] = (DataError, UnicodeEncodeError, OverflowError)

EXPECTED = "The request: expected strings and numbers that the database can store."
