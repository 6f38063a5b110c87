"""Settings of the driver and of its nodes: what they share comes from the driver, as JSON in the environment."""

import json
import os

_given = json.loads(os.environ.get("JOBEXEC_CHAOS", "{}"))

SECRET_KEY = "only for tests"
USE_TZ = True
TIME_ZONE = "UTC"
INSTALLED_APPS = ["jobexec", "jobexec.processes", "tests.chaos", "tests.chaos.processes"]
DATABASES = {"default": _given.get("database", {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"})}
TASKS = {"default": {"BACKEND": "jobexec.backends.JobExecutorBackend"}}
JOBEXEC = _given.get("jobexec", {})
CHAOS_FOLDER = _given.get("folder", "")
CHAOS_SEED = _given.get("seed", 0)

if DATABASES["default"]["ENGINE"].endswith(".mysql"):
    import pymysql

    pymysql.install_as_MySQLdb()
