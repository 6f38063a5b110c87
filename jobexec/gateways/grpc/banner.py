"""The banner that a gateway prints when it starts."""

from __future__ import annotations

import os
from collections.abc import Iterator

from django.db import connections

import jobexec
from jobexec.gateways import auth

from .gateway import GrpcGateway
from .options import Options

_LOOPBACK = ("127.", "::1", "localhost")


def banner(gateway: GrpcGateway) -> Iterator[str]:
    """The lines of the banner."""
    options = gateway.options
    database = connections[options.using].display_name
    yield f"jobexec {jobexec.__version__}, gateway for workers over gRPC, process {os.getpid()}"
    yield f"  address:  {options.address}:{gateway.port}, {options.security}"
    yield f"  database: {options.using} ({database}), {options.threads} threads to fetch and as many to finish"
    yield f"  {auth.announce()}"
    if in_the_open(options):
        yield "  Without TLS anyone on the network path can read the secrets of clients and the variables of jobs."
    yield (
        f"  At most {options.max_streams} calls wait for jobs. Press Ctrl-C once to drain and stop, "
        "twice to stop immediately."
    )


def in_the_open(options: Options) -> bool:
    """Return whether connections from other machines are unencrypted."""
    return options.tls_cert is None and not options.address.startswith(_LOOPBACK)
