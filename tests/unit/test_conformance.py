"""The conformance page: what it names exists, no row is without a test or a reason, no class is missing."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "conformance.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")
VERDICT = re.compile(r"\*\*(Otherwise|Not applicable|Later):\*\*\s*(.*)", re.DOTALL)

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
    """(system, classes, behaviour, answer) of every row below the figures."""
    found, system, classes = [], "", []
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            system = next(name for name in SOURCES if line.startswith(f"## {name}"))
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if not system or len(cells) != 3 or cells[2] in ("jobexec", "") or set(line) <= set("|-"):
            continue
        classes = cells[0].split(", ") if cells[0] else classes
        found.append((system, classes, cells[1], cells[2]))
    return found


ROWS = rows()


def kind(answer):
    verdict = VERDICT.match(answer)
    return verdict[1].lower() if verdict else "tested"


def names_in(path):
    """The tests of a file: functions, and Class::method."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        names.add(getattr(node, "name", ""))
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return {name for name in names if name.rpartition("::")[2].startswith("test_")}


def test_every_line_of_the_tables_is_a_row():
    """Or a cell with a bar in it, or a row of two cells, would pass unread."""
    _, _, tables = PAGE.read_text().partition("\n## ")
    lines = [line for line in tables.splitlines() if line.startswith("|")]
    heads = [line for line in lines if line.endswith("| jobexec |") or set(line) <= set("|-")]
    assert len(ROWS) == len(lines) - len(heads) > 400


def test_the_tests_that_are_named_exist():
    known = {path: names_in(ROOT / path) for path, _ in TEST.findall(PAGE.read_text()) if (ROOT / path).is_file()}
    missing = {f"{path}::{name}" for path, name in TEST.findall(PAGE.read_text()) if name not in known.get(path, ())}
    assert missing == set()


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
