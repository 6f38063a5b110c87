"""What may become a variable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from jobexec.exceptions import DoNotRetry, InvalidJob
from jobexec.json_values import check_json

#: Bytes of one variable as JSON.
MAX_VALUE = 64 * 1024


def checked(value: Any) -> Any:
    """A result that can be stored. Raises DoNotRetry if it cannot: another run would only repeat its effects."""
    try:
        check_variables({"result": value})
    except InvalidJob as error:
        raise DoNotRetry(f"It has run, but its result cannot be kept: {error}") from None
    return value


def check_variables(variables: Mapping[str, Any]) -> None:
    """Raise InvalidJob, naming the variable, if a value is not JSON or too large."""
    for name, value in variables.items():
        check_json(name, value)
        size = len(json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False).encode())
        if size > MAX_VALUE:
            raise InvalidJob(f"{name}: expected at most {MAX_VALUE:,} bytes of JSON, got {size:,}.")
