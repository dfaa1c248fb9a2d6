"""examples/mcp_approval.py, driven by clients."""
from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import unittest

import sandlock
from sandlock import branches

from .place import EXAMPLES, LIMIT_S, PACKAGE
from .test_branch import CHANGE, Branch


class Mcp(Branch):
    """The server of examples/mcp_approval.py and a client of ours."""

    def setUp(self):
        super().setUp()
        self.server = self.python(
            os.path.join(EXAMPLES, "mcp_approval.py"), self.workdir,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.finish)

    def finish(self):
        self.server.stdin.close()
        self.assertEqual(self.server.wait(LIMIT_S), 0)
        self.server.stdout.close()

    def send(self, **message):
        self.server.stdin.write(json.dumps(message) + "\n")
        self.server.stdin.flush()

    def receive(self):
        return json.loads(self.server.stdout.readline())

    def begin(self, **capabilities):
        self.send(id=1, method="initialize",
                  params={"capabilities": capabilities})
        self.assertEqual(self.receive()["result"]["serverInfo"]["version"],
                         sandlock.__version__)
        self.send(method="notifications/initialized")
        self.send(id=2, method="tools/list")
        self.assertEqual([t["name"] for t in
                          self.receive()["result"]["tools"]], ["shell"])

    def call(self, request, command):
        self.send(id=request, method="tools/call", params={
            "name": "shell", "arguments": {"command": command}})

    def answer(self, question, **result):
        self.assertEqual(question["method"], "elicitation/create")
        self.assertIn("A  new", question["params"]["message"])
        self.send(id=question["id"], result=result)

    def test_the_user_agrees_or_refuses(self):
        self.begin(elicitation={})
        self.call(10, CHANGE[2])
        question = self.receive()
        self.check_untouched()
        # Others are served while one waits.
        self.call(11, "echo hello")
        reply = self.receive()
        self.assertEqual((reply["id"], reply["result"]["content"][0]["text"]),
                         (11, "hello\n"))
        self.answer(question, action="decline")
        self.assertIn("refused",
                      self.receive()["result"]["content"][0]["text"])
        self.check_untouched()
        self.call(12, CHANGE[2])
        self.answer(self.receive(), action="accept",
                    content={"publish": True})
        self.assertIn("published",
                      self.receive()["result"]["content"][0]["text"])
        self.check_published()

    def test_a_client_that_cannot_ask_leaves_it_to_the_command_line(self):
        self.begin()
        self.call(10, CHANGE[2])
        text = self.receive()["result"]["content"][0]["text"]
        self.check_untouched()
        [branch] = branches()
        self.assertIn(f"sandlock commit {branch.name}", text)
        branch.commit()
        self.check_published()

    def test_a_failing_call_changes_nothing(self):
        self.begin(elicitation={})
        self.call(10, CHANGE[2] + "; exit 3")
        self.assertTrue(self.receive()["result"]["isError"])
        self.check_untouched()

    def test_what_is_no_message_of_the_protocol(self):
        self.server.stdin.write("what\n")
        self.server.stdin.flush()
        self.assertEqual(self.receive()["error"]["code"], -32700)
        self.send(id=5, method="no/such")
        self.assertEqual(self.receive()["error"]["code"], -32601)
        for request, params in enumerate((
                {"name": "other"}, {"name": "shell"},
                {"name": "shell", "arguments": ["command"]}, ["shell"])):
            self.send(id=request, method="tools/call", params=params)
            answer = self.receive()
            self.assertEqual((answer["id"], answer["error"]["code"]),
                             (request, -32602))
        for text in ("[]", "3", '{"id": [], "method": "tools/call"}',
                     '{"id": {}, "result": {}}'):
            self.server.stdin.write(text + "\n")
            self.server.stdin.flush()
            self.assertIn(self.receive()["error"]["code"], (-32600, -32602))

    def cancel(self, request):
        self.send(method="notifications/cancelled",
                  params={"requestId": request})

    def test_a_call_that_is_cancelled_while_it_runs(self):
        self.begin()
        self.call(10, "echo x >changed; sleep 1000")
        self.eventually(lambda: self.running() and self.stored())
        self.cancel(10)
        self.cancel("of nobody")
        self.call(11, "echo hello")
        self.assertEqual(self.receive()["id"], 11)
        self.eventually(lambda: not self.running() and not self.stored())
        self.check_untouched()

    def test_a_call_that_is_cancelled_while_its_user_is_asked(self):
        self.begin(elicitation={})
        self.call(10, CHANGE[2])
        question = self.receive()
        self.cancel(10)
        cancelled = self.receive()
        self.assertEqual((cancelled["method"], cancelled["params"]),
                         ("notifications/cancelled",
                          {"requestId": question["id"]}))
        # An answer that comes too late decides nothing.
        self.answer(question, action="accept", content={"publish": True})
        self.eventually(lambda: not self.stored())
        self.check_untouched()

    def test_a_client_that_goes_leaves_it_pending(self):
        self.begin(elicitation={})
        self.call(10, CHANGE[2])
        self.receive()
        self.server.stdin.close()
        self.assertIn("sandlock commit", self.receive()["result"]["content"]
                      [0]["text"])
        self.check_untouched()
        [branch] = branches()
        branch.commit()
        self.check_published()


@unittest.skipUnless(importlib.util.find_spec("mcp"), "pip install 'mcp>=2'")
class McpClient(Branch):
    """The same server and the client of the protocol's own project."""

    def test_what_a_client_does(self):
        asyncio.run(asyncio.wait_for(self.connect(), LIMIT_S))
        self.check_published()

    async def connect(self):
        from mcp import ClientSession, StdioServerParameters, stdio_client
        from mcp.types import ElicitResult

        answers = iter((
            ElicitResult(action="decline"),
            ElicitResult(action="accept", content={"publish": True})))

        async def ask(_context, params):
            self.assertIn("A  new", params.message)
            return next(answers)

        server = StdioServerParameters(
            command=sys.executable,
            args=[os.path.join(EXAMPLES, "mcp_approval.py"), self.workdir],
            env={**os.environ, "PYTHONPATH": PACKAGE})
        async with stdio_client(server) as streams, \
                ClientSession(*streams, elicitation_callback=ask) as session:
            await self.talk(session)

    async def talk(self, session):
        from mcp import MCPError

        hello = await session.initialize()
        self.assertEqual(hello.server_info.name, "sandlock-approval")
        await session.send_ping()
        tools = await session.list_tools()
        self.assertEqual([t.name for t in tools.tools], ["shell"])
        for name, arguments in (("other", {}), ("shell", {})):
            with self.assertRaises(MCPError) as caught:
                await session.call_tool(name, arguments)
            self.assertEqual(caught.exception.error.code, -32602)
        failed = await session.call_tool("shell", {"command": "exit 3"})
        self.assertTrue(failed.is_error)
        waits = asyncio.ensure_future(
            session.call_tool("shell", {"command": "sleep 1000"}))
        while not self.running():
            await asyncio.sleep(0.01)
        waits.cancel()
        while self.running():
            await asyncio.sleep(0.01)
        for said in ("refused", "published"):
            result = await session.call_tool("shell", {"command": CHANGE[2]})
            self.assertIn(said, result.content[0].text)
