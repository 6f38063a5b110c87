"""``jobs resource``."""
