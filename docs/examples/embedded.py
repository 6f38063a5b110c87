"""The executor of "Embed an executor", in each process of a web server."""

from django.http import JsonResponse
from django.urls import path

from jobexec.conf import get_settings
from jobexec.executor.job_executor import JobExecutor
from jobexec.executor.process.health import Health

health = None


def start():
    global executor, health
    executor = JobExecutor(get_settings().replace(threads=2))
    health = Health(executor)
    executor.start()
    health.begin(lambda: None)


def stop():
    health.drain()
    executor.stop()


def live(request):
    if health is None:
        body = {"ok": False, "reasons": ["no executor was started in this process"]}
    else:
        body = health.report().answer("live")
    return JsonResponse(body, status=200 if body["ok"] else 503)


urlpatterns = [path("executor/live/", live)]
