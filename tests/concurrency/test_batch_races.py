"""Jobs of one batch at the same moment."""

import pytest
from django.db import connections

from jobexec.identifiers import uuid7
from jobexec.models import Batch, BatchFailure
from jobexec.operations.batches.work import lock_batch
from jobexec.operations.sql.locks import atomic
from tests.support.threads import finish, held, start

pytestmark = pytest.mark.transactional


@pytest.mark.databases("postgresql")
def test_pieces_that_write_what_they_left_alone_do_not_wait_for_the_seed(alias):
    batch = Batch.objects.using(alias).create(type="delete")

    def refuse():
        with atomic(alias), connections[alias].cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '3s'")
            BatchFailure.objects.using(alias).create(batch_id=batch.pk, job_id=uuid7(), reason="it runs")

    with held(alias) as inside:
        inside(lambda: lock_batch(alias, batch.pk))
        finish(start(alias, refuse))
        assert BatchFailure.objects.using(alias).exists()
