"""The setting JOBEXEC: one dict, read at first use, validated as a whole, frozen.

Nothing here is read at import. ``docs/reference/settings.md`` lists the keys.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from django.conf import settings as django_settings
from django.core.signals import setting_changed
from django.dispatch import receiver

from jobexec.conf.schema import EngineSettings, Settings
from jobexec.conf.validation import Problem, build, checked
from jobexec.conf.values import MAX_NAME_LENGTH

__all__ = ["MAX_NAME_LENGTH", "EngineSettings", "Problem", "Settings", "get_settings", "problems", "reset"]


@cache
def get_settings() -> Settings:
    """The settings of this process. Raises InvalidSettings, which lists every problem, not only the first."""
    return checked(*build(raw_settings()))


def problems(raw: Any) -> list[Problem]:
    """All problems of a raw JOBEXEC dict, for the system checks; empty if it is valid."""
    return build(raw)[1]


def raw_settings() -> Any:
    """JOBEXEC in Django's settings, or an empty dict."""
    return getattr(django_settings, "JOBEXEC", {})


def reset() -> None:
    """Forget the settings, so that the next get_settings() reads Django's again."""
    get_settings.cache_clear()


@receiver(setting_changed, dispatch_uid="jobexec.conf")
def _on_setting_changed(*, setting: str, **kwargs: Any) -> None:
    if setting in ("JOBEXEC", "DATABASES"):
        reset()
