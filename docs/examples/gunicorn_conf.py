"""gunicorn.conf.py of "Embed an executor"."""

workers = 2
graceful_timeout = timeout = 45  # longer than GRACE_PERIOD


def post_worker_init(worker):
    from docs.examples import embedded  # in a project: from shop import embedded

    embedded.start()


def worker_exit(server, worker):
    from docs.examples import embedded

    embedded.stop()
