# mypy: ignore-errors
"""An operator with camunda-orchestration-sdk: looks for the one incident, gives its job a retry, and resolves it."""

import datetime

from camunda_orchestration_sdk import CamundaClient
from camunda_orchestration_sdk.models import (
    IncidentSearchQuery,
    JobChangeset,
    JobSearchQuery,
    JobTypeStatisticsFilter,
    JobTypeStatisticsQuery,
    JobUpdateRequest,
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
