"""The admin of processes: definitions, instances with their picture, and tasks of people."""

from . import definition, instance, user_task  # noqa: F401  # registers them
