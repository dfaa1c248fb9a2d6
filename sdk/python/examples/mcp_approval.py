#!/usr/bin/env python3
"""An MCP server whose tool calls change nothing before a person agrees.

    mcp_approval.py DIRECTORY

Speaks the Model Context Protocol on standard input and output (JSON-RPC 2.0, a
message a line), with one tool: ``shell`` runs a command in DIRECTORY, in a
sandbox without a network. What it changes there is held back. A client that can
ask its user (capability "elicitation") is made to ask: the list of changes, yes
or no. For any other client the call returns while the branch waits under its
name, and somebody types ``sandlock diff NAME`` and ``sandlock commit NAME``.
Calls run side by side; each one waits for its own answer only. One that the
client cancels is killed, and what it has changed is thrown away.
"""
import asyncio
import itertools
import json
import sys

from sandlock import BranchAction, Sandbox, __version__

# The newest is the answer to a client that wants another one.
PROTOCOLS = ("2025-06-18", "2025-03-26", "2024-11-05")
SHELL = {
    "name": "shell",
    "description": "Run a command with sh in the project directory. Its "
                   "changes are published only if the user agrees.",
    "inputSchema": {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
}
TIMEOUT_S = 60
ANSWER_TIMEOUT_S = 600


class Failure(Exception):
    """What JSON-RPC has a number for."""

    def __init__(self, code, message):
        super().__init__(message)
        self.error = {"code": code, "message": message}


class Server:
    def __init__(self, directory, lines, out):
        self.directory = directory
        self.lines = lines
        self.out = out
        self.ids = itertools.count(1)
        self.answers = {}  # id of a request of ours: future of its answer
        self.calls = {}  # id of a tool call: its task
        self.can_ask = False
        self.is_over = False  # nobody can answer any more

    # ------------------------------------------------------------ messages

    def send(self, **message):
        print(json.dumps({"jsonrpc": "2.0", **message}), file=self.out,
              flush=True)

    async def serve(self):
        loop = asyncio.get_running_loop()
        while True:
            line = await loop.run_in_executor(None, self.lines.readline)
            if not line:
                break
            try:
                self.take(line)
            except Failure as e:
                self.send(id=None, error=e.error)
            except (AttributeError, TypeError):
                self.send(id=None, error={
                    "code": -32600, "message": "this is no message of MCP"})
        self.is_over = True
        for answer in self.answers.values():
            answer.cancel()
        if self.calls:
            await asyncio.wait(list(self.calls.values()))

    def take(self, line):
        try:
            message = json.loads(line)
        except ValueError:
            raise Failure(-32700, "this is no JSON") from None
        params = message.get("params") or {}
        if "method" not in message:
            answer = self.answers.get(message.get("id"))
            if answer and not answer.done():
                answer.set_result(message.get("result"))
        elif "id" in message:
            self.dispatch(message["id"], message["method"], params)
        elif message["method"] == "notifications/cancelled":
            call = self.calls.get(params.get("requestId"))
            if call:
                call.cancel()

    def dispatch(self, request, method, params):
        methods = {"initialize": self.initialize, "ping": lambda _: {},
                   "tools/list": lambda _: {"tools": [SHELL]}}
        try:
            if method == "tools/call":
                self.calls[request] = asyncio.ensure_future(
                    self.call(request, self.command_of(params)))
                return
            if method not in methods:
                raise Failure(-32601, f"no {method} here")
            self.send(id=request, result=methods[method](params))
        except Failure as e:
            self.send(id=request, error=e.error)
        except (AttributeError, TypeError):
            self.send(id=request, error={
                "code": -32602, "message": f"{method} takes other things"})

    def initialize(self, params):
        wanted = params.get("protocolVersion")
        self.can_ask = "elicitation" in params.get("capabilities", {})
        return {"protocolVersion": wanted if wanted in PROTOCOLS
                else PROTOCOLS[0], "capabilities": {"tools": {}},
                "serverInfo": {"name": "sandlock-approval",
                               "version": __version__}}

    # --------------------------------------------------------------- calls

    def command_of(self, params):
        if params.get("name") != "shell":
            raise Failure(-32602, f"there is no tool {params.get('name')!r}")
        command = params.get("arguments", {}).get("command")
        if not isinstance(command, str):
            raise Failure(-32602, "shell takes a command")
        return command

    async def call(self, request, command):
        """Of a call that is cancelled nothing more is heard."""
        try:
            text, is_error = await self.shell(command)
        except Exception as e:
            text, is_error = str(e), True
        finally:
            self.calls.pop(request, None)
        self.send(id=request, result={
            "content": [{"type": "text", "text": text}], "isError": is_error})

    async def shell(self, command):
        with Sandbox(workdir=self.directory, on_exit=BranchAction.DEFER,
                     on_error=BranchAction.ABORT) as sandbox:
            try:
                return await self.shell_in(sandbox, command)
            except asyncio.CancelledError:
                if sandbox.pending:
                    sandbox.abort()
                raise

    async def shell_in(self, sandbox, command):
        result = await sandbox.arun(["sh", "-c", command], timeout=TIMEOUT_S)
        text = (result.stdout + result.stderr).decode(errors="replace")
        if result.error:
            return result.error, True
        if not result.success:
            return f"{text}[failed; nothing was changed]", True
        return text + await self.decide(sandbox, result, command), False

    async def decide(self, sandbox, result, command):
        changes = "\n".join(map(str, result.changes))
        if not changes:
            sandbox.abort()
            return ""
        agreed = None
        if self.can_ask and not self.is_over:
            agreed = await self.ask("Publish what this has changed?\n\n"
                                    f"{command}\n\n{changes}")
        if agreed:
            sandbox.commit()
            return f"[published:\n{changes}]"
        if agreed is False:
            sandbox.abort()
            return "[the user refused: nothing was changed]"
        # Leaving "with" keeps what is pending.
        return (f"[waits for approval: sandlock diff {result.name}, then "
                f"sandlock commit {result.name} or sandlock abort "
                f"{result.name}:\n{changes}]")

    async def ask(self, text):
        """True, False, or None if nobody has answered."""
        request = next(self.ids)
        answer = asyncio.get_running_loop().create_future()
        self.answers[request] = answer
        self.send(id=request, method="elicitation/create", params={
            "message": text,
            "requestedSchema": {
                "type": "object",
                "properties": {"publish": {"type": "boolean"}},
                "required": ["publish"],
            }})
        try:
            # The call may be cancelled, and the answer at the end.
            await asyncio.wait([answer], timeout=ANSWER_TIMEOUT_S)
        except asyncio.CancelledError:
            self.send(method="notifications/cancelled",
                      params={"requestId": request})
            raise
        finally:
            del self.answers[request]
        result = answer.result() if answer.done() and \
            not answer.cancelled() else None
        if result is None or result.get("action") == "cancel":
            return None
        return (result.get("action") == "accept"
                and result.get("content", {}).get("publish") is True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: mcp_approval.py DIRECTORY")
    asyncio.run(Server(sys.argv[1], sys.stdin, sys.stdout).serve())
