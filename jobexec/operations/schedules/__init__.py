"""Schedules: rules that create jobs at recurring times."""

from .manage import delete_schedule, fire_now, save_schedule, schedule_problem, scheduled_for, set_enabled
from .times import upcoming

__all__ = [
    "delete_schedule",
    "fire_now",
    "save_schedule",
    "schedule_problem",
    "scheduled_for",
    "set_enabled",
    "upcoming",
]
