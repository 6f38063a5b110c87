"""The variables of an external job, as a worker sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .external_types import Fetch


def wanted_variables(configuration: Mapping[str, Any], fetch: Fetch) -> dict[str, Any]:
    """The variables that the worker asked for; those of the job alone win over those of its process."""
    local = configuration.get("local") or {}
    variables = dict(local) if fetch.local_variables_only else {**(configuration.get("variables") or {}), **local}
    if fetch.variables is None:
        return variables
    return {name: variables[name] for name in fetch.variables if name in variables}
