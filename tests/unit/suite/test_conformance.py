"""The conformance page: what it names exists, no row is without a test or a reason, no class is missing.

And no row waits for a capability that has been built: ``tests/support/suite/capabilities.py`` knows how to see it.
"""

import re
from collections import Counter

import pytest

from tests.support.suite.capabilities import WAITED_FOR, needed, overtaken
from tests.support.suite.conformance import PAGE, TEST, cases_of, tiers_of

VERDICT = re.compile(r"\*\*(Otherwise|Not applicable|Later)(?: \([\w -]+\))?:\*\*\s*(.*)", re.DOTALL)

CAMUNDA_JOBEXECUTOR = """
AcquirableJobCacheTest AcquireJobCmdUnitTest AcquireJobsCmdTest BackoffJobAcquisitionStrategyTest
BatchJobPriorityRangeTest DeploymentAwareJobExecutorTest DeploymentAwareJobExecutorForOracleTest
ExclusiveJobAcquisitionTest FailedJobListenerWithRetriesTest HistoryCleanupJobPriorityRangeTest
JobAcquisitionBackoffIdleTest JobAcquisitionBackoffTest JobAcquisitionLoggingTest JobAcquisitionTest
JobDefinitionCreationWithParseListenerTest JobDefinitionCreationBothAsyncWithParseListenerTest
JobDefinitionDeletionWithParseListenerTest JobDefinitionCreationAndDeletionWithParseListenerTest
JobDefinitionDeploymentTest JobDefinitionFunctionalTest JobDefinitionRedeploymentTest JobExceptionLoggingTest
JobExecutionLoggingTest JobExecutorAcquireCleanupJobsTest JobExecutorCleanupTest JobExecutorAcquireJobsDefaultTest
JobExecutorAcquireJobsByDueDateTest JobExecutorAcquireJobsByDueDateNotPriorityTest
JobExecutorAcquireJobsByPriorityTest JobExecutorAcquireJobsByPriorityAndDueDateTest JobExecutorAcquireJobsByTypeTest
JobExecutorAcquireJobsByTypeAndDueDateTest JobExecutorAcquireJobsForPriorityRangeTest JobExecutorBatchTest
JobExecutorCmdExceptionTest JobExecutorCmdHappyTest JobExecutorExceptionLoggingHandlerTest JobExecutorFollowUpTest
JobExecutorPriorityRangeConfigurationTest JobExecutorShutdownTest JobExecutorStartTest JobExecutorTest
ReducedJobExceptionLoggingTest ReuseEntityCacheTest SequentialJobAcquisitionTest TransactionListenerThreadContextTest
AbstractJobExecutorAcquireJobsTest AsyncTransactionContext AsyncTransactionContextFactory ControllableCommandContext
ControllableJobExecutor DelayDelegate FailingDelegate FailingTransactionListenerDelegate JobAcquisitionTestHelper
JobExecutorTestCase RecordingAcquireJobsRunnable TweetHandler TweetExceptionHandler TweetNestedCommandExceptionHandler
ViolateIntegrityConstraintDelegate
"""
CAMUNDA_CONCURRENCY = """
ConcurrentJobExecutorTest CompetingJobAcquisitionTest CancelAcquiredJobTest CompetingHistoryCleanupAcquisitionTest
ThrowOleWhenDeletingExceptionStacktraceTest ConcurrentHistoryCleanupTest ConcurrentHistoryCleanupReconfigureTest
ConcurrentHistoryCleanupUpdateOfFailingJobTest ConcurrentProcessEngineJobExecutorHistoryCleanupJobTest
JdbcStatementTimeoutTest DeleteProcessDefinitionTest ConcurrentDeploymentTest CompetingForkTest CompetingJoinTest
CompetingProcessCompletionTest CompetingSubprocessCompletionTest CompetingParentCompletionTest
CompetingSentrySatisfactionTest CompetingSignalsTest CompetingSuspensionTest CompetingActivityInstanceCancellationTest
CompetingMessageCorrelationTest CompetingTransactionsOptimisticLockingTest
CompetingTransactionsOptimisticLockingTestWithoutBatchProcessing BuiltinExceptionCodeForeignKeyConstraintViolationTest
CompetingByteVariableAccessTest CompetingCompleteTaskSetVariableTest CompetingVariableFetchingAndDeletionTest
ConcurrentVariableUpdateTest TransactionIsolationReadCommittedTest partitioning/* CompetingExternalTaskFetchingTest
CompetingExternalTaskLockingTest ConcurrentHistoryLevelTest ConcurrentInstallationIdInitializationTest
CompetingLicenseKeyAccessTest UuidGeneratorTest ConcurrencyTestCase ConcurrencyTestHelper ControllableThread
ControlledCommand
"""
CAMUNDA_OTHERS = """
JobDeclarationRetriesTest LegacyJobDeclarationRetriesTest FoxJobRetryCmdTest FoxJobRetryCmdEventsTest
JobRetryCmdWithDefaultPropertyTest FoxFailedJobParseListenerTest DefaultJobPrioritizationBpmnTest
DisabledJobPrioritizationBpmnTest JobPrioritizationBpmnConstantValueTest JobPrioritizationBpmnExpressionValueTest
JobQueryTest JobQueryByPriorityTest JobDefinitionQueryTest JobDefinitionPriorityTest ManagementServiceTest
ManagementServiceAsyncOperationsTest SuspendJobTest ActivateJobTest SuspendJobDefinitionTest ActivateJobDefinitionTest
JobEntityTest IncidentTest IncidentMultipleProcessingTest BatchPriorityTest BatchSuspensionTest JobExecutorMetricsTest
MetricsTest MetricsIntervalTest MetricsDisabledTest HistoricJobLogTest HistoricJobLogQueryTest
JobEntityAndJobLogBatchIdTest UserOperationLogJobTest UserOperationLogJobDefinitionTest authorization/*Job*
MultiTenancyJobExecutorTest MultiTenancyJobCmdsTenantCheckTest multitenancy/suspensionstate/* multitenancy/query/*
BoundaryTimerEventTest BoundaryTimerNonInterruptingEventTest IntermediateTimerEventTest StartTimerEventTest
TimerRecalculationTest UpdateDuedateOnRecurringTimerTest bpmn/exclusive/* container/impl/deployment/jobexecutor/*
IndependentJobExecutionTest FailedJobCommandTest qa/JobPrioritization* ManagedJobExecutorTest qa/timers
ExclusiveOverProcessHierarchiesTest JobExecutorPropertiesTest JobExecutorStartingEventListenerTest
JobExecutorHealthIndicatorTest CamundaEngineJobExecutorConfigTest
"""
FLOWABLE = """
ResetExpiredJobsTest RestExpiredTimerJobsTest AcquireTimerJobsMoveFailsTest AcquireTimerJobsMultiNodeTest
AsyncExecutorTest AsyncExecutorTwoEnginesTest BulkMoveDeadLetterJobsTest BulkMoveTimerJobsToExecutableJobsTest
BulkUpdateJobLockTest ClearProcessInstanceLocksTest UnacquireOwnedJobsTest NonTransactionalJobHandlerTest
JobExecutorFailRetryTest JobProcessorTest JobExecutionObservationTest AcquireAsyncJobsDueLifecycleListenerTest
AcquireTimerJobsLifecycleListenerTest JobExecutorCmdHappyTest JobExecutorCmdExceptionTest JobExecutorExceptionsTest
FailedJobRetryCmdTest AsyncJobCategoryTest AsyncExclusiveJobsTest AsyncNonExclusiveJobsTest AsyncTaskTest
ExclusiveTimerEventTest ExternalWorkerServiceTaskTest MultipleExternalWorkerAcquireServiceTaskTest
ManagementServiceTest JobQueryTest TimerJobQueryTest ExternalWorkerJobQueryTest JobEventsTest JobResourceTest
JobCollectionResourceTest ExternalWorkerAcquireJobResourceTest ExternalWorkerUnacquireJobResourceTest
ScopeAwareInternalJobManagerTest SpringAsyncExecutorTest cmmn/AsyncTaskTest cmmn/AsyncJobCategoryTest
ClearCaseInstanceLocksTest CmmnEngineConfiguratorAsyncHistoryTest ProcessAsyncHistoryExecutorTest JobExecutorMBeanTest
"""
RATCHET = """
Crud Claim Lock Node Tag Execution JobLog JobStatus Retry Pause Terminal Recurring Batch BatchStatus BatchMetrics
WorkflowCondition Query Signal Archive DlqAlert Bulk ActiveBusinessKey DualWriteInvariant ResourcePermit
SchemaConformance SchemaMigrator JpaRecurringClaimConcurrency TransactionBoundary Analytics Audit PayloadEncryption
JobLifecycle JobRetry JobCancel DelayedScheduling Idempotency BusinessKey SimpleWorkflow ResilienceStrategy
JobAuthorization JobQuery JobQueryDenial SignalDecision SignalPayload RetryPolicy BulkCancelEvent
PayloadEncryptionEngine CdiInjection CdiEvent TxEnqueue TxRequired TxNotSupported TxSupports ClusterCoordinator
ClusterCoordinatorOptional
"""
SOURCES = {
    "Camunda 7": (CAMUNDA_JOBEXECUTOR, CAMUNDA_CONCURRENCY, CAMUNDA_OTHERS),
    "Flowable": (FLOWABLE,),
    "Ratchet": (RATCHET,),
}


