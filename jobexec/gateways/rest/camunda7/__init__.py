"""Camunda 7's REST API for external tasks, for its clients as they are; see ``docs/reference/engine-rest.md``."""
