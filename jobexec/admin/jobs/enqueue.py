"""Enqueue jobs, and jobs again with other arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import router
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.views.decorators.debug import sensitive_post_parameters

from jobexec import by_hand
from jobexec.conf import get_settings
from jobexec.encryption import envelope_of
from jobexec.exceptions import HandlerNotFound, InvalidJob, JobExecError, JobStateError
from jobexec.handlers.registry import OWN
from jobexec.models import Job
from jobexec.operations import find_job
from jobexec.operations.rows.routing import is_external
from jobexec.operations.values.ranking import MAX_PRIORITY

from ..common import display
from ..common.actions import Outcome
from ..common.forms import JSONField
from ..common.tenancy import COLUMN, tenants_of
from .actions import JobAction
from .argument_forms import VARIABLES, ArgumentsForm, form_of
from .page import JobTableAdmin

#: Options that a form has fields for, and those that say where a job is inserted.
_NOT_AMONG_OTHERS = ("priority", "delay", "run_after", "category", COLUMN, "database", "transaction")
#: How the process instances of batches begin, see the form of schedules.
_OF_BATCHES = "batch:"


class ChooseForm(forms.Form):
    """The handler, or the type of external workers."""

    handler = forms.CharField(
        label=gettext_lazy("Handler"),
        max_length=255,
        widget=forms.TextInput(attrs={"size": 60, "list": "jobexec-choices", "autocomplete": "off"}),
    )
    external = forms.BooleanField(
        label=gettext_lazy("For external workers"),
        required=False,
        help_text=gettext_lazy("The handler is the job type that external workers fetch."),
    )


class EnqueueForm(ArgumentsForm):
    """The arguments and the options of a new job. Users limited to some tenants enqueue for these."""

    tenants: frozenset[str] | None = None

    delay = forms.CharField(
        label=gettext_lazy("Delay"),
        required=False,
        max_length=64,
        help_text=gettext_lazy("An ISO 8601 duration, such as PT5M, or seconds. If empty: due now."),
    )
    priority = forms.IntegerField(
        label=gettext_lazy("Priority"),
        required=False,
        min_value=-MAX_PRIORITY,
        max_value=MAX_PRIORITY,
        help_text=gettext_lazy("Higher values run sooner. If empty: that of the handler."),
    )
    category = forms.ChoiceField(label=gettext_lazy("Category"), required=False)
    tenant_id = forms.CharField(label=gettext_lazy("Tenant"), required=False, max_length=64)
    options = JSONField(
        label=pgettext_lazy("of a job", "Other options"),
        initial=dict,
        rows=2,
        help_text=gettext_lazy('As for using(): a JSON object, for example {"process_instance_id": "order-1"}.'),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        category = self.fields["category"]
        assert isinstance(category, forms.ChoiceField)
        category.choices = [("", _("As in the handler")), *((name, name) for name in get_settings().categories)]
        if self.parameters is None:
            del self.fields["category"]
        names = ("delay", "priority", "category", COLUMN, "options")
        self.order_fields([name for name in self.fields if name not in names])

    def clean_delay(self) -> str | float:
        text: str = self.cleaned_data["delay"]
        try:
            return float(text)
        except ValueError:
            return text

    def clean_tenant_id(self) -> str:
        tenant: str = self.cleaned_data[COLUMN]
        if self.tenants is not None and tenant not in self.tenants:
            raise forms.ValidationError(_("This is not one of your tenants."))
        return tenant

    def clean_options(self) -> dict[str, Any]:
        options = self.cleaned_data["options"] or {}
        if not isinstance(options, dict):
            raise forms.ValidationError(_("This must be a JSON object."))
        if taken := sorted(options.keys() & set(_NOT_AMONG_OTHERS)):
            raise forms.ValidationError(
                _("These options are not valid here: %(options)s.") % {"options": ", ".join(taken)}
            )
        if self.tenants is not None and str(options.get("process_instance_id", "")).startswith(_OF_BATCHES):
            text = _("These options affect jobs of other tenants: %(options)s.")
            raise forms.ValidationError(text % {"options": "process_instance_id"})
        return options

    def chosen(self) -> dict[str, Any]:
        """The options of the job."""
        data = self.cleaned_data
        given = {name: data.get(name) for name in ("delay", "priority", "category", COLUMN)}
        return {**data["options"], **{name: value for name, value in given.items() if value not in (None, "")}}


class EnqueueAdmin(JobTableAdmin):
    """The pages by which a user enqueues a job, in place of those by which Django adds a row."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request) and self.has_enqueue_permission(request)

    @method_decorator(sensitive_post_parameters())
    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Ask for the handler, then for what its function takes."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        choose = ChooseForm(request.GET if "handler" in request.GET else None)
        if not choose.is_valid():
            return self._page(request, choose)
        handler, external = choose.cleaned_data["handler"], choose.cleaned_data["external"]
        try:
            parameters = None if external else by_hand.parameters_of(by_hand.function_named(handler))
        except (HandlerNotFound, InvalidJob) as error:
            choose.add_error("handler", str(error))
            return self._page(request, choose)
        form_class = form_of(EnqueueForm, parameters)
        form_class.tenants = tenants_of(request)  # type: ignore[attr-defined]
        form = form_class(request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            job = self._enqueue(form, handler, external)
            if job is not None:
                self.message_user(request, _enqueued(job, self.admin_site.name), messages.SUCCESS)
                return HttpResponseRedirect(self.list_url())
        return self._page(request, form, handler)

    def _enqueue(self, form: Any, handler: str, external: bool) -> Any:
        using = router.db_for_write(Job)
        try:
            return by_hand.enqueue(handler, form.arguments(), form.chosen(), using=using, external=external)
        except by_hand.InvalidArguments as error:
            form.tell(error)
        except JobExecError as error:
            form.add_error(None, str(error))
        return None

    def _page(self, request: HttpRequest, form: forms.Form, handler: str = "") -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": _("Enqueue a job"),
            "opts": self.opts,
            "media": self.media,
            "form": form,
            "handler": handler,
            "choices": [] if handler or tenants_of(request) is not None else by_hand.function_names(),
            "list_url": self.list_url(),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/jobexec/enqueue.html", context)


class Rerun(JobAction):
    """Enqueue a job like this one, with other arguments."""

    name, permission = "rerun", "enqueue"
    description = gettext_lazy("Enqueue one selected job again with other arguments…")
    label = gettext_lazy("Run again…")
    warning = gettext_lazy("A new job with these arguments is enqueued; this one stays as it is.")

    def applies(self, row: Any) -> bool:
        return not row.handler_type.startswith(OWN)

    def form_for(self, queryset: QuerySet[Any]) -> type[forms.Form] | None:
        try:
            job = _single(queryset)
            external = is_external(job)
            parameters = None if external else by_hand.parameters_of(by_hand.function_named(job.handler_type))
            old = by_hand.shown_arguments(job)
        except JobExecError:
            return None  # and perform raises it
        return form_of(ArgumentsForm, parameters, old, hides_all=bool(envelope_of(job.handler_configuration)))

    def ask_again(self, form: forms.Form, queryset: QuerySet[Any], using: str) -> bool:
        """Insert the job; the form is shown again with what is wrong."""
        assert isinstance(form, ArgumentsForm)
        job, given = _single(queryset), form.arguments()
        try:
            keep = form.hides_all and VARIABLES in form.fields and not given
            form.cleaned_data["made"] = by_hand.rerun(job, given, using=using, keep=keep)
        except by_hand.InvalidArguments as error:
            form.tell(error)
        except JobExecError as error:
            form.add_error(None, str(error))
        return bool(form.errors)

    def perform_for(
        self, request: HttpRequest, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]
    ) -> Outcome:
        if "made" not in data:
            by_hand.shown_arguments(_single(queryset))
        site = request.resolver_match.namespace if request.resolver_match else "admin"
        vars(data["made"])["shown_link"] = _enqueued(data["made"], site)
        return Outcome([data["made"].pk])

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return str(data["made"].shown_link)


def _single(queryset: QuerySet[Any]) -> Any:
    ids = list(queryset.order_by().values_list("pk", flat=True)[:2])
    if len(ids) != 1:
        raise JobStateError(_("Choose one job."))
    return find_job(ids[0], queryset.db)


def _enqueued(job: Any, site: str) -> str:
    text = _("Job {link} of {handler} has been enqueued.")
    return format_html(text, link=display.job_link(job.pk, site), handler=job.handler_type)
