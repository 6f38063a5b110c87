"""The REST API of Camunda 8, asked as a client does."""

import json
from typing import Any

from django.test import Client

URLS = "jobexec.gateways.rest.urls"


class V2:
    """Calls of the API under Django's test client (WSGI). `status` and `body` are those of the last answer."""

    def __init__(self, authorization: str | None = None) -> None:
        self._client = Client(raise_request_exception=False)
        self._headers: dict[str, Any] = {} if authorization is None else {"HTTP_AUTHORIZATION": authorization}
        self.status = 0
        self.body: Any = None
        self.response: Any = None

    def call(self, method: str, path: str, body: Any = None) -> Any:
        content = body if isinstance(body, (str, bytes)) else "" if body is None else json.dumps(body)
        self.response = self._client.generic(
            method, f"/v2{path}", content, content_type="application/json", **self._headers
        )
        self.status = self.response.status_code
        self.body = json.loads(self.response.content) if self.response.content else None
        return self.body

    def post(self, path: str, body: Any = None) -> Any:
        return self.call("POST", path, body)

    def activate(self, type: str = "pay", **members: Any) -> Any:
        asked = {"type": type, "worker": "w", "timeout": 60_000, "maxJobsToActivate": 10, "requestTimeout": -1}
        return self.post("/jobs/activation", {**asked, **members}).get("jobs")

    def refused(self, status: int, title: str, *words: str) -> None:
        """The last answer is a problem, with all of its members."""
        assert self.status == status, self.body
        assert self.response["Content-Type"] == "application/problem+json"
        assert set(self.body) == {"type", "title", "status", "detail", "instance"}
        assert (self.body["title"], self.body["status"]) == (title, status)
        for word in words:
            assert word in self.body["detail"]
