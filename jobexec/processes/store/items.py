"""Results of the items of a long list, until all of them are there: variables of the token that waits."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db import connections

from jobexec.operations.sql.delete import delete_rows
from jobexec.operations.sql.dialect import dialect
from jobexec.operations.sql.locks import atomic, lock_rows

from ..engine.inputs import JobDone
from ..engine.tokens import Tokens
from ..models import Execution, Variable

#: What precedes the id of a job in the name of such a variable; no expression can name it.
MARK = "#"


def keep_item(using: str, root: UUID, token: UUID, job: UUID, batch: UUID, result: Any) -> bool:
    """Keep the result of a job unless it is already kept; False if its token waits for the batch no longer.

    The row of the token is locked for that moment, by any number of items together: a step in which the token goes on,
    or is gone, waits for them, and they for it (:func:`discard_items`).
    """
    with atomic(using):
        if not is_awaited(using, token, batch):
            return False
        name = f"{MARK}{job.hex}"
        row = Variable(root_id=root, instance_id=root, scope_id=token, name=name, value=result)
        Variable.objects.using(using).bulk_create([row], ignore_conflicts=True)
    return True


def is_awaited(using: str, token: UUID, batch: UUID) -> bool:
    """Whether the token waits for the batch, as it then does until the end of the transaction."""
    rows, shares = Execution.objects.using(using).filter(pk=token, job_id=batch), dialect(using).shares
    if not shares:
        return bool(list(lock_rows(rows).values_list("pk")))
    connection = connections[using]
    with connection.cursor() as cursor:
        ids = [Execution._meta.pk.get_db_prep_value(id, connection) for id in (token, batch)]
        cursor.execute(f"SELECT 1 FROM {Execution._meta.db_table} WHERE id = %s AND job_id = %s {shares}", ids)
        return cursor.fetchone() is not None


def discard_items(using: str, tokens: Collection[UUID]) -> None:
    """Delete the results that are kept for tokens which wait for their batch no longer.

    The rows of the tokens are locked first, in statements of their own: a result that is just being kept is committed
    before the deletion looks, which would not see it otherwise.
    """
    for token in sorted(tokens):
        list(lock_rows(Execution.objects.using(using).filter(pk=token)).values_list("pk"))
    delete_rows(Variable.objects.using(using).filter(scope_id__in=tokens, name__startswith=MARK))


def gathered(tokens: Tokens, token: UUID, batch: UUID) -> JobDone | None:
    """The end of a batch of items: all results in the order of the items. Ids of jobs sort by time.

    None if the token waits for it no longer.
    """
    found = tokens.token(token)
    if found is None or found.job != batch:
        return None
    variables = tokens.variables.get(token, {})
    kept = {name: variables.pop(name) for name in sorted(variables) if name.startswith(MARK)}
    return JobDone(token, batch, list(kept.values()))
