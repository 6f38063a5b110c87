"""Requests that somebody else's page lets a browser send, with credentials that the browser remembers."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest

from jobexec.exceptions import NotAllowed

_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def refuse_other_sites(request: HttpRequest) -> None:
    """Raises NotAllowed for a request that changes something and that a page of another site has sent.

    A browser adds remembered Basic credentials, a client certificate and what a network lets in to whatever a page asks
    it to send; a bearer token comes from the page itself, which then knows it. Workers are no browsers and say nothing
    of sites. ``CSRF_TRUSTED_ORIGINS`` are let in, as by Django.
    """
    if request.method in _SAFE or request.META.get("HTTP_AUTHORIZATION", "").lower().startswith("bearer "):
        return
    origin = request.META.get("HTTP_ORIGIN", "")
    if origin and (_is_own(request, origin) or _is_trusted(origin)):
        return
    if origin or request.META.get("HTTP_SEC_FETCH_SITE") in {"cross-site", "same-site"}:
        raise NotAllowed("A browser has sent this request from a page of another site (setting CSRF_TRUSTED_ORIGINS).")


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
    """Whether a body, if there is one, calls itself JSON: a page cannot send that to another site unasked."""
    said = request.content_type or ""
    if said == "application/json" or said.endswith("+json"):
        return True
    return request.META.get("CONTENT_LENGTH") in {None, "", "0"} and "HTTP_TRANSFER_ENCODING" not in request.META
