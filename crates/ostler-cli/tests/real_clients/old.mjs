// The first line of the TypeScript SDK as a client of HTTP+SSE: instead of a command it gets a URL and a token.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import * as types from "@modelcontextprotocol/sdk/types.js";
import { answers, capabilities, info, listeners, run, server, tapped } from "./play.mjs";

const headers = { Authorization: `Bearer ${server.args[0]}` };
const client = new Client(info, { capabilities });
client.setRequestHandler(types.CreateMessageRequestSchema, answers["sampling/createMessage"]);
client.setRequestHandler(types.ElicitRequestSchema, answers["elicitation/create"]);
client.setRequestHandler(types.ListRootsRequestSchema, answers["roots/list"]);
client.setNotificationHandler(types.LoggingMessageNotificationSchema, listeners["notifications/message"]);
client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, listeners["notifications/resources/updated"]);
const transport = new SSEClientTransport(new URL(server.command), { requestInit: { headers } });
await client.connect(transport);
tapped(transport);
await run(client, (client, params, options) => client.callTool(params, undefined, options));
