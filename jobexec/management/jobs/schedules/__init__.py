"""``jobs schedules``."""
