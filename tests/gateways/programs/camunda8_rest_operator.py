# mypy: ignore-errors
"""An operator with camunda-orchestration-sdk: resolves the one incident, and publishes a message twice.

Looks for the incident, gives its job a retry, and resolves it. The message is "approved" with the key 4711.
"""

import datetime

from camunda_orchestration_sdk import CamundaClient
from camunda_orchestration_sdk.errors import ApiError
from camunda_orchestration_sdk.models import (
    IncidentSearchQuery,
    JobChangeset,
    JobSearchQuery,
    JobTypeStatisticsFilter,
    JobTypeStatisticsQuery,
    JobUpdateRequest,
    MessagePublicationRequest,
)

with CamundaClient() as client:
    assert client.get_topology().partitions_count == 1
    (incident,) = client.search_incidents(data=IncidentSearchQuery()).items
    assert client.get_incident(incident.incident_key) == incident
    (job,) = client.search_jobs(data=JobSearchQuery()).items
    assert job.job_key == incident.job_key
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    span = JobTypeStatisticsFilter(from_=now - day, to=now + day)
    (figures,) = client.get_job_type_statistics(data=JobTypeStatisticsQuery(filter_=span)).items
    assert figures.job_type == "pay" and figures.failed.count == 1, figures
    client.update_job(job.job_key, data=JobUpdateRequest(changeset=JobChangeset(retries=5)))
    client.resolve_incident(incident.incident_key)
    print(incident.error_message, job.state, flush=True)
    given = {"name": "approved", "correlationKey": "4711", "variables": {"by": "ann"}}
    message = MessagePublicationRequest.from_dict({**given, "messageId": "m1", "timeToLive": 60_000})
    published = client.publish_message(data=message)
    try:
        client.publish_message(data=message)
    except ApiError as error:
        print(published.message_key, published.tenant_id, error.status_code, flush=True)
