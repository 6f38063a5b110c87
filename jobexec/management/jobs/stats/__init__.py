"""``jobs stats`` and ``jobs top``."""