def rows():
    """(system, classes, behaviour, answer) of every row below the figures, and (answer, tiers)."""
    found, system, classes, in_tiers = [], "", [], []
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            system = next(name for name in SOURCES if line.startswith(f"## {name}"))
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if not system or len(cells) != 4 or cells[2] in ("jobexec", "") or set(line) <= set("|-"):
            continue
        classes = cells[0].split(", ") if cells[0] else classes
        found.append((system, classes, cells[1], cells[2]))
        in_tiers.append((cells[2], cells[3]))
    return found, in_tiers


ROWS, IN_TIERS = rows()


def kind(answer):
    verdict = VERDICT.match(answer)
    return verdict[1].lower() if verdict else "tested"


def test_every_line_of_the_tables_is_a_row():
    """Or a cell with a bar in it, or a row of two cells, would pass unread."""
    _, _, tables = PAGE.read_text().partition("\n## ")
    lines = [line for line in tables.splitlines() if line.startswith("|")]
    heads = [line for line in lines if line.endswith("| jobexec | tier |") or set(line) <= set("|-")]
    assert len(ROWS) == len(lines) - len(heads) > 400


def test_the_tests_that_are_named_exist():
    named = set(TEST.findall(PAGE.read_text()))
    assert {f"{path}::{name}" for path, name in named if name not in cases_of(path)} == set()


