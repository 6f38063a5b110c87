"""``manage.py jobs``, for operators at a terminal and for scripts: one module per group of actions."""
