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
        answer = {"ok": False, "reasons": ["no executor was started in this process"]}
    else:
        answer = health.report().answer("live")
    return JsonResponse(answer, status=200 if answer["ok"] else 503)


urlpatterns = [path("executor/live/", live)]