@pytest.mark.gate
def test_each_row_names_the_tiers_of_its_tests():
    """`python -m tests.support.suite.conformance` writes them."""
    expected = [(answer, tiers_of(TEST.findall(answer))) for answer, _ in IN_TIERS]
    assert [told for told in zip(IN_TIERS, expected, strict=True) if told[0] != told[1]] == []


def test_what_looks_like_a_test_is_written_as_one():
    assert PAGE.read_text().count(".py::") == len(TEST.findall(PAGE.read_text()))


def test_each_row_has_a_test_or_a_reason():
    def stands(classes, behaviour, answer):
        verdict = VERDICT.match(answer)
        return classes and behaviour and (len(verdict[2]) >= 5 if verdict else TEST.match(answer))

    assert [row for row in ROWS if not stands(*row[1:])] == []


@pytest.mark.parametrize("system", SOURCES)
def test_no_class_is_missing_and_none_is_made_up(system):
    expected = {name for part in SOURCES[system] for name in part.split()}
    assert {name for of, classes, _, _ in ROWS if of == system for name in classes} == expected


def test_the_figures_are_those_of_the_rows():
    kinds = ("tested", "otherwise", "not applicable", "later")
    counts = {system: Counter(kind(answer) for of, _, _, answer in ROWS if of == system) for system in SOURCES}
    counts["all"] = sum(counts.values(), Counter())
    text = PAGE.read_text()
    for system, count in counts.items():
        figures = " | ".join(str(number) for number in (count.total(), *(count[kind] for kind in kinds)))
        assert f"| {system} | {figures} |" in text


# What rows wait for.


def test_a_later_row_names_what_it_waits_for():
    later = [answer for *_, answer in ROWS if kind(answer) == "later"]
    assert [answer for answer in later if needed(answer) not in WAITED_FOR] == []


def test_rows_wait_for_each_capability_and_the_page_explains_it():
    assert {needed(answer) for *_, answer in ROWS} - {None} == set(WAITED_FOR)
    introduction = PAGE.read_text().partition("\n## ")[0]
    assert [name for name in WAITED_FOR if f"*{name}*" not in introduction] == []


def test_no_row_waits_for_what_has_been_built():
    """Whoever builds a capability mends its rows, and takes it out of WAITED_FOR."""
    assert overtaken(answer for *_, answer in ROWS) == {}


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        ("workers outside", "jobexec.external_job"),
        ("workers outside", "jobexec.models.ExternalWorkerJob"),
        ("REST", "jobexec.gateways.rest"),
        ("REST", "JOBEXEC.GATEWAY_AUTH"),
        ("keys", "@job(unique)"),
        ("keys", "jobexec.models.JobKey"),
        ("recurring jobs", "jobexec.schedule"),
        ("recurring jobs", "jobexec.operations.schedules.manage"),
    ],
)
def test_the_finder_finds_a_row_that_waits_for_what_has_been_built(capability, name):
    """The page once said of each of these that it did not exist, long after it had been built."""
    waited_for = {capability: ("jobexec.nothing", name), "gates": ("jobexec.nothing",)}
    wrong, right = f"**Later ({capability}):** there are none yet.", "**Later (gates):** there are no permits."
    assert overtaken([right, wrong, "**Otherwise:** there are none."], waited_for) == {wrong: {name}}


def test_the_finder_takes_patterns():
    wrong = "**Later (keys):** there are none yet."
    assert "jobexec.models.JobKey" in overtaken([wrong], {"keys": ("jobexec.models.*Key*",)})[wrong]


def test_no_row_refers_to_the_row_above():
    """A row that is put between the two would change what it says."""
    assert [answer for *_, answer in ROWS if re.search(r"\b(as|with the) above\b", answer)] == []
