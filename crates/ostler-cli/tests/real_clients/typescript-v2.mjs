// The second line of the TypeScript SDK.
import { Client, SSEClientTransport as Sse, StreamableHTTPClientTransport as Http } from "@modelcontextprotocol/client";
import { StdioClientTransport as Stdio } from "@modelcontextprotocol/client/stdio";
import { answers, capabilities, info, listeners, run, tapped, transportOf } from "./play.mjs";

const client = new Client(info, { capabilities });
for (const [method, answer] of Object.entries(answers)) client.setRequestHandler(method, answer);
for (const [method, listen] of Object.entries(listeners)) client.setNotificationHandler(method, listen);
const transport = transportOf({ Stdio, Http, Sse });
await client.connect(transport);
tapped(transport);
await run(client, (client, params, options) => client.callTool(params, options));
