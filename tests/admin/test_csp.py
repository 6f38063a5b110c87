"""Under Django's own content security policy nothing inline is left without a nonce."""

import re

import django
import pytest

from jobexec.models import DeadLetterJob

from . import data
from .conftest import list_url, page_url

pytestmark = pytest.mark.skipif(django.VERSION < (6, 0), reason="Django has a content security policy since 6.0")


@pytest.fixture
def policy(settings):
    from django.utils.csp import CSP

    settings.MIDDLEWARE = ["django.middleware.csp.ContentSecurityPolicyMiddleware", *settings.MIDDLEWARE]
    settings.SECURE_CSP = {
        "default-src": [CSP.SELF],
        "script-src": [CSP.SELF, CSP.NONCE],
        "style-src": [CSP.SELF, CSP.NONCE],
    }


def test_the_range_filters_find_the_nonce(admin, policy):
    data.dead_letter()
    response = admin.get(list_url(DeadLetterJob))
    nonce = re.search(r"'nonce-([^']+)'", response["Content-Security-Policy"])[1]
    content = response.content.decode()
    filters = re.findall(r'<(?:style|script type="text/javascript") nonce="([^"]*)"', content)
    assert len(filters) >= 4
    assert set(filters) == {nonce}


def test_our_pages_have_nothing_inline(admin, policy):
    job = data.dead_letter_with_log()
    for content in (
        admin.get(page_url(job)).content.decode(),
        admin.act(DeadLetterJob, "requeue", [job], answered=False).content.decode(),
    ):
        main = content.split('id="content-start"')[1]
        assert not re.search(r"<script(?![^>]*src=)", main)
        assert not re.search(r"<style| style=| onclick=", main)
