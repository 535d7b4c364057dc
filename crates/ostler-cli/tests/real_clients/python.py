"""What a user's client does, written down, with either line of the Python SDK.

    python SCRIPT PLAY PREFIX COMMAND...
    TOKEN=... python SCRIPT PLAY PREFIX URL

PREFIX is what the names of this server's tools begin with.
"""

import json
import os
import sys
from contextlib import asynccontextmanager

import anyio
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

PLAY, PREFIX, COMMAND, *ARGS = sys.argv[1:]
URI = "demo://resource/dynamic/text/1"
FIRST_LINE = isinstance(types.ClientNotification, type)

asked, logs, updates = {}, [], []
roots = [types.Root(uri="file:///one", name="one")]


def plain(value):
    """As it is on the wire."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def sample(_context, params):
    asked["sampling"] = plain(params)
    text = types.TextContent(type="text", text="a sample")
    return types.CreateMessageResult(model="none", role="assistant", content=text)


async def elicit(_context, params):
    asked["elicitation"] = plain(params)
    return types.ElicitResult(action="accept", content={"name": "Nobody", "integer": 7})


async def list_roots(_context):
    return types.ListRootsResult(roots=roots)


async def log(params):
    logs.append(plain(params))


async def hear(message):
    message = getattr(message, "root", message)
    if isinstance(message, types.ResourceUpdatedNotification):
        updates.append(plain(message.params))


async def until(probe):
    """Waits for something that comes by itself; the test has the limit."""
    while not (found := await probe()):
        await anyio.sleep(0.02)
    return found


def own(items):
    found = [plain(item) for item in items if item.name.startswith(PREFIX)]
    return [{**item, "name": item["name"][len(PREFIX) :]} for item in found]


async def list_templates(session):
    templates = await session.list_resource_templates()
    return templates.resourceTemplates if FIRST_LINE else templates.resource_templates


async def everything(session, call):
    seen = {}
    seen["prompts"] = own((await session.list_prompts()).prompts)
    seen["resources"] = [plain(one) for one in (await session.list_resources()).resources]
    seen["templates"] = [plain(one) for one in (await list_templates(session))]

    seen["echo"] = await call("echo", message="h\u00e9llo \U0001f40e")
    seen["structured"] = await call("get-structured-content", location="Chicago")
    seen["image"] = await call("get-tiny-image")
    seen["wrong"] = await call("get-sum", a="no number")

    seen["prompt"] = plain(await session.get_prompt(f"{PREFIX}args-prompt", {"city": "Ulm", "state": "BW"}))
    ref = types.PromptReference(type="ref/prompt", name=f"{PREFIX}completable-prompt")
    seen["completion"] = plain(await session.complete(ref, {"name": "department", "value": "S"}))
    seen["read"] = plain(await session.read_resource(URI))

    steps = []

    async def note(progress, total, _message):
        steps.append((progress, total))

    seen["long"] = await call("trigger-long-running-operation", note, duration=0.2, steps=4)
    seen["steps"] = await until(lambda: ready(sorted(steps) if len(steps) == 4 else None))

    with anyio.CancelScope() as scope:

        async def stop(*_progress):
            scope.cancel()

        await call("trigger-long-running-operation", stop, duration=60, steps=600)
    seen["cancelled"] = scope.cancelled_caught
    if FIRST_LINE:
        # It tells the server nothing by itself.
        params = types.CancelledNotificationParams(requestId=session._request_id - 1)
        await session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))

    seen["sampled"] = await call("trigger-sampling-request", prompt="p", maxTokens=10)
    seen["elicited"] = await call("trigger-elicitation-request")
    seen["asked"] = asked

    seen["roots"] = await call("get-roots-list")
    roots.append(types.Root(uri="file:///two", name="two"))
    await session.send_roots_list_changed()

    async def with_new_roots():
        answer = await call("get-roots-list")
        return answer if "file:///two" in answer["content"][0]["text"] else None

    seen["new roots"] = await until(with_new_roots)

    await session.set_logging_level("info")
    await session.subscribe_resource(URI)
    seen["log"] = await until(lambda: ready([one for one in logs if "Received Subscribe" in str(one)]))
    await call("toggle-subscriber-updates")
    seen["update"] = await until(lambda: ready(updates[:1]))
    await session.unsubscribe_resource(URI)
    return seen


async def ready(value):
    return value


async def time(_session, call):
    at = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    return {"converted": await call("convert_time", **at), "wrong": await call("convert_time", **{**at, "time": "soon"})}


async def meet(_session, call):
    """Uses the server, and then holds it until its own input ends."""
    print(json.dumps({"echo": await call("echo", message="together")}), flush=True)
    await anyio.to_thread.run_sync(sys.stdin.read)
    return {}


async def look(_session, _call):
    """Only looks what there is."""
    return {}


async def cut(_session, call):
    """Says when a long call has begun, and then what came of it."""
    steps = []

    async def note(progress, _total, _message):
        steps.append(int(progress))
        if len(steps) == 1:
            print(json.dumps("begun"), flush=True)

    long = await call("trigger-long-running-operation", note, duration=4, steps=8)
    return {"long": long, "steps": await until(lambda: ready(sorted(steps) if len(steps) == 8 else None))}


@asynccontextmanager
async def reach():
    """The way to the server, as a pair of streams."""
    if not COMMAND.startswith("http://"):
        server = StdioServerParameters(command=COMMAND, args=ARGS, env=dict(os.environ))
        async with stdio_client(server) as pipes:
            yield pipes
        return
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    if "/sse" in COMMAND:
        async with sse_client(COMMAND, headers) as streams:
            yield streams
        return
    async with (
        create_mcp_http_client(headers) as http,
        streamable_http_client(COMMAND, http_client=http) as streams,
    ):
        yield streams[:2]


async def main():
    handlers = {
        "sampling_callback": sample,
        "elicitation_callback": elicit,
        "list_roots_callback": list_roots,
        "logging_callback": log,
        "message_handler": hear,
    }
    name = os.environ.get("CLIENT_NAME")
    info = types.Implementation(name=name, version="1.0.0") if name else None
    async with reach() as streams, ClientSession(*streams, client_info=info, **handlers) as session:

        async def call(tool, progress_callback=None, **arguments):
            return plain(await session.call_tool(PREFIX + tool, arguments, progress_callback=progress_callback))

        async def tools():
            # A server that is being started may be missing from the first list.
            return own((await session.list_tools()).tools)

        seen = {"server": plain(await session.initialize())}
        await session.send_ping()
        seen["tools"] = await until(tools)
        plays = {"everything": everything, "time": time, "meet": meet, "cut": cut, "look": look}
        seen.update(await plays[PLAY](session, call))
        print(json.dumps(seen), flush=True)


try:
    anyio.run(main)
except* anyio.BrokenResourceError:
    # The first line fails if a server still speaks while it leaves.
    pass
