"""How another app links the pages of jobs to its pages of process instances."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.utils.safestring import SafeString

#: Takes the request, its site, a ``process_instance_id`` and the alias of the job's database. Returns a link, or None
#: if the app has no such instance, or the user may not see it.
InstancePage: TypeAlias = Callable[[HttpRequest, AdminSite, str, str], SafeString | None]

#: The pages that apps have added.
INSTANCE_PAGES: list[InstancePage] = []
