"""Execute jobs of one resource: each waits for a permit, which the end of another frees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from .. import ours
from ..case import Case, Contenders
from ..measure import Sample
from ..noop import fill, registered
from ..raw import drain
from ..sandbox import tidy

_NAME = "jobbench"


class ResourceCase(Case):
    """The jobs of ``drain``, blocked by a resource of which 1,000 may run at once; also the same jobs without it."""

    name: ClassVar[str] = "resource"
    summary: ClassVar[str] = "execute jobs of a resource with a limit of 1,000, against the loop of drain"
    default_jobs: ClassVar[int] = 20_000
    own_settings: ClassVar[Mapping[str, Any]] = {"resources": {_NAME: {"limit": 1000}}}
    ratios = (("ours", "ours, no resource"),)

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "raw": self.raw, "ours, no resource": self.ours_without}

    def ours(self) -> Sample:
        return self._execute(_NAME)

    def ours_without(self) -> Sample:
        return self._execute(None)

    def _execute(self, resource: str | None) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with registered(alias, ledger.note, resource=resource) as handler:
            fill(handler, self.plan.jobs)
            return ours.execute_all(self.plan.settings, alias, ledger)

    def raw(self) -> Sample:
        alias, ledger = self.plan.alias, self.ledger()
        with registered(alias, ledger.note) as handler:
            fill(handler, self.plan.jobs)
        tidy(alias)
        sample = drain.drain(alias, ledger, self.plan.raw_page)
        ours.check_nothing_left(alias)
        return sample
