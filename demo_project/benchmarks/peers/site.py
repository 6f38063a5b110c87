"""Settings of the two contenders that are Django apps; ``PEERS_SITE`` names the one."""

import os

from demo_project.benchmarks.peers.work import DATABASE, THREADS
from demo_project.databases import database

SECRET_KEY = "a benchmark"
DATABASES = {"default": database(DATABASE)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes"]
if os.environ.get("PEERS_SITE") == "django_tasks_db":
    INSTALLED_APPS += ["django_tasks_db"]
    TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
else:
    INSTALLED_APPS += ["jobexec", "demo_project.benchmarks.peers"]
    JOBEXEC = {"THREADS": THREADS, "HISTORY_LEVEL": os.environ.get("PEERS_HISTORY", "activity")}
