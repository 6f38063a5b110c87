"""The client of the flight service, which fails one time in three."""

import json
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from django.conf import settings

from jobexec import DoNotRetry


class FlightServiceError(Exception):
    """The flight service did not reserve a seat, or did not say so in time."""


def reserve(key: str, city: str) -> str:
    """Reserve a seat and return its reference; the same one for the same `key`, however often it is asked.

    Raises FlightServiceError when trying again later may help, and DoNotRetry when it cannot.
    """
    body = json.dumps({"key": key, "city": city}).encode()
    request = Request(f"{settings.FLIGHT_SERVICE}/flights", data=body, headers={"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=settings.FLIGHT_SERVICE_TIMEOUT) as answer:
            return str(json.load(answer)["reference"])
    except HTTPError as error:
        reason = _reason(error)
        if error.code == 404:
            raise DoNotRetry(f"The flight service answered 404: {reason}") from error
        raise FlightServiceError(f"The flight service answered {error.code}: {reason}") from error
    except TimeoutError as error:
        raise FlightServiceError(f"No answer within {settings.FLIGHT_SERVICE_TIMEOUT} s") from error
    except (OSError, HTTPException) as error:
        raise FlightServiceError(f"The connection to the flight service broke: {error}") from error


def _reason(error: HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return str(error.reason)
