"""Strict exclusivity: one lock row per process instance, held from acquisition to the last sibling's outcome."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID, uuid4

from django.db import connections
from django.db.models import F, Q, QuerySet

from jobexec import clock
from jobexec.models import ExclusiveLock, ExternalWorkerJob, Job

from ..notify.broker import announce_instances
from ..notify.wake import wake_on_commit
from ..notify.wake_workers import wake_workers_on_commit
from ..sql.delete import delete_rows
from ..sql.dialect import dialect, prepared_cursor
from ..sql.exists import exist
from ..sql.insert import insert_missing
from ..sql.locks import lock_rows, returns_rows
from ..sql.portable import Dialect
from ..sql.serial_key import locked_instance, of_instances

_TYPES = 100  # of external jobs in one process instance
_ROWS = 200  # per statement: older SQLite versions have a limit of 999 parameters


def without_locked_instances(queryset: QuerySet[Job]) -> QuerySet[Job]:
    """Exclude exclusive jobs of process instances that any owner has locked.

    This filter only keeps such jobs from blocking others. Exclusivity is made strict by the primary key of the lock row
    (NOT EXISTS with SKIP LOCKED alone lets two nodes win).
    """
    return queryset.filter(Q(exclusive=False) | Q(process_instance_id="") | ~locked_instance(queryset.db))


def lock_instances(using: str, owner: str, instances: Collection[str]) -> set[str]:
    """Insert the lock rows of these process instances; return those that this call has locked.

    Rows are inserted in sorted order, so that two nodes with the same instances wait for each other without a deadlock.
    An existing row is a conflict, even one of our own from an earlier page.
    """
    if not instances:
        return set()
    acquisition = uuid4()
    if returns_rows(using):
        return _lock_in_one_statement(using, owner, sorted(instances), acquisition)
    shared = {"lock_owner": owner, "acquisition": acquisition, "lock_time": clock.now(using)}
    rows = [{"process_instance_id": instance, **shared} for instance in sorted(instances)]
    for start in range(0, len(rows), _ROWS):
        insert_missing(using, ExclusiveLock, rows[start : start + _ROWS])
    held = ExclusiveLock.objects.using(using).filter(process_instance_id__in=instances, acquisition=acquisition)
    return set(held.values_list("process_instance_id", flat=True)) & set(instances)


def _lock_in_one_statement(using: str, owner: str, instances: Collection[str], acquisition: UUID) -> set[str]:
    connection, spelled = connections[using], dialect(using)
    now = connection.ops.adapt_datetimefield_value(clock.now(using))
    values = [owner, _ACQUISITION.get_db_prep_value(acquisition, connection), now]
    statement = f"""
        INSERT INTO {ExclusiveLock._meta.db_table} (process_instance_id, lock_owner, acquisition, lock_time)
        SELECT value, %s, %s, %s FROM {spelled.texts("%s")} WHERE TRUE
        ON CONFLICT DO NOTHING RETURNING process_instance_id"""
    with prepared_cursor(using) as cursor:
        cursor.execute(statement, [*values, spelled.text_list(instances)])
        return {instance for (instance,) in cursor.fetchall()}


_ACQUISITION = ExclusiveLock._meta.get_field("acquisition")


def lock_siblings(using: str, instance: str) -> None:
    """Lock the unlocked exclusive jobs of a process instance, in the order of their ids.

    Waits for a transaction that is just acquiring one of them; it has then locked the instance or not touched it.
    """
    rows = of_instances(Job.objects.using(using).filter(lock_owner=None), [instance])
    list(lock_rows(rows.order_by("pk")).values_list("pk"))


def lock_held_siblings(using: str, owner: str, instances: Collection[str]) -> None:
    """Lock the jobs of these process instances that ``owner`` holds, in the order of their ids.

    Called before some of them are released. Another thread of the owner may just be settling one of them: each of the
    two would find the other's job still locked, and the process instance would stay locked without a job. So one waits
    for the other.
    """
    if not instances:
        return
    held = Job.objects.using(using).filter(lock_owner=owner)
    # By their ids: looking for them with locks, InnoDB would wait for a handler that has just enqueued another sibling.
    ids = list(of_instances(held, instances).order_by().values_list("pk", flat=True))
    list(lock_rows(held.filter(pk__in=ids).order_by("pk")).values_list("pk"))


def give_up_instances(using: str, owner: str, instances: Collection[str]) -> None:
    """Delete the lock rows of these process instances, of which the caller knows that no job needs them."""
    if instances:
        delete_rows(ExclusiveLock.objects.using(using).filter(process_instance_id__in=instances, lock_owner=owner))


def unlock_instances(using: str, owner: str, instances: Collection[str]) -> None:
    """Unlock those of these process instances in which ``owner`` has no locked exclusive job left.

    Called at the end of the transaction that settles or releases jobs, after the job rows: every transaction locks job
    rows before lock rows. One owner settles the jobs of one process instance one after the other (its batch runs in one
    thread); a transaction that releases some, in any thread, has called :func:`lock_held_siblings` first. So the check
    for siblings cannot miss one.
    """
    if not instances:
        return
    if not returns_rows(using):
        wake_for_siblings(using, _free(using, owner, instances))
    elif freed := _free_in_one_statement(using, owner, instances):
        names, with_jobs, with_external = zip(*freed, strict=True)
        _wake(using, names, any(with_jobs), any(with_external))


def _free(using: str, owner: str, instances: Collection[str]) -> Collection[str]:
    siblings = of_instances(Job.objects.using(using).filter(lock_owner=owner), instances)
    held = ExclusiveLock.objects.using(using).filter(process_instance_id__in=instances, lock_owner=owner)
    still = set(siblings.order_by().values_list(F("key"), flat=True).distinct())
    freed = sorted(set(held.values_list("process_instance_id", flat=True)) - still)
    give_up_instances(using, owner, freed)
    return freed


def _free_in_one_statement(using: str, owner: str, instances: Collection[str]) -> list[tuple[str, bool, bool]]:
    """Return the freed process instances, each with whether it has further exclusive jobs, and external ones."""
    spelled, lock = dialect(using), ExclusiveLock._meta.db_table
    job, external = Job._meta.db_table, ExternalWorkerJob._meta.db_table
    jobs, external_jobs = _siblings(spelled, job), _siblings(spelled, external)
    # With IS TRUE no index serves the condition on the owner, who may hold thousands: names find the rows. And with an
    # OFFSET the siblings are looked up for each of them: PostgreSQL would rather join all exclusive jobs.
    statement = f"""
        DELETE FROM {lock} WHERE {spelled.text_among("process_instance_id", "%s")} AND (lock_owner = %s) IS TRUE
        AND NOT EXISTS ({jobs} AND {job}.lock_owner = {lock}.lock_owner LIMIT 1 OFFSET 0)
        RETURNING process_instance_id, EXISTS ({jobs}), EXISTS ({external_jobs})"""
    with prepared_cursor(using) as cursor:
        cursor.execute(statement, [spelled.text_list(instances), owner])
        return list(cursor.fetchall())


def _siblings(spelled: Dialect, table: str) -> str:
    """Return the query for the exclusive jobs in a table that belong to the process instance of a lock."""
    # The index finds jobs by the process instance id, which is the part of the key after the tenant.
    key = f"{ExclusiveLock._meta.db_table}.process_instance_id"  # without an alias: SQLite forgets it in RETURNING
    instance = f"substr({key}, {spelled.text_position}({key}, {spelled.separator}) + 1)"
    return f"""SELECT 1 FROM {table} WHERE process_instance_id IN ({key}, {instance}) AND process_instance_id <> ''
          AND {spelled.serial_key(table)} = {key} AND exclusive"""


def wake_for_siblings(using: str, freed: Collection[str]) -> None:
    """Wake up executors and external workers that are idle because they found only locked instances.

    A locked sibling counts too: an acquisition may lock it for the moment in which it finds that the page is not plain,
    unlock it, look again before this commit, and find the instance locked.
    """
    if not freed:
        return
    external = of_instances(ExternalWorkerJob.objects.using(using), freed)
    _wake(using, freed, *exist(using, of_instances(Job.objects.using(using), freed), external))


def _wake(using: str, freed: Collection[str], for_executors: bool, for_workers: bool) -> None:
    if for_executors:
        wake_on_commit(using)
        announce_instances(using, freed)
    if for_workers:
        external = of_instances(ExternalWorkerJob.objects.using(using), freed)
        types = external.order_by().values_list("handler_type", flat=True).distinct()[:_TYPES]
        wake_workers_on_commit(using, types)


def unlock_all(using: str, owner: str) -> int:
    """Unlock all process instances of an owner that is dead or has stopped."""
    return delete_rows(ExclusiveLock.objects.using(using).filter(lock_owner=owner))
