// With @camunda8/orchestration-cluster-api: node rest.cjs FILE. Deploys a process, works for it and starts it.
const { createCamundaClient } = require('@camunda8/orchestration-cluster-api')

async function main() {
  const client = createCamundaClient()
  const deployed = await client.deployResourcesFromFiles([process.argv[2]])
  const { processDefinitionKey, processDefinitionId } = deployed.processes[0]
  if (processDefinitionId !== 'order') throw new Error(JSON.stringify(deployed))
  client.createJobWorker({
    jobType: 'payment', workerName: 'node', maxParallelJobs: 1, jobTimeoutMs: 60000,
    jobHandler: async (job) => job.complete({ paid: job.variables.amount * 2 }),
  })
  const other = await client.createProcessInstance({ processDefinitionKey, variables: { amount: 0 } })
  await client.cancelProcessInstance({ processInstanceKey: other.processInstanceKey })
  const ended = await client.createProcessInstance({
    processDefinitionKey, variables: { amount: 5 }, awaitCompletion: true, requestTimeout: 60000, fetchVariables: ['paid'],
  })
  console.log(JSON.stringify(ended.variables))
  process.exit(0)
}

main().catch((error) => { console.error(error); process.exit(1) })
