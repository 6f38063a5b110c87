"""Protection against requests that a page of another site lets a browser send, with credentials it remembers."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest

from jobexec.exceptions import NotAllowed

_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def refuse_other_sites(request: HttpRequest) -> None:
    """Raise NotAllowed for a request that changes something and was sent by a page of another site.

    A browser adds remembered Basic credentials, client certificates and its access to the network to any request that a
    page makes it send. A bearer token, in contrast, comes from the page itself, which therefore knows it. Workers are
    not browsers and send no headers about sites. As in Django, ``CSRF_TRUSTED_ORIGINS`` are accepted.
    """
    if request.method in _SAFE or request.META.get("HTTP_AUTHORIZATION", "").lower().startswith("bearer "):
        return
    origin = request.META.get("HTTP_ORIGIN", "")
    if origin and (_is_own(request, origin) or _is_trusted(origin)):
        return
    if origin or request.META.get("HTTP_SEC_FETCH_SITE") in {"cross-site", "same-site"}:
        raise NotAllowed("A browser sent this request from a page of another site (see CSRF_TRUSTED_ORIGINS).")


def _is_own(request: HttpRequest, origin: str) -> bool:
    return origin == f"{request.scheme}://{request.get_host()}"


def _is_trusted(origin: str) -> bool:
    found = urlsplit(origin)
    for trusted in settings.CSRF_TRUSTED_ORIGINS:
        scheme, _, host = trusted.partition("://")
        subdomain = host.startswith("*.") and found.netloc.endswith(host[1:])
        if scheme == found.scheme and (host == found.netloc or subdomain):
            return True
    return False


def is_json(request: HttpRequest) -> bool:
    """Return whether the body, if any, is declared as JSON.

    A page cannot send JSON to another site without a preflight request.
    """
    said = request.content_type or ""
    if said == "application/json" or said.endswith("+json"):
        return True
    return request.META.get("CONTENT_LENGTH") in {None, "", "0"} and "HTTP_TRANSFER_ENCODING" not in request.META
