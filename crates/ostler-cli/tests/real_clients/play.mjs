// What a user's client does, written down. Run by typescript-v1.mjs and typescript-v2.mjs as
//   node SCRIPT PLAY PREFIX COMMAND...
//   TOKEN=... node SCRIPT PLAY PREFIX URL
// PREFIX is what the names of this server's tools begin with.
const [play, prefix, command, ...args] = process.argv.slice(2);

/** The way to the server, with one of the SDK's transports. */
export function transportOf({ Stdio, Http, Sse }) {
  if (!command.startsWith("http://")) return new Stdio({ command, args, env: process.env });
  const url = new URL(command);
  const requestInit = { headers: { Authorization: `Bearer ${process.env.TOKEN}` } };
  return new (url.pathname.startsWith("/sse") ? Sse : Http)(url, { requestInit });
}

/** What the client says of itself. */
export const info = { name: process.env.CLIENT_NAME ?? "real-client", version: "1.0.0" };
export const capabilities = { sampling: {}, elicitation: {}, roots: { listChanged: true } };

/** What the server has asked, and what it has told. */
const asked = {};
const logs = [];
const updates = [];
let roots = [{ uri: "file:///one", name: "one" }];

/** The answers to what servers ask. */
export const answers = {
  "sampling/createMessage": ({ params }) => {
    asked.sampling = params;
    return { model: "none", role: "assistant", content: { type: "text", text: "a sample" } };
  },
  "elicitation/create": ({ params }) => {
    asked.elicitation = params;
    return { action: "accept", content: { name: "Nobody", integer: 7 } };
  },
  "roots/list": () => ({ roots }),
};

/** What is done about what servers tell. */
export const listeners = {
  "notifications/message": ({ params }) => logs.push(params),
  "notifications/resources/updated": ({ params }) => updates.push(params),
};

/** Notes what comes for calls, in the order in which it comes: not every client looks at all of it. */
const wire = [];
export function tapped(transport) {
  const { onmessage } = transport;
  transport.onmessage = (message, extra) => {
    if (message.method === "notifications/progress") wire.push(message.params.progress);
    if ("result" in message) wire.push("answer");
    onmessage(message, extra);
  };
}

/** Waits for something that comes by itself; the test has the limit. */
async function until(probe) {
  for (;;) {
    const found = await probe();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const own = (list) =>
  list.filter(({ name }) => name.startsWith(prefix))
    .map((item) => ({ ...item, name: item.name.slice(prefix.length) }));

const failure = (error) => ({ code: error.code, name: error.name });

async function everything(client, call) {
  const seen = {};
  seen.prompts = own((await client.listPrompts()).prompts);
  seen.resources = (await client.listResources()).resources;
  seen.templates = (await client.listResourceTemplates()).resourceTemplates;

  seen.echo = await call("echo", { message: "h\u00e9llo \ud83d\udc0e" });
  seen.structured = await call("get-structured-content", { location: "Chicago" });
  seen.image = await call("get-tiny-image");
  seen.wrong = await call("get-sum", { a: "no number" }).catch(failure);

  const prompt = { name: `${prefix}args-prompt`, arguments: { city: "Ulm", state: "BW" } };
  seen.prompt = await client.getPrompt(prompt);
  const ref = { type: "ref/prompt", name: `${prefix}completable-prompt` };
  seen.completion = await client.complete({ ref, argument: { name: "department", value: "S" } });
  const uri = "demo://resource/dynamic/text/1";
  seen.read = await client.readResource({ uri });

  wire.length = 0;
  const onprogress = (step) => (seen.step ??= step);
  seen.long = await call("trigger-long-running-operation", { duration: 0.2, steps: 4 }, { onprogress });
  seen.wire = [...wire];

  const abort = new AbortController();
  const options = { signal: abort.signal, onprogress: () => abort.abort("enough") };
  const cancelled = call("trigger-long-running-operation", { duration: 60, steps: 600 }, options);
  seen.cancelled = await cancelled.then(() => "answered", () => "cancelled");

  seen.sampled = await call("trigger-sampling-request", { prompt: "p", maxTokens: 10 });
  seen.elicited = await call("trigger-elicitation-request");
  seen.asked = asked;

  seen.roots = await call("get-roots-list");
  roots = [...roots, { uri: "file:///two", name: "two" }];
  await client.sendRootsListChanged();
  seen.newRoots = await until(async () => {
    const answer = await call("get-roots-list");
    return answer.content[0].text.includes("file:///two") && answer;
  });

  await client.setLoggingLevel("info");
  await client.subscribeResource({ uri });
  seen.log = await until(() => logs.find(({ data }) => data.startsWith("Received Subscribe")));
  await call("toggle-subscriber-updates");
  seen.update = await until(() => updates[0]);
  await client.unsubscribeResource({ uri });
  return seen;
}

async function time(client, call) {
  const at = { source_timezone: "UTC", time: "12:00", target_timezone: "Asia/Tokyo" };
  const converted = await call("convert_time", at);
  const wrong = await call("convert_time", { ...at, time: "soon" }).catch(failure);
  return { converted, wrong };
}

/** Uses the server, and then holds it until its own input ends. */
async function meet(client, call) {
  const echo = await call("echo", { message: "together" });
  console.log(JSON.stringify({ echo }));
  for await (const _ of process.stdin);
  return {};
}

/** Only looks what there is. */
const look = () => ({});

/** Says when a long call has begun, and then what came of it. */
async function cut(client, call) {
  wire.length = 0;
  const onprogress = ({ progress }) => {
    if (progress === 1) console.log(JSON.stringify("begun"));
  };
  const long = await call("trigger-long-running-operation", { duration: 4, steps: 8 }, { onprogress });
  return { long, steps: wire.filter((one) => one !== "answer") };
}

export async function run(client, callTool) {
  const call = (name, given = {}, options) =>
    callTool(client, { name: prefix + name, arguments: given }, options);
  await client.ping();
  const seen = {
    server: [client.getServerVersion(), client.getServerCapabilities(), client.getInstructions()],
    // A server that is being started may be missing from the first list.
    tools: await until(async () => {
      const tools = own((await client.listTools()).tools);
      return tools.length > 0 && tools;
    }),
    ...(await { everything, time, meet, cut, look }[play](client, call)),
  };
  // All of it would be more than a pipe holds, and what it does not hold is lost with this process.
  if (play === "look") seen.tools = seen.tools.map(({ name }) => ({ name }));
  await client.transport.terminateSession?.();
  await client.close();
  console.log(JSON.stringify(seen));
  // A server that was started directly may live on behind its wrapper, and hold our pipes.
  process.exit();
}
