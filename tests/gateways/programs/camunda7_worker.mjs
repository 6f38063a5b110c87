// A worker with camunda-external-task-client-js: `folder-of-node_modules url worker topics mode`.
// It says a line of JSON for each task that it is given and for each thing that it does.
import { pathToFileURL } from "node:url";
import readline from "node:readline";

const [folder, url, worker, topics, mode] = process.argv.slice(2);
const library = pathToFileURL(folder + "/node_modules/camunda-external-task-client-js/index.js");
const { Client, Variables } = await import(library);

const say = (values) => console.log(JSON.stringify(values));
const client = new Client({ baseUrl: url, workerId: worker, maxTasks: 3, asyncResponseTimeout: 20000, interval: 50 });
const told = new Promise((resolve) => readline.createInterface({ input: process.stdin }).once("line", resolve));
for (const event of ["poll:error", "complete:error", "handleFailure:error", "handleBpmnError:error", "extendLock:error"]) {
  client.on(event, (...details) => say({ error: event, message: String(details.at(-1).message ?? details.at(-1)) }));
}

const modes = {
  async complete(task, service) {
    await service.complete(task, new Variables().set("by", worker));
  },
  async echo(task, service) {
    const back = new Variables();
    for (const [name, typed] of Object.entries(task.variables.getAllTyped())) {
      if (typed.type === "file") {
        const file = await typed.value.load();
        say({ file: file.content.toString("utf-8"), name: file.filename });
        back.setTyped(name, { type: "file", value: file, valueInfo: {} });
      } else {
        back.setTyped(name, typed);
      }
    }
    back.set("big", 2 ** 40).set("half", 0.5).set("list", [1, "zwei", null]).set("when", new Date(0)).set("no", null);
    await service.complete(task, back, new Variables().set("local", 1));
  },
  async fail(task, service) {
    const retries = task.retries === null ? 2 : task.retries - 1;
    await service.handleFailure(task, { errorMessage: "Kaputt", errorDetails: "stack", retries, retryTimeout: 0 });
  },
  async error(task, service) {
    await service.handleBpmnError(task, "NO_MONEY", "Empty", new Variables().set("missing", 7));
  },
  async extend(task, service) {
    await service.extendLock(task, 600000);
    say({ extended: task.id });
    await told;
    await service.unlock(task);
    say({ unlocked: task.id });
  },
};

for (const topic of topics.split(",")) {
  client.subscribe(topic, { includeExtensionProperties: true }, async ({ task, taskService }) => {
    const types = Object.fromEntries(Object.entries(task.variables.getAllTyped()).map(([name, each]) => [name, each.type]));
    const { id, topicName, retries, extensionProperties: properties } = task;
    const variables = types.doc ? {} : task.variables.getAll();
    say({ got: id, topic: topicName, types, variables, retries, properties });
    await modes[mode](task, taskService);
    say({ done: id });
  });
}
say({ ready: worker });
