"""``jobs list``, ``show`` and ``why``."""
