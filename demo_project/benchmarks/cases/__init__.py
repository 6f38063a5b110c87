"""The cases of ``manage.py jobbench``, one a file, each with the raw SQL of the same work beside it."""

from demo_project.benchmarks.case import Case

from .async_handlers import AsyncHandlers
from .atomic import Atomic
from .broker import BrokerCase
from .chain import Chain
from .children import Children
from .cluster import Cluster
from .drain import Drain
from .enqueue import Enqueue
from .enqueue_many import EnqueueMany
from .exclusive import Exclusive
from .external import External
from .flows import Flows
from .handlers import Handlers
from .history import History
from .latency import Latency
from .payload import Payload
from .permits import Permits
from .processes import Processes
from .resource import ResourceCase
from .results import Results
from .upkeep.admin_pages import AdminPages
from .upkeep.backlog import Backlog
from .upkeep.batch import BatchCase
from .upkeep.bloat import Bloat
from .upkeep.idle import Idle
from .upkeep.retries import Retries
from .upkeep.soak import Soak
from .upkeep.timers import Timers
from .waiting import Waiting

_ALL: tuple[type[Case], ...] = (
    Enqueue,
    EnqueueMany,
    Drain,
    Latency,
    Chain,
    Waiting,
    Handlers,
    Atomic,
    Exclusive,
    ResourceCase,
    Permits,
    History,
    Results,
    Backlog,
    Bloat,
    Idle,
    Soak,
    Retries,
    Timers,
    BatchCase,
    Children,
    Flows,
    Processes,
    Payload,
    AsyncHandlers,
    AdminPages,
    BrokerCase,
    External,
    Cluster,
)

#: The cases by name, in the order in which they are listed.
CASES: dict[str, type[Case]] = {case.name: case for case in _ALL}
