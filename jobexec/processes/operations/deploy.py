"""Deploy BPMN files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from uuid import UUID, uuid4

from django.apps import apps
from django.db import IntegrityError, router, transaction
from django.db.models import Max

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.operations.audit import audited, note
from jobexec.operations.history.keys import next_keys
from jobexec.operations.sql.server_time import keep_time

from ..definition import InvalidProcess, Problem, Process, to_json
from ..handlers import registry
from ..models import ProcessDefinition, ProcessDeployment, ProcessResource
from ..store.starts import arm_starts
from .job_definitions import record
from .verify import problems_of

#: A file: its path, or its name and content.
File = str | Path | tuple[str, bytes]
#: Its name, its content, and what it contains.
_Model = tuple[str, bytes, list[Process]]
#: So many hosts of a release may deploy at the same moment.
_ATTEMPTS = 20


@audited
def deploy(
    *files: File, name: str = "", source: str = "", tenant_id: str = "", user: str = "", using: str | None = None
) -> list[ProcessDefinition]:
    """Deploy BPMN files together, in the caller's transaction. Returns the new versions of their processes.

    A file that has not changed since the latest deployment of its processes makes no new version. If any file has a
    problem, this raises InvalidProcess with the id and the line of each element, and deploys nothing.
    """
    database = using or router.db_for_write(ProcessDefinition)
    made = deployed(database, *files, name=name, source=source, tenant_id=tenant_id, user=user)
    return [each.definition for each in made if each.is_new]


@dataclass(frozen=True)
class Deployed:
    """A process of a deployed file; without ``is_new`` its latest version came from a file of the same content."""

    file: str
    definition: ProcessDefinition
    is_new: bool


def deployed(
    using: str, *files: File, name: str = "", source: str = "", tenant_id: str = "", user: str = ""
) -> list[Deployed]:
    """:func:`deploy`, without an audit; returns what each process of the files is now."""
    from ..xml import read  # needs lxml, which only those who deploy files have

    given = [_content(file) for file in files]
    models: list[_Model] = []
    problems: list[Problem] = []
    for file, content in given:
        try:
            model = read(content)
        except InvalidProcess as error:
            problems += [_of_file(file, problem) for problem in error.problems]
            continue
        executable = [process for process in model.processes if process.executable]
        problems += [_of_file(file, problem) for process in executable for problem in problems_of(process)]
        models.append((file, content, executable))
    problems += _twice(models)
    if problems:
        raise InvalidProcess(problems)
    keep_time(using)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with transaction.atomic(using=using):
                return _changed(using, models, name, source, tenant_id, user)
        except IntegrityError:  # another deployment, perhaps of the same files, was faster, and has committed
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError


def _changed(using: str, models: list[_Model], name: str, source: str, tenant: str, user: str) -> list[Deployed]:
    news = [_is_new(using, tenant, *each) for each in models]
    changed = list(compress(models, news))
    made = _write(using, changed, name, source, tenant, user) if changed else []
    if made:
        subject = "processdeployment", made[0].deployment_id
        note(using, *subject, new={"files": [file for file, *_ in changed]}, tenant=tenant)
    new = iter(made)
    return [
        Deployed(file, next(new) if is_new else _latest(using, tenant, process), is_new)
        for (file, _, processes), is_new in zip(models, news, strict=True)
        for process in processes
    ]


def _twice(models: Iterable[_Model]) -> Iterator[Problem]:
    """Which of them would be the latest version? (Within a file, reading it refuses them.)"""
    first: dict[str, str] = {}
    for file, _, processes in models:
        for process in processes:
            if process.key in first:
                message = f"The file {first[process.key]} of this deployment has a process with this id, too."
                yield _of_file(file, Problem(process.key, message, process.line))
            first.setdefault(process.key, file)


def _latest(using: str, tenant: str, process: Process) -> ProcessDefinition:
    rows = ProcessDefinition.objects.using(using).filter(key=process.key, tenant_id=tenant, version__isnull=False)
    return rows.order_by("-version")[0]


def files_of_apps() -> list[Path]:
    """The files ``processes/*.bpmn`` of all apps."""
    return [file for app in apps.get_app_configs() for file in sorted(Path(app.path, "processes").glob("*.bpmn"))]


def is_deployed(using: str, file: Path, tenant_id: str = "") -> bool:
    """Whether the latest versions of its processes came from this content, or the file has no process to deploy.

    A content that was deployed is not read again: executors ask this whenever they start, and reading takes longer
    than all other checks. A process of it that was deleted is not missed.
    """
    content = file.read_bytes()
    resources = ProcessResource.objects.using(using).filter(sha256=_digest(content)).values("pk")
    rows = ProcessDefinition.objects.using(using).filter(resource_id__in=resources, tenant_id=tenant_id)
    keys = set(rows.values_list("key", flat=True))
    if keys and _are_latest(using, tenant_id, content, keys):
        return True
    from ..xml import read

    executable = [process for process in read(content).processes if process.executable]
    return not _is_new(using, tenant_id, file.name, content, executable)


def _content(file: File) -> tuple[str, bytes]:
    if isinstance(file, tuple):
        return file
    path = Path(file)
    return path.name, path.read_bytes()


def _of_file(file: str, problem: Problem) -> Problem:
    return Problem(f"{file}: {problem.element}", problem.message, problem.line)


def _is_new(using: str, tenant: str, file: str, content: bytes, processes: list[Process]) -> bool:
    """Whether the latest version of one of its processes came from another content."""
    return not _are_latest(using, tenant, content, [process.key for process in processes])


def _are_latest(using: str, tenant: str, content: bytes, keys: Iterable[str]) -> bool:
    """Whether the latest version of each of these processes came from this content."""
    digest = _digest(content)
    for key in keys:
        rows = ProcessDefinition.objects.using(using).filter(key=key, tenant_id=tenant, version__isnull=False)
        latest = rows.order_by("-version").values_list("resource_id", flat=True).first()
        if latest is None or not ProcessResource.objects.using(using).filter(pk=latest, sha256=digest).exists():
            return False
    return True


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(
    using: str,
    models: Iterable[_Model],
    name: str,
    source: str,
    tenant: str,
    user: str,
) -> list[ProcessDefinition]:
    from ..xml import text_of

    now = clock.now(using)
    (key,) = next_keys(using, 1)
    deployment = ProcessDeployment(
        key=key, name=name, source=source, tenant_id=tenant, deploy_user=user, deploy_time=now
    )
    deployment.save(using=using, force_insert=True)
    made = []
    for file, content, processes in models:
        resource = ProcessResource(
            deployment_id=deployment.pk,
            name=file,
            text=text_of(content),
            sha256=_digest(content),
        )
        resource.save(using=using, force_insert=True)
        made += [_version(using, process, deployment, resource.pk) for process in processes]
    for row, process in zip(made, [each for *_, found in models for each in found], strict=True):
        record(using, process)
        arm_starts(using, row, process, registry.functions())
    return made


def _version(using: str, process: Process, deployment: ProcessDeployment, resource: UUID) -> ProcessDefinition:
    """The next version. Raises IntegrityError, as soon as it has committed, if another deployment makes it, too."""
    (number,) = next_keys(using, 1)
    rows = ProcessDefinition.objects.using(using).filter(key=process.key, tenant_id=deployment.tenant_id)
    version = (rows.aggregate(last=Max("version"))["last"] or 0) + 1
    row = ProcessDefinition(
        id=f"{process.key}:{version}:{uuid4().hex[:12]}",
        key=process.key,
        number=number,
        version=version,
        version_tag=process.version_tag or "",
        name=process.name or "",
        tenant_id=deployment.tenant_id,
        deployment_id=deployment.pk,
        resource_id=resource,
        model=json.dumps(to_json(process)),
        code_deployment=get_settings().deployment or "",
        deploy_time=deployment.deploy_time,
    )
    row.save(using=using, force_insert=True)
    return row
