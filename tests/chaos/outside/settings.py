"""Settings of the driver and of all processes: those of the other chaos, with workers outside."""

import json
import os

from tests.chaos.settings import CHAOS_FOLDER as CHAOS_FOLDER
from tests.chaos.settings import CHAOS_SEED as CHAOS_SEED
from tests.chaos.settings import DATABASES as DATABASES
from tests.chaos.settings import JOBEXEC as JOBEXEC
from tests.chaos.settings import SECRET_KEY as SECRET_KEY
from tests.chaos.settings import TIME_ZONE as TIME_ZONE
from tests.chaos.settings import USE_TZ as USE_TZ

INSTALLED_APPS = ["jobexec", "tests.chaos.outside.apps.Outside"]
ROOT_URLCONF = "jobexec.gateways.rest.urls"
ALLOWED_HOSTS = ["*"]
#: The port of each gateway.
CHAOS_PORTS: dict[str, int] = json.loads(os.environ.get("JOBEXEC_CHAOS", "{}")).get("ports", {})
CHAOS_MIXTURE: dict = json.loads(os.environ.get("JOBEXEC_CHAOS", "{}")).get("mixture", {})
