"""``manage.py jobbench``: how fast jobs are enqueued and executed on the server that DEMO_DATABASE names."""
