"""The result of inserting jobs page by page: ids, and rows that are looked up on access."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from typing import overload
from uuid import UUID

from jobexec.models import Job

from ..targets.lookup import find_states
from ..values.inserted_rows import AnyJob, CreatedJobs, instance

_PAGE = 500
_SIZE = 16  # bytes of an id


class PackedIds(Sequence[UUID]):
    """A list of ids that takes 16 bytes of memory for each."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def extend(self, ids: Iterable[UUID]) -> None:
        """Append these ids."""
        self._bytes += b"".join(id.bytes for id in ids)

    def __len__(self) -> int:
        return len(self._bytes) // _SIZE

    @overload
    def __getitem__(self, index: int) -> UUID: ...
    @overload
    def __getitem__(self, index: slice) -> list[UUID]: ...
    def __getitem__(self, index: int | slice) -> UUID | list[UUID]:
        numbers = range(len(self))[index]
        return self._id(numbers) if isinstance(numbers, int) else [self._id(number) for number in numbers]

    def _id(self, number: int) -> UUID:
        return UUID(bytes=bytes(self._bytes[number * _SIZE : (number + 1) * _SIZE]))


class CreatedPages(Sequence[AnyJob]):
    """The jobs of one call, in the given order. Reads like a list, but keeps only 16 bytes for each job, its id.

    A row is looked up at each access, in whichever table it then is; iterating looks up pages. A job that is over, and
    with ``on_conflict="ignore"`` one that already existed, is an unsaved instance that has only its id.
    ``is_duplicate`` is set on jobs that already existed.
    """

    def __init__(self, using: str, handler_type: str, *, known: bool = True) -> None:
        """``known``: also look up jobs that already existed."""
        self._using, self._handler_type, self._known = using, handler_type, known
        self._duplicates: set[int] = set()
        #: The ids of the jobs, available without queries.
        self.ids = PackedIds()

    def add(self, ids: Sequence[UUID], duplicates: Collection[int] = ()) -> None:
        """Append these ids; ``duplicates`` are the indexes among them of jobs that already existed."""
        before = len(self.ids)
        self._duplicates.update(before + number for number in duplicates)
        self.ids.extend(ids)

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> AnyJob: ...
    @overload
    def __getitem__(self, index: slice) -> list[AnyJob]: ...
    def __getitem__(self, index: int | slice) -> AnyJob | list[AnyJob]:
        numbers = range(len(self.ids))[index]
        return self._rows([numbers])[0] if isinstance(numbers, int) else list(self._paged(numbers))

    def __iter__(self) -> Iterator[AnyJob]:
        return self._paged(range(len(self.ids)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | CreatedJobs | CreatedPages):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} created jobs>"

    def _paged(self, numbers: Sequence[int]) -> Iterator[AnyJob]:
        for start in range(0, len(numbers), _PAGE):
            yield from self._rows(numbers[start : start + _PAGE])

    def _rows(self, numbers: Sequence[int]) -> list[AnyJob]:
        ids = {number: self.ids[number] for number in numbers}
        found = self._found({id for number, id in ids.items() if self._known or number not in self._duplicates})
        return [self._row(number, id, found.get(id)) for number, id in ids.items()]

    def _found(self, ids: set[UUID]) -> dict[UUID, AnyJob]:
        found: dict[UUID, AnyJob] = {}
        # Rows that move between the two statements are found by the next iteration.
        for _ in range(_PAGE):
            left = ids - found.keys()
            states = find_states(left, self._using) if left else {}
            if not states:
                break
            for table in set(states.values()):
                pks = [id for id, where in states.items() if where is table]
                found |= {row.pk: row for row in table._base_manager.using(self._using).filter(pk__in=pks)}  # type: ignore[misc]
        return found

    def _row(self, number: int, id: UUID, row: AnyJob | None) -> AnyJob:
        if row is None:
            row = instance(self._using, Job, {"id": id, "handler_type": self._handler_type})
            row._state.adding = True
        if number in self._duplicates:
            row = copy(row)  # the call that inserted the job may be in this result too
            row.is_duplicate = True
        return row
