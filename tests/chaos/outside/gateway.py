"""A gateway in a process of its own: `python -m tests.chaos.outside.gateway grpc1`."""

import sys


def main(name: str) -> None:
    import django

    django.setup()
    from django.conf import settings

    port = getattr(settings, "CHAOS_PORTS", {})[name]
    if name.startswith("grpc"):
        from django.core.management import call_command

        call_command("rungrpcgateway", port=port, threads=4)
    else:
        import uvicorn

        application = "django.core.asgi:get_asgi_application"
        uvicorn.run(
            application, factory=True, port=port, lifespan="off", log_level="warning", timeout_graceful_shutdown=3
        )


if __name__ == "__main__":
    main(sys.argv[1])
