#!/usr/bin/env python3
"""Files that are nowhere: what is opened below /secrets comes from a (slow)
vault, and the command is the only one that ever has it."""
import asyncio
import errno

from sandlock import ExceptionPolicy, Handler, NotifAction, Sandbox

VAULT = {"token": b"s3cret\n"}


class Secrets(Handler):
    on_exception = ExceptionPolicy.DENY_EIO

    # A coroutine holds up nobody but the caller while it waits.
    async def handle(self, ctx):
        path = ctx.read_path()
        if path is None or not path.startswith("/secrets/"):
            return NotifAction.continue_()
        await asyncio.sleep(0.05)
        name = path[len("/secrets/"):]
        if name not in VAULT:
            return NotifAction.errno(errno.ENOENT)
        return NotifAction.inject_bytes(VAULT[name])


secrets = Secrets()
result = Sandbox(handlers=[("openat", secrets), ("open", secrets)]).run(
    ["sh", "-c", "cat /secrets/token; cat /secrets/none || echo no such secret"])
print(result.check().stdout.decode(), end="")
