"""Camunda 8: the REST API, version 2, as far as workers and their operators need it."""
