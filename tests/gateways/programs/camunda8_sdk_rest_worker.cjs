// A worker made with the REST client of @camunda8/sdk: what it does with a job says the job's variable `do`.
const { Camunda8 } = require('@camunda8/sdk')

const client = new Camunda8().getCamundaRestClient()
client.createJobWorker({
  type: 'pay',
  worker: 'node-sdk',
  maxJobsToActivate: 10,
  timeout: 60000,
  requestTimeout: 10000,
  fetchVariable: ['do', 'n'],
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
