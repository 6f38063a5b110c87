"""The examples of docs/how-to/jobs/test-jobs.md do what the page says."""

import pytest

from jobexec.handlers import registry
from jobexec.handlers.function import JobFunction

with registry.isolated():
    from docs.examples import shop
    from docs.examples.shop_tests import *  # noqa: F403
    from docs.examples.shop_unittest import *  # noqa: F403


@pytest.fixture(autouse=True)
def known():
    """The jobs of the shop are known in these tests only."""
    with registry.isolated():
        for value in vars(shop).values():
            if isinstance(value, JobFunction):
                registry.register(value)
        yield


@pytest.fixture(autouse=True)
def mailers(settings):
    """Django 6.1 wants a mailer to be named."""
    settings.MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
