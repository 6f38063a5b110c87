"""The command line. The exit code is 0 if nothing was found, 1 if something was, or if there was nothing to judge."""

import argparse
import json
import shutil
import sys
from pathlib import Path

from .driver import Driver, Options
from .history import History
from .journal import read
from .mixtures import AIMED
from .report import summary, verdict
from .rules import judge


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=sys.modules["tests.chaos"].__doc__)
    add = parser.add_argument
    add("--nodes", type=int, default=4, help="Executor processes (on SQLite always one).")
    add("--seconds", type=float, default=60, help="How long the chaos lasts; coming to rest takes some more.")
    add("--seed", type=int, default=0, help="Decides what is enqueued and what happens when.")
    add("--database", choices=["postgresql", "mariadb", "sqlite"], default="postgresql")
    add("--server", help="Address of a PostgreSQL server to use; it is not restarted then.")
    add("--lease", type=float, help="LEASE_TIME of the nodes, in seconds; other times follow it.")
    add("--acquisition", default="auto", help="The setting ACQUISITION of the nodes.")
    add("--break", dest="broken", choices=sorted(AIMED), default="", help="Take this guard of jobexec away.")
    add("--judge", type=Path, metavar="FOLDER", help="Only judge what an earlier run has left.")
    add("--keep", action="store_true", help="Keep the folder also if nothing was found.")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    given = _options(arguments)
    folder = given.judge or _play(given)
    single = given.database == "sqlite"
    history = History(read(folder / "journal"), json.loads((folder / "state.json").read_text()), single=single)
    problems = judge(history)
    print(*summary(history), *verdict(history, problems), sep="\n")
    idle = bool(history.jobs) and not any(history.runs())
    if problems or given.keep or idle:
        print(f"The journal, the logs of the nodes and the state of the database are in {folder}")
    elif not given.judge:
        shutil.rmtree(folder)
    if idle:
        print("No job ran: no node has come up, so nothing is proven.")
    elif not problems:
        print("Nothing is wrong.")
    return 1 if problems or idle else 0


def _play(given: argparse.Namespace) -> Path:
    nodes = 1 if given.database == "sqlite" else given.nodes
    options = Options(
        nodes=nodes,
        seconds=given.seconds,
        seed=given.seed,
        database=given.database,
        broken=given.broken,
        server=given.server,
        acquisition=given.acquisition,
        lease=given.lease,
    )
    print(f"{nodes} nodes on {given.database} for {given.seconds:.0f} s, seed {given.seed}", flush=True)
    return Driver(options).play()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
