"""``enqueue_many``: a list at once, any other iterable page by page in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.views.decorators.debug import sensitive_variables

from jobexec.encryption import seal_text
from jobexec.exceptions import InvalidJob
from jobexec.identifiers import uuid7s

from . import unique
from .calls import Call, split

if TYPE_CHECKING:
    from datetime import datetime

    from jobexec.operations.enqueue.create import Pattern
    from jobexec.operations.values.inserted_rows import AnyJob, Own

    from .function import JobFunction

#: The most calls in memory at once; fewer if they exceed LENGTH characters of JSON together.
PAGE, LENGTH = 2_000, 4_000_000
_AT_ONCE = 100  # between two checks of their length


class Page(NamedTuple):
    """Calls as stored in rows; their keys if the job has the option ``unique``, and what other options make of them.

    Those of encrypted jobs have their ``ids`` already, to which they are bound.
    """

    encoded: list[str]
    keys: list[str]
    own: list[Own]
    ids: list[UUID]

    def extend(self, other: Page) -> None:
        """Append the calls of another page."""
        for mine, more in zip(self, other, strict=True):
            mine.extend(more)  # type: ignore[attr-defined]


@sensitive_variables("calls", "first", "second", "pages", "page")
def enqueue_many(handler: JobFunction[..., Any], calls: Iterable[Call]) -> Sequence[AnyJob]:
    """Insert a job for each call. See :meth:`~jobexec.handlers.function.JobFunction.enqueue_many`."""
    pattern, due_date = handler._pattern(), handler._due_date()
    pattern.authorize()
    pages = _pages(handler, calls)
    first, second = next(pages, Page([], [], [], [])), next(pages, None)
    if second is None and not (handler.options.get("unique") or first.own):
        return pattern.create_many(first.encoded, ids=first.ids or None, due_date=due_date)
    from jobexec.operations.enqueue.pages import CreatedPages
    from jobexec.operations.notify.observers import told_afterwards

    created = CreatedPages(pattern.using, handler.name, known=handler.options.get("on_conflict") != "ignore")
    pages = chain([first] if second is None else [first, second], pages)
    del first, second  # do not keep them alive to the end
    # With a savepoint in the caller's transaction, which may go on after an error in call 1,500,000.
    with told_afterwards(), transaction.atomic(using=pattern.using):
        for page in pages:
            created.add(*insert_page(handler, pattern, page, due_date))
    return created


def insert_page(
    handler: JobFunction[..., Any], pattern: Pattern, page: Page, due_date: datetime | None
) -> tuple[Sequence[UUID], frozenset[int]]:
    """Insert a page, in a transaction; return the id of each job, and the indexes of those that already existed."""
    if handler.options.get("unique"):
        from jobexec.operations.enqueue.create_unique import create_unique_jobs

        rule = unique.rule_of(handler, pattern)
        return create_unique_jobs(
            pattern, rule, page.keys, page.encoded, due_date=due_date, calls=page.own, ids=page.ids
        )
    if page.own:
        ids = page.ids or uuid7s(len(page.encoded))
        pattern.create_each(page.encoded, ids, page.own, due_date=due_date)
        return ids, frozenset()
    return pattern.create_many(page.encoded, ids=page.ids or None, due_date=due_date).ids, frozenset()


def _pages(handler: JobFunction[..., Any], calls: Iterable[Call]) -> Iterator[Page]:
    """The calls, checked and encoded: those of a list all at once."""
    if isinstance(calls, list | tuple):
        yield _page(handler, calls, 0)
        return
    page, done, left = Page([], [], [], []), 0, iter(calls)
    while (more := _page(handler, islice(left, _AT_ONCE), done)).encoded:
        page.extend(more)
        done += len(more.encoded)
        if len(page.encoded) >= PAGE or sum(map(len, page.encoded)) > LENGTH:
            yield page
            page = Page([], [], [], [])
    if page.encoded:
        yield page


def _page(handler: JobFunction[..., Any], calls: Iterable[Call], before: int) -> Page:
    encoded: list[str] = []
    keys: list[str] = []
    own: list[Own] = []
    ids: list[UUID] = []
    encode, is_unique, is_encrypted = handler._encode, bool(handler.options.get("unique")), handler.encrypted
    makes_options = handler.makes_options
    try:
        for call in calls:
            args, kwargs = split(call)
            encoded.append(encode(args, kwargs))
            if is_unique:
                keys.append(unique.key_for(handler, args, kwargs))
            if makes_options:
                own.append(handler.made_of(args, kwargs))
    except InvalidJob as error:
        done = own if makes_options else keys if is_unique else encoded  # in the order above
        number = before + 1 + len(done)
        raise InvalidJob(f"Call {number} of enqueue_many: {error}") from error
    if is_encrypted:
        ids = uuid7s(len(encoded))
        encoded = [seal_text(text, handler.name, id) for text, id in zip(encoded, ids, strict=True)]
    return Page(encoded, keys, own, ids)
