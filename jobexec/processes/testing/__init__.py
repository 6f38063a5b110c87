"""Tools for testing a project's processes, beside those of :mod:`jobexec.testing` for its jobs.

Importing it touches neither models nor databases: the names are imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .kit import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        if name != "__all__" and (name.startswith("_") or name in ("kit", "plugin", "removal")):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import kit

        return getattr(kit, name)
