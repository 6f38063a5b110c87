"""Search that uses the indexes of the job tables, and reads no more than a fixed number of rows beside them."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto
from typing import Any, ClassVar

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from jobexec.handlers.registry import known_names
from jobexec.identifiers import as_id
from jobexec.models import EXTERNAL_TABLES, JOB_TABLES, DeadLetterJob, FailureGroup, Incident, JobDefinition, JobLog
from jobexec.operations.query.values import as_key
from jobexec.operations.sql import argument_index
from jobexec.redaction import arguments_of, has_argument, with_short_arguments

from .base import TableAdmin

HELP = _(
    "The id, key, process instance or correlation id of a job, the beginning of its handler's full or short name "
    "(charge_card), a part of the exception of a dead letter, or an argument (17, order_id=17) if these are indexed."
)

LOG_HELP = _(
    "The id, key or process instance of a job, the beginning of its handler's full or short name (charge_card), or a "
    "part of the exception."
)

#: Among how many of the latest rows texts and correlation ids, which have no index, are looked for.
LATEST = 10_000
#: How many rows with an argument are looked at.
MOST_WITH_ARGUMENT = 1000
_MOST_NAMES = 200

_KEYS: dict[type[Model], str] = {**dict.fromkeys(EXTERNAL_TABLES, "job_key"), Incident: "incident_key"}
#: The exception, and the indexed column by which the latest rows are found.
_TEXTS: dict[type[Model], tuple[str, str]] = {
    DeadLetterJob: ("exception_message", "died_at"),
    JobLog: ("exception_message", "pk"),
    Incident: ("message", "pk"),
}


class By(Enum):
    """What the rows of a search have been found by, or would have been."""

    NOTHING = auto()
    ID = auto()
    INSTANCE = auto()
    HANDLER = auto()
    TEXT = auto()


def search(queryset: QuerySet[Any], term: str, id_column: str = "pk") -> QuerySet[Any]:
    """The rows of :func:`find`."""
    return find(queryset, term, id_column)[0]


def find(queryset: QuerySet[Any], term: str, id_column: str = "pk") -> tuple[QuerySet[Any], By]:
    """Rows with this id, key or process instance; if there are none, rows of handlers with such a name; and so on.

    Ids, keys and process instances are looked up exactly, in their indexes. Handler names have no index in the job
    tables, so they are compared only if nothing else matches: the short names of handlers that are known here or have
    a definition, and the beginning of the full name. Correlation ids and exceptions are compared last.
    """
    term = term.strip()
    if not term:
        return queryset, By.NOTHING
    if "\0" in term:  # PostgreSQL has no NUL in a text
        return queryset.none(), By.NOTHING
    id = as_id(term)
    exact = Q(process_instance_id=term) | _by_key(queryset, term)
    found = queryset.filter(exact if id is None else exact | Q(**{id_column: id}))
    first = list(found.order_by().values_list("process_instance_id", flat=True)[:1])
    if first:
        return found, By.INSTANCE if first == [term] else By.ID
    names = handlers_named(term, queryset.db)
    of_handlers = by_handler(term, names)
    if names:
        return queryset.filter(of_handlers), By.HANDLER
    others = _by_correlation(queryset, term) | _by_exception(queryset, term) | _by_argument(queryset, term)
    return queryset.filter(of_handlers | others), By.TEXT


class IndexedSearch(TableAdmin):
    """A list that is searched by :func:`find`, and says what it has not searched."""

    id_column: ClassVar[str] = "pk"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        found, by = find(queryset, search_term, self.id_column)
        request.jobexec_found = (search_term.strip(), by)  # type: ignore[attr-defined]
        return found, False

    def note_of_search(self, request: HttpRequest, queryset: QuerySet[Any]) -> str:
        term, by = getattr(request, "jobexec_found", ("", By.NOTHING))
        return note(self.model, queryset.db, term, by)


def by_handler(term: str, names: Collection[str]) -> Q:
    """The condition on rows of handlers whose full name begins with the term, and of those with these names."""
    return Q(handler_type__startswith=term) | Q(handler_type__in=names)


class HandlerSearch(TableAdmin):
    """A list that also finds rows by the short names of their handlers."""

    handler_condition = staticmethod(by_handler)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        found, several = super().get_search_results(request, queryset, search_term)
        term = search_term.strip()
        of_handlers = self.handler_condition(term, handlers_named(term, queryset.db)) if term else None
        return (found if of_handlers is None else found | queryset.filter(of_handlers)), several


def handlers_named(term: str, using: str) -> list[str]:
    """The handlers whose name, without its module, begins with the term: those known here, and those with definitions.

    Whoever searches has a short name in mind, and ``LIKE '%…'`` over a job table would read all of it.
    """
    defined = JobDefinition.objects.using(using).filter(handler_type__contains=term).order_by("handler_type")
    names = known_names() | set(defined.values_list("handler_type", flat=True)[:_MOST_NAMES])
    return sorted(name for name in names if name.rpartition(".")[2].startswith(term))[:_MOST_NAMES]


def _by_key(queryset: QuerySet[Any], term: str) -> Q:
    """A condition on the numeric key by which external workers know the row."""
    column, key = _KEYS.get(queryset.model), as_key(term)
    return Q(pk__in=[]) if column is None or key is None else Q(**{column: key})


def _by_correlation(queryset: QuerySet[Any], term: str) -> Q:
    return _latest(queryset, "pk") & Q(correlation_id=term) if _has_correlation(queryset.model) else Q(pk__in=[])


def _has_correlation(model: type[Model]) -> bool:
    return "correlation_id" in {field.name for field in model._meta.concrete_fields}


def _by_exception(queryset: QuerySet[Any], term: str) -> Q:
    """The term in the message of a latest row, or for dead letters in the name of the exception of a whole group."""
    if queryset.model not in _TEXTS:
        return Q(pk__in=[])
    column, order = _TEXTS[queryset.model]
    found = _latest(queryset, order) & Q(**{f"{column}__icontains": term})
    if queryset.model is not DeadLetterJob:
        return found
    # All failures of a group have the same exception, and dead letters have an index by group.
    groups = FailureGroup.objects.using(queryset.db).filter(exception__icontains=term).order_by("-last_time")
    return found | Q(fingerprint__in=list(groups.values_list("pk", flat=True)[:_MOST_NAMES]))


def _by_argument(queryset: QuerySet[Any], term: str) -> Q:
    """Rows with the term as a value that may be shown: guessing must not reveal a masked value."""
    if queryset.model not in JOB_TABLES or not argument_index.has_index(queryset.db, queryset.model):
        return Q(pk__in=[])
    name, values = _values_of(term)
    rows = argument_index.with_argument(queryset.model._base_manager.using(queryset.db), values)
    columns = rows.only("pk", "handler_type", "job_key")
    found = arguments_of(list(with_short_arguments(columns)[:MOST_WITH_ARGUMENT]), queryset.db)
    return Q(pk__in=[row.pk for row, arguments in found if has_argument(arguments, values, name or None)])


def _values_of(term: str) -> tuple[str, list[Any]]:
    """The name of the argument, '' for any, and the values that the term may mean."""
    name, sign, text = term.partition("=")
    name, text = (name.strip(), text.strip()) if sign else ("", term)
    return name, argument_index.values_of(text)


def note(model: type[Model], using: str, term: str, by: By) -> str:
    """The message about what was not searched for the term; empty if everything was."""
    if by is By.NOTHING:
        return ""
    if by is By.TEXT:
        parts = [_note_of_texts(model, using), _note_of_values(model, using, term)]
        return " ".join(filter(None, parts))
    text = {
        By.ID: gettext("Found by id or key. Not searched: %(what)s."),
        By.INSTANCE: gettext("Found by process instance. Not searched: %(what)s."),
        By.HANDLER: gettext("The name of a handler begins with the term. Not searched: %(what)s."),
    }[by]
    return text % {"what": ", ".join(_later(model, by))}


def _later(model: type[Model], by: By) -> list[str]:
    """What is only searched if nothing has been found so far."""
    found = [] if by is By.HANDLER else [gettext("handlers")]
    if _has_correlation(model):
        found.append(gettext("correlation ids"))
    if model in _TEXTS:
        found.append(gettext("exceptions"))
    if model in JOB_TABLES:
        found.append(gettext("arguments"))
    return found


def _note_of_texts(model: type[Model], using: str) -> str:
    """The message if there are more rows than are searched for texts and correlation ids."""
    if not (model in _TEXTS or _has_correlation(model)):
        return ""
    if not model._base_manager.using(using).order_by("-pk").values_list("pk")[LATEST : LATEST + 1]:
        return ""
    count = {"count": number_format(LATEST, force_grouping=True)}
    if model is DeadLetterJob:
        text = gettext(
            "Only the latest %(count)s rows were searched for this text, and all rows for names of exceptions."
        )
        return text % count
    return gettext("Only the latest %(count)s rows were searched for this text.") % count


def _note_of_values(model: type[Model], using: str, term: str) -> str:
    """The message if arguments were not searched, or not in all rows."""
    if model not in JOB_TABLES:
        return ""
    if not argument_index.has_index(using, model):
        return note_of_arguments(model, using)
    rows = argument_index.with_argument(model._base_manager.using(using), _values_of(term)[1])
    if not rows.values_list("pk")[MOST_WITH_ARGUMENT : MOST_WITH_ARGUMENT + 1]:
        return ""
    text = gettext("Only the first %(count)s jobs with this argument were read.")
    return text % {"count": number_format(MOST_WITH_ARGUMENT, force_grouping=True)}


def note_of_arguments(model: type[Model], using: str) -> str:
    """The message if arguments were not searched; empty if they were."""
    if not argument_index.can_index(using):
        return gettext("Arguments are not searched: they can be indexed on PostgreSQL only.")
    if model in JOB_TABLES and not argument_index.has_index(using, model):
        return gettext("Arguments are not searched: manage.py jobs index arguments creates the index.")
    return ""


def _latest(queryset: QuerySet[Any], column: str) -> Q:
    """The latest rows of the whole table by an indexed column; a restriction to tenants would have to read it all."""
    rows = queryset.model._base_manager.using(queryset.db).order_by(f"-{column}").values_list(column, flat=True)
    first = rows[LATEST - 1 : LATEST].first()
    return Q() if first is None else Q(**{f"{column}__gte": first})
