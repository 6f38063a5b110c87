"""Convert activated jobs to messages, and read the message of a call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
from grpc import aio

from jobexec.gateways import zeebe_format
from jobexec.operations.external.types import ActivatedJob

from . import gateway_pb2 as pb
from .codes import BadRequest

#: Most clients accept no message above 4 MiB; part of it is reserved for the data around the jobs.
MOST_BYTES = 4 * 1024 * 1024 - 16 * 1024


#: The result of a read at the end of the stream.
NOTHING: Any = getattr(aio, "EOF")  # noqa: B009  # its types do not know it


@contextmanager
def parsing() -> Iterator[None]:
    """Raise BadRequest for bytes that are not a message of the expected type."""
    try:
        yield
    except DecodeError as error:
        raise BadRequest(f"The message cannot be read: {error}") from None


async def read(context: Any) -> Any:
    """The message of a call. Raises BadRequest, and CancelledError if the client disconnected before it arrived."""
    with parsing():
        message = await context.read()
    if message is NOTHING:
        raise asyncio.CancelledError("The client has sent no message.")
    return message


class ActivatedMessage(NamedTuple):
    """A job together with the message about it."""

    job: ActivatedJob
    message: pb.ActivatedJob


def activated_message(job: ActivatedJob) -> ActivatedMessage:
    """The job with its message for clients. Process fields have constant values for a job without a process."""
    keys = zeebe_format.process_keys(job)
    return ActivatedMessage(
        job,
        pb.ActivatedJob(
            key=job.key,
            type=job.type,
            processInstanceKey=keys.instance,
            bpmnProcessId=zeebe_format.process_definition_id(job.process_definition_key),
            processDefinitionVersion=keys.version,
            processDefinitionKey=keys.definition,
            elementId=zeebe_format.element_id(job.element_id, job.type),
            elementInstanceKey=keys.element_instance,
            customHeaders=json_text(job.headers),
            worker=job.worker,
            retries=job.retries,
            deadline=zeebe_format.milliseconds(job.deadline),
            variables=json_text(job.variables),
            tenantId=zeebe_format.tenant(job.tenant_id),
            kind=pb.ActivatedJob.BPMN_ELEMENT,
            listenerEventType=pb.ActivatedJob.UNSPECIFIED,  # not the zero value, which stands for an event
            tags=job.tags,
            jobLeaseToken=job.lease_token or None,
        ),
    )


def json_text(value: Mapping[str, Any]) -> str:
    """The JSON text of an object, never an empty string: clients parse it without a check."""
    return json.dumps(dict(value), ensure_ascii=False, separators=(",", ":"))


def split(activated: Sequence[ActivatedMessage], most: int = MOST_BYTES) -> Iterator[Sequence[ActivatedMessage]]:
    """Split jobs, in order, into parts that each fit into a message. A job that is too large is a part of its own."""
    begin = size = 0
    for place, each in enumerate(activated):
        length = each.message.ByteSize() + 8  # the field's tag and length
        if place > begin and size + length > most:
            yield activated[begin:place]
            begin, size = place, 0
        size += length
    if begin < len(activated):
        yield activated[begin:]
