"""The part of Camunda 8's REST API, version 2, that workers and their operators need."""
