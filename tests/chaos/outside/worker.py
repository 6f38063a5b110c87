"""A worker in a process of its own: `python -m tests.chaos.outside.worker poll1`."""

import signal
import sys


def main(name: str) -> None:
    import django

    django.setup()
    from django.conf import settings

    from .life import Worker

    worker = Worker(name, settings.CHAOS_SEED, settings.CHAOS_MIXTURE, settings.CHAOS_PORTS)
    signal.signal(signal.SIGTERM, lambda number, frame: worker.stop.set())
    worker.live()


if __name__ == "__main__":
    main(sys.argv[1])
