"""jobexec beside other task queues, on the same machine with the same jobs.

    pip install -e ".[peers]"
    python -m demo_project.benchmarks.peers

Each contender is a module with the same six names: ``PACKAGES`` and ``SETTINGS``, which the table tells of,
``prepare()`` makes its tables and removes its jobs, ``enqueue_one(kind)`` and ``enqueue_many(kind, count)`` with the
best that it has for many, and ``worker()``, the command line of its worker. What is not set is its default.
"""
