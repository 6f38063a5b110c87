"""What ``manage.py import_tasks`` does: waiting tasks of django-tasks-db become jobs."""
