"""gunicorn.conf.py of "Embed an executor"."""

workers = 2
graceful_timeout = timeout = 45  # longer than GRACE_PERIOD


def post_worker_init(worker):
    from docs.examples import embedded  # in a project: from shop import embedded

    embedded.start()
    worker.stop_executor = embedded.stop


def worker_exit(server, worker):
    # Also called for workers that did not start, and by gunicorn's main process for those that were killed.
    if hasattr(worker, "stop_executor"):
        worker.stop_executor()
