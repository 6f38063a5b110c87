"""What ``manage.py jobbench`` runs: one file per case, each with the raw SQL of the same work beside it."""

from .case import Case
from .cluster import Cluster
from .drain import Drain
from .enqueue import Enqueue
from .enqueue_many import EnqueueMany
from .latency import Latency
from .measure import BenchError

#: The cases by name, in the order in which they are listed.
CASES: dict[str, type[Case]] = {case.name: case for case in (Enqueue, EnqueueMany, Drain, Latency, Cluster)}

__all__ = ["CASES", "BenchError", "Case"]
