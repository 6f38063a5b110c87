"""Fixtures for tests in a real browser, under a strict content security policy. Import them in a conftest."""

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.test import Client

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

marks = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found on PATH"),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A running Chromium."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        # The synchronous API runs an event loop in this thread, and Django then refuses to use the ORM.
        before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()
        os.environ.pop("DJANGO_ALLOW_ASYNC_UNSAFE")
        if before is not None:
            os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = before


@pytest.fixture
def policy(settings: Any) -> None:
    """Set a strict content security policy if Django supports it: the console then reports what it blocks."""
    try:
        from django.utils.csp import CSP
    except ImportError:
        return
    settings.MIDDLEWARE = ["django.middleware.csp.ContentSecurityPolicyMiddleware", *settings.MIDDLEWARE]
    mine = [CSP.SELF, CSP.NONCE]
    settings.SECURE_CSP = {
        "default-src": [CSP.SELF],
        "script-src": mine,
        "style-src": mine,
        "img-src": [CSP.SELF, "data:"],
    }


@pytest.fixture
def open_page(chromium: Any, policy: None, live_server: Any) -> Iterator[Callable[..., Any]]:
    """``open_page(user, **context)`` opens a page in a browser context of its own, logged in if a user is given.

    Addresses may be relative. Any complaint of the browser fails the test; ``page.complaints`` holds those of one page.
    """
    opened: list[Any] = []

    def open(user: Any = None, **options: Any) -> Any:
        size = {"width": 1440, "height": 900}
        context = chromium.new_context(base_url=live_server.url, **{"viewport": size, **options})
        if user is not None:
            context.add_cookies([_session(user, live_server.url)])
        page = context.new_page()
        page.complaints = _complaints(page)
        opened.append(page)
        return page

    yield open
    for page in opened:
        page.context.close()
    assert [line for page in opened for line in page.complaints] == []


@pytest.fixture
def page(open_page: Callable[..., Any]) -> Any:
    """A page with a logged-in administrator."""
    return open_page(get_user_model().objects.create_superuser("admin", password="secret"))


def _session(user: Any, url: str) -> dict[str, str]:
    client = Client()
    client.force_login(user)
    name = django_settings.SESSION_COOKIE_NAME
    return {"name": name, "value": client.cookies[name].value, "url": url}


def _complaints(page: Any) -> list[str]:
    """Collect script errors, console warnings (such as violations of the policy) and server errors."""
    found: list[str] = []

    def hear(line: Any) -> None:
        if line.type in ("error", "warning") and "favicon" not in line.text and "404" not in line.text:
            found.append(line.text)

    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", hear)
    page.on("response", lambda response: found.append(response.url) if response.status >= 500 else None)
    return found
