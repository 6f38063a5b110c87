"""A field for names and ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

if TYPE_CHECKING:  # Django's fields take type arguments only in the stubs
    _TextField = models.CharField[str, str]
else:
    _TextField = models.CharField


class NameField(_TextField):
    """A text that is compared exactly, on every database.

    By default MySQL and MariaDB compare texts without regard to case (and accents, depending on the server). Then
    ``Order-1`` and ``order-1`` would share an exclusive lock, and a suspension of one would affect the other.
    """

    def check(self, **kwargs: Any) -> list[Any]:
        """Omit the warning about unique columns of more than 255 characters, which is about old row formats.

        ``DYNAMIC``, the default since MySQL 5.7 and MariaDB 10.2, has room for 768 in an index.
        """
        return [each for each in super().check(**kwargs) if each.id != "mysql.W003"]

    def db_type(self, connection: Any) -> str:
        length = super().db_type(connection) or ""
        # Explicit, because the default character set of the database may differ from that of the collation.
        return f"{length} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin" if connection.vendor == "mysql" else length
