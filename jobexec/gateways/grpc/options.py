"""How a gateway is to be run: where it listens, with which certificates, how much it takes at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from jobexec.exceptions import InvalidSettings

#: Where clients for Zeebe look for it.
PORT = 26500
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``port`` 0 is a free one. ``share_port``: other gateways on this machine may have the same one, and the system
    deals out the connections. ``threads`` ask the database for jobs, and as many hand in what is done."""

    using: str = "default"
    address: str = "127.0.0.1"
    port: int = PORT
    share_port: bool = False
    threads: int = 8
    #: Calls that may wait for jobs at a time, polls and streams together.
    max_streams: int = 5000
    tls_cert: Path | None = None
    tls_key: Path | None = None
    client_ca: Path | None = None
    #: Seconds for calls that are being answered when the gateway ends.
    grace: float = 10.0

    @property
    def target(self) -> str:
        """Address and port as gRPC writes them."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    @property
    def security(self) -> str:
        """What protects the connections, for people."""
        if self.tls_cert is None:
            return "without TLS"
        return "TLS" if self.client_ca is None else "TLS, clients show certificates"

    def credentials(self) -> grpc.ServerCredentials | None:
        """What TLS needs; None for connections without. Raises InvalidSettings if files are missing."""
        if self.tls_cert is None and self.tls_key is None:
            if self.client_ca is not None:
                raise InvalidSettings("--client-ca: expected --tls-cert and --tls-key beside it.")
            return None
        if self.tls_cert is None or self.tls_key is None:
            raise InvalidSettings("--tls-cert and --tls-key: expected both or neither.")
        pair = _read("--tls-key", self.tls_key), _read("--tls-cert", self.tls_cert)
        authority = None if self.client_ca is None else _read("--client-ca", self.client_ca)
        return grpc.ssl_server_credentials([pair], authority, require_client_auth=authority is not None)

    def of_channels(self) -> list[tuple[str, Any]]:
        """What gRPC is told about connections."""
        return [
            ("grpc.so_reuseport", int(self.share_port)),
            # Clients ping while nothing else happens, pyzeebe every 45 s, Node without any call; more often than
            # this is too often, and the connection of who does is closed.
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
            ("grpc.keepalive_permit_without_calls", 1),
            # We ping, too: whose machine or network has gone is noticed after a minute and a half.
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
