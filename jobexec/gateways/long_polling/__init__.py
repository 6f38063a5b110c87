"""Waiting for jobs: thousands of requests wait, and one thread watches the database for them all.

    jobs = await poll(using, fetch, timedelta(seconds=10))          # in a coroutine
    jobs = poll_in_thread(using, fetch, timedelta(seconds=10))      # in a thread; of those only a few may wait

``docs/explanation/long-polling.md`` has the drawing.
"""

from ...runtime.database_threads import DatabaseThreads, Overloaded
from .hub import Hub, close_all, of
from .polling import Alive, Search, give_back, kind_of, poll, poll_in_thread, search, search_in_thread
from .shares import Shares, TooManyWaiters

__all__ = [
    "Alive",
    "DatabaseThreads",
    "Hub",
    "Overloaded",
    "Search",
    "Shares",
    "TooManyWaiters",
    "close_all",
    "give_back",
    "kind_of",
    "of",
    "poll",
    "poll_in_thread",
    "search",
    "search_in_thread",
]
