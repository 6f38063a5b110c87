"""The options of a gateway: address, certificates, limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from jobexec.exceptions import InvalidSettings

#: The default port of Zeebe clients.
PORT = 26500
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a gateway.

    ``port`` 0 takes any free port. With ``share_port`` other gateways on this machine may use the same port, and the
    system distributes the connections. ``threads`` threads fetch jobs, and as many report results to the database.
    """

    using: str = "default"
    address: str = "127.0.0.1"
    port: int = PORT
    share_port: bool = False
    threads: int = 8
    #: The maximum number of calls that wait for jobs, polls and streams together.
    max_streams: int = 5000
    tls_cert: Path | None = None
    tls_key: Path | None = None
    client_ca: Path | None = None
    #: Seconds that running calls get to finish when the gateway shuts down.
    grace: float = 10.0

    @property
    def target(self) -> str:
        """Address and port in gRPC's notation."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    @property
    def security(self) -> str:
        """The protection of connections, for the banner."""
        if self.tls_cert is None:
            return "without TLS"
        return "TLS" if self.client_ca is None else "TLS with client certificates"

    def credentials(self) -> grpc.ServerCredentials | None:
        """The credentials for TLS; None without TLS. Raises InvalidSettings for missing options or unreadable files."""
        if self.tls_cert is None and self.tls_key is None:
            if self.client_ca is not None:
                raise InvalidSettings("--client-ca: expected --tls-cert and --tls-key as well.")
            return None
        if self.tls_cert is None or self.tls_key is None:
            raise InvalidSettings("--tls-cert and --tls-key: expected both or neither.")
        pair = _read("--tls-key", self.tls_key), _read("--tls-cert", self.tls_cert)
        authority = None if self.client_ca is None else _read("--client-ca", self.client_ca)
        return grpc.ssl_server_credentials([pair], authority, require_client_auth=authority is not None)

    def of_channels(self) -> list[tuple[str, Any]]:
        """gRPC's channel options."""
        return [
            ("grpc.so_reuseport", int(self.share_port)),
            # Clients ping on idle connections: pyzeebe every 45 s, Node even without a call. gRPC closes the connection
            # of a client that pings more often than this.
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
            ("grpc.keepalive_permit_without_calls", 1),
            # The gateway pings too: the loss of a client's machine or network is noticed after a minute and a half.
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.keepalive_timeout_ms", 30_000),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.max_receive_message_length", 8 * MEBIBYTE),
            ("grpc.max_send_message_length", 8 * MEBIBYTE),
        ]


def _read(option: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidSettings(f"{option}: {path} cannot be read: {error.strerror}.") from error
