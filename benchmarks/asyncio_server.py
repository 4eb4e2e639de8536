"""A server of asyncio's streams for `asyncio_tasks`: a task for each connection, and one for each request.

``asyncio_server.py PORT [tasks]``: with ``tasks``, headway's tasks are made of asyncio's.
"""

from __future__ import annotations

import asyncio
import json
import sys

BODY = {"items": [{"id": i, "name": f"item {i}"} for i in range(20)]}


async def answer(text: bytes) -> bytes:
    """Do some of what a server of a small interface does: read JSON, wait once, write JSON."""
    asked = json.loads(text)
    await asyncio.sleep(0)
    return json.dumps({**BODY, "asked": asked}).encode() + b"\n"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of a connection, one line each."""
    while line := await reader.readline():
        writer.write(await asyncio.create_task(answer(line)))
        await writer.drain()
    writer.close()


async def main() -> None:
    """Serve until killed."""
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    async with server:
        print("ready", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    if "tasks" in sys.argv[2:]:
        import headway.asyncio

        headway.asyncio.install()
    asyncio.run(main())
