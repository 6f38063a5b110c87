"""Authentication, permissions and rate limits of the gateways; access is denied unless GATEWAY_AUTH allows it.

``authenticate`` turns credentials into a :class:`Client`; ``Client.check`` tests its permissions; ``limit`` counts its
requests. Views are wrapped with :func:`protected`; the gRPC server calls ``authenticate(*of_metadata(...))``.
"""

from jobexec.exceptions import NotAllowed, TooManyRequests, Unauthenticated
from jobexec.operations.manage.gateway_clients import PERMISSIONS

from .audit import audit, operator_of
from .client import ANYBODY, Client
from .limits import REPORTS, REQUESTS, RESULTS, Allowance, limit, succeeded
from .metadata import of_metadata
from .rejected_log import address_of, rejections
from .startup_notice import announce
from .verify import authenticate, forget, is_refused, known, was_known
from .views import Problem, Refusal, client_of, is_still_let_in, not_logged, protected

__all__ = [
    "ANYBODY",
    "PERMISSIONS",
    "REPORTS",
    "REQUESTS",
    "RESULTS",
    "Allowance",
    "Client",
    "NotAllowed",
    "Problem",
    "Refusal",
    "TooManyRequests",
    "Unauthenticated",
    "address_of",
    "announce",
    "audit",
    "authenticate",
    "client_of",
    "forget",
    "is_refused",
    "is_still_let_in",
    "known",
    "limit",
    "not_logged",
    "of_metadata",
    "operator_of",
    "protected",
    "rejections",
    "succeeded",
    "was_known",
]
