"""A real PgBouncer in transaction mode in front of a test database, as a process of the test's own."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.machines.proxy import in_front_of
from tests.support.waiting import TIMEOUT, until

_CONFIGURATION = """
[databases]
{name} = host=127.0.0.1 port={server} dbname={name}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
admin_users = {user}
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 200
server_login_retry = 1
"""


def program() -> str:
    """Return the path of PgBouncer; skip the test if it is not installed."""
    found = shutil.which(
        "pgbouncer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    )
    if found is None:
        pytest.skip("there is no PgBouncer (package pgbouncer)")
    return found


class PgBouncer:
    """A PgBouncer process. `stop()` and `start()` may be called repeatedly; the port stays the same."""

    def __init__(self, folder: Path, address: dict[str, Any], server_port: int, pool_size: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._program, self._folder = program(), folder
        self.user = address["USER"] or "postgres"
        self._name = address["NAME"]
        users, self._configuration = folder / "users.txt", folder / "pgbouncer.ini"
        users.write_text(f'"{self.user}" "{address["PASSWORD"]}"\n')
        text = _CONFIGURATION.format(
            name=self._name, server=server_port, port=self.port, users=users, user=self.user, pool_size=pool_size
        )
        self._configuration.write_text(text)
        for path in (folder, users, self._configuration):
            path.chmod(0o755)  # PgBouncer reads them as another user
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # PgBouncer refuses to run as root.
        user = ["-u", "nobody"] if os.geteuid() == 0 else []
        with (self._folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                [self._program, *user, str(self._configuration)], stdout=log, stderr=log, start_new_session=True
            )
        until(self._answers)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(TIMEOUT)
            self._process = None

    def show(self, what: str) -> list[Any]:
        """Return the result of a SHOW command on its console."""
        with psycopg.connect(
            host="127.0.0.1", port=self.port, user=self.user, dbname="pgbouncer", autocommit=True
        ) as console:
            return psycopg.ClientCursor(console).execute(f"SHOW {what}").fetchall()  # type: ignore[call-overload]

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()
        try:
            psycopg.connect(host="127.0.0.1", port=self.port, user=self.user, dbname=self._name).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def in_transaction_mode(address: dict[str, Any], pool_size: int = 8) -> Iterator[PgBouncer]:
    """Run a PgBouncer in front of a database given as Django settings; `settings_of` connects through it."""
    program()
    folder = Path(tempfile.mkdtemp(prefix="jobexec-pgbouncer-"))
    with in_front_of(address) as proxy:
        bouncer = PgBouncer(folder, address, proxy.port, pool_size)
        try:
            bouncer.start()
            yield bouncer
        finally:
            bouncer.stop(signal.SIGKILL)
            shutil.rmtree(folder, ignore_errors=True)


def settings_of(bouncer: PgBouncer) -> dict[str, Any]:
    """Return the settings that connect through PgBouncer, as in the guide."""
    return {
        "HOST": "127.0.0.1",
        "PORT": str(bouncer.port),
        "USER": bouncer.user,
        "DISABLE_SERVER_SIDE_CURSORS": True,
        "OPTIONS": {},
    }
