"""Announcing jobs on a message broker (RabbitMQ, Redis): what is said, and who says it. No job is in a message.

The rows are the truth. A message says that some of them may be there; it may be lost, come twice or too late.
``docs/explanation/broker.md`` tells how that works.
"""
