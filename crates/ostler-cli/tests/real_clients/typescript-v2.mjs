// The second line of the TypeScript SDK.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { answers, capabilities, info, listeners, run, server, tapped } from "./play.mjs";

const client = new Client(info, { capabilities });
for (const [method, answer] of Object.entries(answers)) client.setRequestHandler(method, answer);
for (const [method, listen] of Object.entries(listeners)) client.setNotificationHandler(method, listen);
const transport = new StdioClientTransport(server);
await client.connect(transport);
tapped(transport);
await run(client, (client, params, options) => client.callTool(params, options));
