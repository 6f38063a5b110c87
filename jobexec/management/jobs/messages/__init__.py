"""``jobs message``."""
