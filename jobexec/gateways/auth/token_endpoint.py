"""The endpoint that exchanges a client's secret for an access token (OAuth 2, RFC 6749, section 4.4)."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any
from urllib.parse import unquote_plus

from django.core.exceptions import BadRequest
from django.core.files.uploadhandler import FileUploadHandler, StopUpload
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_POST

from jobexec.conf import get_settings
from jobexec.exceptions import TooManyRequests, Unauthenticated
from jobexec.models import GatewayClient
from jobexec.operations.sql.place import place
from jobexec.runtime.connections import own_transactions

from . import credential_cache, tokens
from .client import ANYBODY, client_of_row, database
from .credentials import Basic, parse
from .rejected_log import FailedAttempts, address_of
from .verify import row_of
from .views import not_logged

#: Bytes of a request.
_MOST = 64 * 1024
_DESCRIPTIONS = {
    "invalid_client": "The client id or its secret is not valid.",
    "invalid_request": "Expected a form with grant_type, client_id and client_secret.",
    "temporarily_unavailable": "Too many wrong secrets were tried; try again in a moment.",
    "unsupported_grant_type": "The grant type must be client_credentials.",
}


@csrf_exempt
@never_cache
@require_POST
@own_transactions
@sensitive_post_parameters()
@sensitive_variables()
def token(request: HttpRequest) -> HttpResponse:
    """Issue an access token for the client id and secret in the form or in HTTP basic authentication."""
    try:
        form = _form(request)
    except (ValueError, RecursionError, BadRequest):
        return _error("invalid_request")
    if form.get("grant_type") != "client_credentials":
        return _error("unsupported_grant_type" if form.get("grant_type") else "invalid_request")
    try:
        row, its_digest = (None, None) if get_settings().gateway_auth == "none" else _row(request, form)
    except Unauthenticated:
        return _error("invalid_client", status=401)
    except TooManyRequests as error:
        response = _error("temporarily_unavailable", status=503)
        response["Retry-After"] = str(math.ceil(error.retry_after))
        return not_logged(response)
    text, seconds = tokens.issue(row, its_digest)
    allowed = (client_of_row(row) if row else ANYBODY).permissions
    # Return the requested scope: some clients treat any other as an error.
    scope = form.get("scope") or " ".join(sorted(allowed))
    answer = {"access_token": text, "token_type": "Bearer", "expires_in": seconds, "scope": scope}
    return JsonResponse(answer, headers={"Cache-Control": "no-store", "Pragma": "no-cache"})


class _NoFiles(FileUploadHandler):
    """Stops reading at the first file."""

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        raise StopUpload(connection_reset=True)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        """Never called."""

    def file_complete(self, file_size: int) -> None:
        """Never called."""


def _form(request: HttpRequest) -> dict[str, str]:
    """The form that was sent, or JSON, which some Camunda clients send. Raises ValueError.

    The caller is not known yet: a large body is not read, nor a file in a smaller one.
    """
    if int(request.META.get("CONTENT_LENGTH") or 0) > _MOST:
        raise ValueError(f"expected at most {_MOST} bytes")
    with suppress(AttributeError):  # a middleware of the project has read it
        request.upload_handlers = [_NoFiles(request)]
    if request.content_type != "application/json":
        return {name: str(value) for name, value in request.POST.items()}
    body = json.loads(request.body)
    if not isinstance(body, dict):
        raise ValueError("expected a JSON object")
    return {str(name): str(value) for name, value in body.items()}


def _row(request: HttpRequest, form: dict[str, str]) -> tuple[GatewayClient, str]:
    names, secret = _credentials(request, form)
    key = (
        *place(database()),
        "token",
        credential_cache.disguised(f"{names[0]}:{secret}"[: credential_cache.MAX_LENGTH]),
    )
    if credential_cache.is_refused(key):
        raise Unauthenticated
    # A client that got a token before is known, whatever other callers at its address do.
    known = credential_cache.was_known(key)
    guesses = FailedAttempts(None if known else address_of(request.META.get("REMOTE_ADDR") or ""))
    for name in names:
        try:
            found = row_of(Basic(name, secret), guesses)
        except Unauthenticated:
            continue
        credential_cache.remember(key, client_of_row(found[0]), found[0].expiration_time)
        return found
    credential_cache.refuse(key)
    raise Unauthenticated


def _credentials(request: HttpRequest, form: dict[str, str]) -> tuple[list[str], str]:
    """The possible client names, and the secret."""
    header = request.META.get("HTTP_AUTHORIZATION", "").strip()
    if not header:
        return [form.get("client_id", "")], form.get("client_secret", "")
    credentials = parse(header)
    if not isinstance(credentials, Basic):
        raise Unauthenticated
    # RFC 6749 requires the id to be form-encoded before it is joined with the secret; not every client does this.
    return list(dict.fromkeys([credentials.name, unquote_plus(credentials.name)])), credentials.secret


def _error(code: str, status: int = 400) -> HttpResponse:
    response = JsonResponse({"error": code, "error_description": _DESCRIPTIONS[code]}, status=status)
    if status == 401:
        response["WWW-Authenticate"] = 'Basic realm="jobexec"'
    return response
