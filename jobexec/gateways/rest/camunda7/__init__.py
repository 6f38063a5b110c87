"""Camunda 7's REST API for external tasks, for its unmodified clients; see ``docs/reference/engine-rest.md``."""
