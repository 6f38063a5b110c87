"""Success messages for changes to groups of failures, in the admin and in ``manage.py jobs``."""

from __future__ import annotations

from django.utils.translation import ngettext


def assigned(count: int, user: str) -> str:
    if not user:
        text = ngettext(
            "%(count)d group of failures is no longer assigned.",
            "%(count)d groups of failures are no longer assigned.",
            count,
        )
        return text % {"count": count}
    text = ngettext(
        "%(count)d group of failures assigned to %(user)s.",
        "%(count)d groups of failures assigned to %(user)s.",
        count,
    )
    return text % {"count": count, "user": user}


def acknowledged(count: int) -> str:
    text = ngettext(
        "%(count)d group of failures acknowledged: it is quiet until it is reopened.",
        "%(count)d groups of failures acknowledged: they are quiet until they are reopened.",
        count,
    )
    return text % {"count": count}


def snoozed(count: int) -> str:
    text = ngettext("%(count)d group of failures snoozed.", "%(count)d groups of failures snoozed.", count)
    return text % {"count": count}


def reopened(count: int) -> str:
    text = ngettext("%(count)d group of failures reopened.", "%(count)d groups of failures reopened.", count)
    return text % {"count": count}
