"""``enqueue_many``: a list at once, any other iterable page by page in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import transaction

from jobexec.exceptions import InvalidJob
from jobexec.identifiers import uuid7s

from . import unique
from .calls import Call, split

if TYPE_CHECKING:
    from jobexec.operations.values.inserted_rows import AnyJob, Own

    from .function import JobFunction

#: The most calls in memory at once; fewer if they exceed LENGTH characters of JSON together.
PAGE, LENGTH = 2_000, 4_000_000
_AT_ONCE = 100  # between two checks of their length


class Page(NamedTuple):
    """Calls as stored in rows; their keys if the job has the option ``unique``, and what other options make of them."""

    encoded: list[str]
    keys: list[str]
    own: list[Own]


def enqueue_many(handler: JobFunction[..., Any], calls: Iterable[Call]) -> Sequence[AnyJob]:
    """Insert a job for each call. See :meth:`~jobexec.handlers.function.JobFunction.enqueue_many`."""
    pattern, due_date = handler._pattern(), handler._due_date()
    pages = _pages(handler, calls)
    first, second = next(pages, Page([], [], [])), next(pages, None)
    if second is None and not (handler.options.get("unique") or first.own):
        return pattern.create_many(first.encoded, due_date=due_date)
    from jobexec.operations.enqueue.pages import CreatedPages
    from jobexec.operations.notify.observers import told_afterwards

    created = CreatedPages(pattern.using, handler.name, known=handler.options.get("on_conflict") != "ignore")
    pages = chain([first] if second is None else [first, second], pages)
    del first, second  # do not keep them alive to the end
    # With a savepoint in the caller's transaction, which may go on after an error in call 1,500,000.
    with told_afterwards(), transaction.atomic(using=pattern.using):
        for page in pages:
            if handler.options.get("unique"):
                _insert_unique(handler, page, created, due_date)
            elif page.own:
                ids = uuid7s(len(page.encoded))
                pattern.create_each(page.encoded, ids, page.own, due_date=due_date)
                created.add(ids)
            else:
                created.add(pattern.create_many(page.encoded, due_date=due_date).ids)
    return created


def _insert_unique(handler: JobFunction[..., Any], page: Page, created: Any, due_date: Any) -> None:
    from jobexec.operations.enqueue.create_unique import create_unique_jobs

    rule = unique.rule_of(handler)
    more = {"due_date": due_date, "calls": page.own}
    created.add(*create_unique_jobs(handler._pattern(), rule, page.keys, page.encoded, **more))


def _pages(handler: JobFunction[..., Any], calls: Iterable[Call]) -> Iterator[Page]:
    """The calls, checked and encoded: those of a list all at once."""
    if isinstance(calls, list | tuple):
        yield _page(handler, calls, 0)
        return
    page, done, left = Page([], [], []), 0, iter(calls)
    while (more := _page(handler, islice(left, _AT_ONCE), done)).encoded:
        page.encoded.extend(more.encoded)
        page.keys.extend(more.keys)
        page.own.extend(more.own)
        done += len(more.encoded)
        if len(page.encoded) >= PAGE or sum(map(len, page.encoded)) > LENGTH:
            yield page
            page = Page([], [], [])
    if page.encoded:
        yield page


def _page(handler: JobFunction[..., Any], calls: Iterable[Call], before: int) -> Page:
    encoded: list[str] = []
    keys: list[str] = []
    own: list[Own] = []
    encode, is_unique = handler._encode, bool(handler.options.get("unique"))
    try:
        for call in calls:
            args, kwargs = split(call)
            encoded.append(encode(args, kwargs))
            if is_unique:
                keys.append(unique.key_for(handler, args, kwargs))
            if handler.makes_options:
                own.append(handler.made_of(args, kwargs))
                handler._pattern().of_resource(own[-1].resource)  # it must be covered
    except InvalidJob as error:
        done = own if handler.makes_options else keys if is_unique else encoded  # in the order above
        number = before + 1 + len(done)
        raise InvalidJob(f"Call {number} of enqueue_many: {error}") from error
    return Page(encoded, keys, own)
