// A worker with @camunda8/sdk: node worker.js ADDRESS TYPE NAME TIMEOUT_MS stream|poll
// It does what the variable "act" of each job says, and writes a line at the beginning and at the end of each.
const { Camunda8 } = require('@camunda8/sdk')

const [address, type, name, timeout, mode] = process.argv.slice(2)
const zeebe = new Camunda8({
  ZEEBE_GRPC_ADDRESS: `${process.env.SCHEME || 'grpc'}://${address}`,
  CAMUNDA_AUTH_STRATEGY: process.env.CAMUNDA_AUTH_STRATEGY || 'NONE',
  CAMUNDA_LOG_LEVEL: 'warn',
}).getZeebeGrpcApiClient()

async function work(job) {
  console.log('begun', job.key, Date.now() / 1000)
  const act = job.variables.act || 'complete'
  if (act === 'error') return job.error('no-money', 'no money')
  if (act === 'fail' || (act === 'fail_once' && job.retries === 1)) {
    const retryBackOff = Number(job.customHeaders.back_off || 0)
    return job.fail({ errorMessage: 'no luck', retries: job.retries - 1, retryBackOff })
  }
  console.log('ended', job.key, Date.now() / 1000)
  return job.complete({ by: name, seen: Object.keys(job.variables).sort() })
}

const options = { timeout: Number(timeout), fetchVariable: ['act'], taskHandler: work }
if (mode === 'stream') {
  zeebe.streamJobs({ type, worker: name, tenantIds: ['<default>'], ...options }).then(() => console.log('works'))
} else {
  zeebe.createWorker({ taskType: type, id: name, maxJobsToActivate: 32, ...options })
  console.log('works')
}
