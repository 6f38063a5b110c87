"""The admin of processes: definitions, instances with their diagram, and user tasks."""

from . import definition, instance, user_task  # noqa: F401  # registers them
