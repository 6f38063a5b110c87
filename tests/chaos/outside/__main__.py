"""The command line. The exit code is 0 if nothing was found, 1 if something was, or if there was nothing to judge."""

import argparse
import json
import shutil
import sys
from pathlib import Path

from tests.chaos.journal import read

from .driver import Driver, Options
from .history import History
from .mixture import AIMED, ALL_OF_IT, SMALL
from .report import summary, verdict
from .rules import judge


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.outside", description=sys.modules["tests.chaos.outside"].__doc__
    )
    add = parser.add_argument
    add("--seconds", type=float, default=20, help="How long the chaos lasts; coming to rest takes some more.")
    add("--seed", type=int, default=0, help="Decides what is made and what happens when.")
    add("--database", choices=["postgresql", "mariadb", "sqlite"], default="postgresql")
    add("--server", help="Address of a PostgreSQL server to use; it is not restarted then.")
    add("--small", action="store_true", help="Fewer processes.")
    add("--break", dest="broken", choices=sorted(AIMED), default="", help="Take this guard of jobexec away.")
    add("--judge", type=Path, metavar="FOLDER", help="Only judge what an earlier run has left.")
    add("--keep", action="store_true", help="Keep the folder also if nothing was found.")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    given = _options(arguments)
    folder = given.judge or _play(given)
    history = History(read(folder / "journal"), json.loads((folder / "state.json").read_text()))
    problems = judge(history)
    print(*summary(history), *verdict(history, problems), sep="\n")
    idle = not history.fetches
    if problems or given.keep or idle:
        print(f"The journal, the logs of the processes and the state of the database are in {folder}")
    elif not given.judge:
        shutil.rmtree(folder)
    if idle:
        print("Nobody fetched a job, so nothing is proven.")
    elif not problems:
        print("Nothing is wrong.")
    return 1 if problems or idle else 0


def _play(given: argparse.Namespace) -> Path:
    mixture = AIMED[given.broken] if given.broken else SMALL if given.small else ALL_OF_IT
    options = Options(mixture, given.seconds, given.seed, given.database, given.broken, given.server)
    print(
        f"{len(mixture.workers)} workers on {given.database} for {given.seconds:.0f} s, seed {given.seed}", flush=True
    )
    return Driver(options).play()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
