"""Camunda 7's API as a client without a library asks it: JSON there, status and JSON back."""

import json
from typing import Any

from django.test import Client

URLS = "jobexec.gateways.rest.camunda7.urls"


class EngineRest:
    """`rest.post("/external-task/5/complete", workerId="w")` returns the status and what was answered."""

    def __init__(self, prefix: str = "", **headers: str) -> None:
        self._client, self._prefix = Client(headers=headers), prefix

    def get(self, path: str, **parameters: Any) -> tuple[int, Any]:
        return self._answer(self._client.get(self._prefix + path, parameters))

    def post(self, path: str, **body: Any) -> tuple[int, Any]:
        return self.send("POST", path, json.dumps(body))

    def put(self, path: str, **body: Any) -> tuple[int, Any]:
        return self.send("PUT", path, json.dumps(body))

    def send(self, method: str, path: str, body: str | bytes = b"", type: str = "application/json") -> tuple[int, Any]:
        return self._answer(self._client.generic(method, self._prefix + path, body, content_type=type))

    def fetch(self, *topics: str, worker: str = "w", most: int = 10, lock: int = 60_000, **of_topic: Any) -> list[Any]:
        """The tasks that a worker is given of these topics."""
        asked = [{"topicName": topic, "lockDuration": lock, **of_topic} for topic in topics or ("payment",)]
        status, tasks = self.post("/external-task/fetchAndLock", workerId=worker, maxTasks=most, topics=asked)
        assert status == 200, tasks
        return list(tasks)

    @staticmethod
    def _answer(response: Any) -> tuple[int, Any]:
        if not response.content:
            assert response.status_code == 204 or response.status_code == 200
            return response.status_code, None
        if response["Content-Type"] == "text/plain":
            return response.status_code, response.content.decode()
        assert response["Content-Type"] == "application/json", "a client takes anything else for binary data"
        return response.status_code, json.loads(response.content)


def error(type: str, message: str) -> dict[str, Any]:
    return {"type": type, "message": message, "code": 0}
