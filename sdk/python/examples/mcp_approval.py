#!/usr/bin/env python3
"""An MCP server whose tool calls change nothing before a person agrees.

    mcp_approval.py DIRECTORY

Speaks the Model Context Protocol on standard input and output (JSON-RPC 2.0, a
message a line), with one tool: ``shell`` runs a command in DIRECTORY, in a
sandbox without a network. What it changes there is held back. A client that can
ask its user (capability "elicitation") is made to ask: the list of changes, yes
or no. For any other client the call returns while the branch waits under its
name, and somebody types ``sandlock diff NAME`` and ``sandlock commit NAME``.
Calls run side by side; each one waits for its own answer only.
"""
import itertools
import json
import queue
import sys
import threading

from sandlock import BranchAction, Sandbox, __version__

PROTOCOL = "2025-06-18"
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


class Server:
    def __init__(self, directory, lines, out):
        self.directory = directory
        self.lines = lines
        self.out = out
        self.out_lock = threading.Lock()
        self.ids = itertools.count(1)
        self.answers = {}  # id of a request of ours: queue for its answer
        self.can_ask = False
        self.is_over = False  # nobody can answer any more
        self.calls = []

    # ------------------------------------------------------------ messages

    def send(self, **message):
        text = json.dumps({"jsonrpc": "2.0", **message})
        with self.out_lock:
            print(text, file=self.out, flush=True)

    def serve(self):
        for line in self.lines:
            try:
                message = json.loads(line)
            except ValueError:
                self.send(id=None, error={"code": -32700,
                                          "message": "this is no JSON"})
                continue
            if "method" in message:
                self.dispatch(message)
            else:
                self.take_answer(message)
        self.is_over = True
        for answer in list(self.answers.values()):
            answer.put(None)
        for call in self.calls:
            call.join()

    def dispatch(self, message):
        methods = {"initialize": self.initialize, "ping": lambda _: {},
                   "tools/list": lambda _: {"tools": [SHELL]}}
        method, params = message["method"], message.get("params") or {}
        if "id" not in message:
            return  # a notification
        if method == "tools/call":
            call = threading.Thread(target=self.call,
                                    args=(message["id"], params))
            self.calls.append(call)
            call.start()
        elif method in methods:
            self.send(id=message["id"], result=methods[method](params))
        else:
            self.send(id=message["id"],
                      error={"code": -32601, "message": f"no {method} here"})

    def initialize(self, params):
        self.can_ask = "elicitation" in params.get("capabilities", {})
        return {"protocolVersion": PROTOCOL, "capabilities": {"tools": {}},
                "serverInfo": {"name": "sandlock-approval",
                               "version": __version__}}

    # ------------------------------------------------------------ approval

    def take_answer(self, message):
        answer = self.answers.pop(message.get("id"), None)
        if answer:
            answer.put(message.get("result"))

    def ask(self, text):
        """True, False, or None if nobody has answered."""
        request, answer = next(self.ids), queue.Queue()
        self.answers[request] = answer
        if self.is_over:
            return None
        self.send(id=request, method="elicitation/create", params={
            "message": text,
            "requestedSchema": {
                "type": "object",
                "properties": {"publish": {"type": "boolean"}},
                "required": ["publish"],
            }})
        try:
            result = answer.get(timeout=ANSWER_TIMEOUT_S)
        except queue.Empty:
            self.answers.pop(request, None)
            return None
        if result is None or result.get("action") == "cancel":
            return None
        return (result.get("action") == "accept"
                and result.get("content", {}).get("publish") is True)

    def call(self, request, params):
        command = params.get("arguments", {}).get("command")
        if params.get("name") != "shell" or not isinstance(command, str):
            self.send(id=request, error={"code": -32602,
                                         "message": "shell takes a command"})
            return
        try:
            text, is_error = self.shell(command)
        except Exception as e:
            text, is_error = str(e), True
        self.send(id=request, result={
            "content": [{"type": "text", "text": text}], "isError": is_error})

    def shell(self, command):
        with Sandbox(workdir=self.directory, on_exit=BranchAction.DEFER,
                     on_error=BranchAction.ABORT) as sandbox:
            result = sandbox.run(["sh", "-c", command], timeout=TIMEOUT_S)
            text = (result.stdout + result.stderr).decode(errors="replace")
            if result.error:
                return result.error, True
            if not result.success:
                return f"{text}[failed; nothing was changed]", True
            return text + self.decide(sandbox, result, command), False

    def decide(self, sandbox, result, command):
        changes = "\n".join(map(str, result.changes))
        if not changes:
            sandbox.abort()
            return ""
        agreed = None
        if self.can_ask:
            agreed = self.ask(f"Publish what this has changed?\n\n"
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


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: mcp_approval.py DIRECTORY")
    Server(sys.argv[1], sys.stdin, sys.stdout).serve()
