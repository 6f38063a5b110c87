"""jobs schedules."""
