"""Results of the items of a long list, until all of them are there: variables of the token that waits."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import connections

from jobexec.operations.sql.dialect import dialect
from jobexec.operations.sql.locks import atomic, lock_rows

from ..engine.inputs import JobDone
from ..engine.tokens import Tokens
from ..models import Execution, Variable

#: What precedes the id of a job in the name of such a variable; no expression can name it.
_MARK = "#"


def keep_item(using: str, root: UUID, token: UUID, job: UUID, result: Any) -> bool:
    """Keep the result of a job unless it is already kept; False if its token is gone.

    The row of the token is locked for that moment, by any number of items together: a step that removes the token
    waits for them, and they for it.
    """
    with atomic(using):
        if not _held(using, token):
            return False
        name = f"{_MARK}{job.hex}"
        row = Variable(root_id=root, instance_id=root, scope_id=token, name=name, value=result)
        Variable.objects.using(using).bulk_create([row], ignore_conflicts=True)
    return True


def _held(using: str, token: UUID) -> bool:
    rows, shares = Execution.objects.using(using).filter(pk=token), dialect(using).shares
    if not shares:
        return bool(list(lock_rows(rows).values_list("pk")))
    connection = connections[using]
    with connection.cursor() as cursor:
        id = Execution._meta.pk.get_db_prep_value(token, connection)
        cursor.execute(f"SELECT 1 FROM {Execution._meta.db_table} WHERE id = %s {shares}", [id])
        return cursor.fetchone() is not None


def gathered(tokens: Tokens, token: UUID) -> JobDone | None:
    """The end of a batch of items: all results in the order of the items. Ids of jobs sort by time."""
    found = tokens.token(token)
    if found is None or found.job is None:
        return None
    kept = {name: value for name, value in tokens.variables.get(token, {}).items() if name.startswith(_MARK)}
    tokens.unset(found, kept)
    return JobDone(token, found.job, [kept[name] for name in sorted(kept)])
