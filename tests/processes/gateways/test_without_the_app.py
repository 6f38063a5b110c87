"""A project without jobexec.processes has none of the calls."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, django
from django.conf import settings
settings.configure(
    SECRET_KEY="x", USE_TZ=True, INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "jobexec"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    ROOT_URLCONF="jobexec.gateways.rest.urls",
)
django.setup()
from django.urls import Resolver404, resolve
for path in ("/v2/process-instances", "/v2/deployments", "/engine-rest/task", "/engine-rest/message"):
    try:
        resolve(path)
    except Resolver404:
        continue
    raise SystemExit(path)
resolve("/v2/jobs/activation")
assert not [name for name in sys.modules if name.startswith("jobexec.processes")]
"""


@pytest.mark.gate
def test_it_has_no_such_address():
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=180)
    assert ended.returncode == 0, ended.stdout + ended.stderr
