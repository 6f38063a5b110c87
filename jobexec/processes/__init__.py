"""Processes: BPMN files and flows written in Python, run by one engine whose activities are jobs.

An app of its own: add ``"jobexec.processes"`` to INSTALLED_APPS, after ``"jobexec"``. Then the names below describe,
deploy, start and drive processes::

    from jobexec.processes import chain, flow, parallel

    chain(charge.s(order.pk), parallel(pack.s(order.pk), invoice.s(order.pk)), ship.s(order.pk)).start()

From bottom to top: ``definition`` describes a process and ``engine`` moves its tokens; ``expressions`` and ``xml`` read
what models contain. These four are pure Python: they know neither Django nor the rest of jobexec. ``models`` are the
tables, ``store`` is the SQL of a step, ``handlers`` has what a process calls and the jobs that carry it on,
``operations`` the verbs, and ``flows`` the Python API.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """Load a public name when it is used, for most of them need the models, and ``api`` names them all."""
        if name == "__all__" or not (name.startswith("_") or _is_module(name)):
            from . import api

            if name in ("__all__", *api.__all__):
                return getattr(api, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def _is_module(name: str) -> bool:
        """Whether a module has the name, which is then to be imported: an import asks for an attribute first."""
        path = Path(__file__).with_name(name)
        return path.is_dir() or path.with_suffix(".py").is_file()
