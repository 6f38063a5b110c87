"""Long polling: thousands of requests wait for jobs, and a single thread watches the database for all of them.

    jobs = await poll(using, fetch, timedelta(seconds=10))          # in a coroutine
    jobs = poll_in_thread(using, fetch, timedelta(seconds=10))      # in a thread; only a few threads may wait

``docs/explanation/long-polling.md`` has a diagram.
"""

from ...runtime.database_threads import DatabaseThreads, Overloaded
from .hub import Hub, answer_all, close_all, of
from .polling import Alive, Search, answering, give_back, kind_of, poll, poll_in_thread, search, search_in_thread
from .shares import Shares, TooManyWaiters

__all__ = [
    "Alive",
    "DatabaseThreads",
    "Hub",
    "Overloaded",
    "Search",
    "Shares",
    "TooManyWaiters",
    "answer_all",
    "answering",
    "close_all",
    "give_back",
    "kind_of",
    "of",
    "poll",
    "poll_in_thread",
    "search",
    "search_in_thread",
]
