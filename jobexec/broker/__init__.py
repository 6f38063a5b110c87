"""Announcing jobs on a message broker (RabbitMQ, Redis): the messages and their publisher. They contain no jobs.

The rows are authoritative. A message only says that some of them may be there; it may be lost, duplicated or late.
``docs/explanation/broker.md`` explains how that works.
"""
