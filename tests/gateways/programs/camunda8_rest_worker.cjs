// A worker made with @camunda8/orchestration-cluster-api: what it does with a job says the job's variable `do`.
const { createCamundaClient } = require('@camunda8/orchestration-cluster-api')

const client = createCamundaClient()
client.createJobWorker({
  jobType: 'pay',
  workerName: 'node',
  maxParallelJobs: 10,
  jobTimeoutMs: 60000,
  fetchVariables: ['do', 'n'],
  jobHandler: async (job) => {
    const variables = job.variables
    console.log('job', job.jobKey, Object.keys(variables).sort().join())
    if (variables.do === 'error') return job.error({ errorCode: 'NO_MONEY', errorMessage: 'sorry', variables: { missing: 7 } })
    if (variables.do === 'fail' && job.retries === 3) return job.fail({ errorMessage: 'not yet', retries: 2, retryBackOff: 200 })
    if (variables.do === 'give up') return job.fail({ errorMessage: 'never', retries: 0 })
    return job.complete({ answer: variables.n * 2 })
  },
})
console.log('started')
