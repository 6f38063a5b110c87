"""Success messages for changes to resources."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import ngettext

from jobexec.models import BreakerState

from ..values.humanize import absolute


def limited(count: int) -> str:
    """The message after setting the limits of ``count`` resources."""
    text = ngettext("%(count)d resource has new limits.", "%(count)d resources have new limits.", count)
    return text % {"count": count}


def held(count: int, state: str, until: datetime | None) -> str:
    """This number of resources is held, open or closed."""
    if until is None and state == BreakerState.OPEN:
        text = ngettext("%(count)d resource is held open.", "%(count)d resources are held open.", count)
    elif until is None:
        text = ngettext("%(count)d resource is held closed.", "%(count)d resources are held closed.", count)
    elif state == BreakerState.OPEN:
        text = ngettext(
            "%(count)d resource is held open until %(until)s.",
            "%(count)d resources are held open until %(until)s.",
            count,
        )
    else:
        text = ngettext(
            "%(count)d resource is held closed until %(until)s.",
            "%(count)d resources are held closed until %(until)s.",
            count,
        )
    return text % {"count": count, "until": "" if until is None else absolute(until)}


def released(count: int) -> str:
    """This number of resources is no longer held."""
    return ngettext("%(count)d resource released.", "%(count)d resources released.", count) % {"count": count}
