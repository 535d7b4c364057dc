// The first line of the TypeScript SDK.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport as Sse } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport as Stdio } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as Http } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import * as types from "@modelcontextprotocol/sdk/types.js";
import { answers, capabilities, info, listeners, run, tapped, transportOf } from "./play.mjs";

const client = new Client(info, { capabilities });
client.setRequestHandler(types.CreateMessageRequestSchema, answers["sampling/createMessage"]);
client.setRequestHandler(types.ElicitRequestSchema, answers["elicitation/create"]);
client.setRequestHandler(types.ListRootsRequestSchema, answers["roots/list"]);
client.setNotificationHandler(types.LoggingMessageNotificationSchema, listeners["notifications/message"]);
client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, listeners["notifications/resources/updated"]);
const transport = transportOf({ Stdio, Http, Sse });
await client.connect(transport);
tapped(transport);
await run(client, (client, params, options) => client.callTool(params, undefined, options));
