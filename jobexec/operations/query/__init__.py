"""Query jobs by conditions."""

from .job_query import JobQuery
from .search import find, walk
from .stored_filter import describe, resolve

__all__ = ["JobQuery", "describe", "find", "resolve", "walk"]
