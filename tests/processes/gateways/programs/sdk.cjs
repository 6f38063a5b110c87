// With @camunda8/sdk over gRPC, or with zeebe-node: node sdk.cjs PACKAGE ADDRESS FILE. See zeebe.py.
const [name, address, file] = process.argv.slice(2)

function made() {
  if (name === 'zeebe-node') return new (require(name).ZBClient)(address, { useTLS: false, loglevel: 'NONE' })
  const { Camunda8 } = require(name)
  return new Camunda8({ ZEEBE_GRPC_ADDRESS: `grpc://${address}`, CAMUNDA_LOG_LEVEL: 'none' }).getZeebeGrpcApiClient()
}

async function main() {
  const client = made()
  const deployed = name === 'zeebe-node' ? await client.deployProcess(file) : await client.deployResource({ processFilename: file })
  const one = name === 'zeebe-node' ? deployed.processes[0] : deployed.deployments[0].process
  if (one.bpmnProcessId !== 'order') throw new Error(JSON.stringify(deployed))
  client.createWorker({
    taskType: 'payment',
    taskHandler: (job) => job.complete({ paid: job.variables.amount * 2 }),
  })
  const other = await client.createProcessInstance({ bpmnProcessId: 'order', variables: { amount: 0 } })
  await client.setVariables({ elementInstanceKey: other.processInstanceKey, variables: { a: 1 }, local: false })
  await client.cancelProcessInstance(other.processInstanceKey)
  const ended = await client.createProcessInstanceWithResult({
    bpmnProcessId: 'order', variables: { amount: 5 }, requestTimeout: 60000, fetchVariables: ['paid'],
  })
  console.log(JSON.stringify(ended.variables))
  try {
    await client.createProcessInstance({ bpmnProcessId: 'nobody', variables: {} })
  } catch (error) {
    console.log(error.code)
  }
  process.exit(0)
}

main().catch((error) => { console.error(error); process.exit(1) })
