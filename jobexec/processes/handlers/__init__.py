"""The handlers that a process calls, and the jobs that drive it.

``registry`` has the functions that a project names in its models, and ``environment`` runs them for the engine.
``stepping`` is a step in its transaction, and ``steps`` are functions that run in jobs of their own.
"""
