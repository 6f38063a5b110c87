"""The implementation of ``manage.py import_tasks``: turn waiting tasks of django-tasks-db into jobs."""
