"""Calls about processes for clients in other languages: Zeebe over gRPC, Camunda 8 and Camunda 7 over REST.

``found`` looks up the objects that clients name and may see. ``verbs`` implements the changes, with the policy and the
audit log. ``awaiting`` waits for the end of an instance. ``grpc``, ``rest_v2`` and ``engine_rest`` are the gateways.
"""

from __future__ import annotations


def use() -> None:
    """Add all to the gateways."""
    from jobexec.gateways import added

    from ..definition import InvalidProcess
    from ..engine.exceptions import StepError
    from ..exceptions import InstanceBusy, InstanceOver, MismatchingMessage, Suspended, TaskOver, UnknownProcess
    from ..store.flush import ENDED
    from . import found

    added.add_calls(added.GRPC, f"{__name__}.grpc.calls")
    added.add_calls(added.CAMUNDA_8, f"{__name__}.rest_v2.urls.CALLS")
    added.add_calls(added.CAMUNDA_7, f"{__name__}.engine_rest.urls.CALLS")
    added.add_keys(found.instance_keys)
    added.add_awaited(ENDED, found.ended)
    added.add_errors(
        {
            found.NotFound: "NOT_FOUND",
            found.StillRunning: "DEADLINE_EXCEEDED",
            UnknownProcess: "NOT_FOUND",
            InstanceOver: "NOT_FOUND",
            MismatchingMessage: "NOT_FOUND",
            InvalidProcess: "INVALID_ARGUMENT",
            TaskOver: "INVALID_STATE",
            Suspended: "INVALID_STATE",
            InstanceBusy: "RESOURCE_EXHAUSTED",
            StepError: "INVALID_STATE",
            found.WasCancelled: "INVALID_STATE",
        }
    )
