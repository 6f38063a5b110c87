"""A worker in a process of its own: `python -m tests.chaos.outside.worker poll1`."""

import signal
import sys


def main(name: str) -> None:
    import django

    django.setup()
    from django.conf import settings

    from .life import Worker

    given = [getattr(settings, f"CHAOS_{what}", None) or {} for what in ("MIXTURE", "PORTS")]
    worker = Worker(name, getattr(settings, "CHAOS_SEED", 0), *given)
    signal.signal(signal.SIGTERM, lambda number, frame: worker.stop.set())
    worker.live()


if __name__ == "__main__":
    main(sys.argv[1])
