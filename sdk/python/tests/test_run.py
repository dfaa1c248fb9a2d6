"""Running commands: output, ends, streams, threads, asyncio, pipelines."""
from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import warnings
import weakref

from sandlock import (
    BranchAction, ChildError, ConfinementError, ExitReason, Gather,
    GatherPipeline, Pipeline, PolicyError, Sandbox, SandboxError, StdioMode,
    _run, explain, inspect, kill, list_profiles, load_profile, state,
)

from .place import LIMIT_S, Place, unique

SLEEP = ["sleep", "1000"]


class Runs(Place):
    def test_without_a_workdir_there_is_no_branch_and_any_directory_does(self):
        os.chdir("/")
        result = Sandbox().run(
            ["sh", "-c", "pwd; echo x >/tmp/f && cat /tmp/f"])
        self.assertEqual((result.stdout, result.changes, result.outcome),
                         (b"/\nx\n", [], "none"))
        self.assertEqual(self.stored(), [])

    def test_with_a_workdir_and_no_rule_it_is_as_on_the_command_line(self):
        self.write("f", "text\n")
        result = Sandbox(workdir=self.workdir).run(
            ["sh", "-c", "pwd; cat f; echo new >g"])
        self.assertEqual(result.stdout, f"{self.workdir}\ntext\n".encode())
        self.assertTrue(result.success)
        self.assertEqual(self.read("g"), "new\n")

    def test_a_write_rule_for_the_workdir_does_not_go_past_the_branch(self):
        self.write("f", "old")
        os.mkdir(self.path("d"))
        sandbox = Sandbox(workdir=self.workdir, on_exit=BranchAction.ABORT,
                          fs_writable=[self.workdir, self.path("d")])
        result = sandbox.run(["sh", "-c", "echo new >f; echo new >d/g"])
        self.assertTrue(result.success, result.error)
        self.assertEqual([c.path for c in result.changes], ["d/g", "f"])
        self.assertEqual((self.read("f"), os.listdir(self.path("d"))),
                         ("old", []))

    def test_what_takes_more_than_max_disk_is_killed(self):
        for size in "1M", 1 << 20:
            sandbox = Sandbox(workdir=self.workdir, max_disk=size)
            result = sandbox.run(
                ["sh", "-c", "head -c 3M /dev/zero >f; sleep 1000"])
            self.assertEqual(
                (result.reason, result.over_quota, result.exit_code,
                 result.outcome, os.listdir(self.workdir)),
                (ExitReason.KILLED, True, -1, "aborted", []))
            with self.assertRaisesRegex(Exception, "more than max_disk"):
                result.check()
            result = sandbox.run(["sh", "-c", "echo x >f"])
            self.assertEqual((result.success, result.over_quota),
                             (True, False))
            os.unlink(self.path("f"))
        for bad in "much", 0, "1.5M":
            with self.assertRaises(PolicyError):
                Sandbox(workdir=self.workdir, max_disk=bad).run(
                    ["true"]).check()
        # There is nothing that it is of.
        result = Sandbox(max_disk="1M").run(["true"])
        self.assertIn("there is no branch", result.error)

    def test_a_write_rule_elsewhere_writes_through(self):
        out = os.path.join(self.base, "out")
        os.mkdir(out)
        result = Sandbox(workdir=self.workdir, fs_writable=[out]).run(
            ["sh", "-c", f"echo x >{out}/f"])
        self.assertEqual((result.success, os.listdir(out), result.changes),
                         (True, ["f"], []))

    def test_what_cannot_be_started_is_in_the_result(self):
        result = Sandbox().run(["no-such-program-of-sandlock"])
        self.assertEqual((result.success, result.exit_code), (False, 127))
        self.assertIn("no-such-program-of-sandlock", result.error)
        with self.assertRaises(ChildError) as caught:
            result.check()
        self.assertEqual(caught.exception.kind, "exec_missing")
        result = Sandbox(workdir="/no/such/directory").run(["true"])
        self.assertEqual((result.success, result.exit_code, result.reason),
                         (False, -1, None))
        self.assertIn("/no/such/directory", result.error)

    def test_the_streams_are_ours(self):
        read_fd, write_fd = os.pipe()
        os.write(write_fd, b"from us")
        os.close(write_fd)
        saved = os.dup(0)
        os.dup2(read_fd, 0)
        try:
            result = Sandbox().run(["cat"])
        finally:
            os.dup2(saved, 0)
            os.close(saved)
            os.close(read_fd)
        self.assertEqual(result.stdout, b"from us")

    def test_output_that_is_long_arrives_whole(self):
        result = Sandbox().run(
            ["sh", "-c", "head -c 3000000 /dev/zero; echo err >&2"])
        self.assertEqual((len(result.stdout), result.stderr),
                         (3000000, b"err\n"))
        self.assertFalse(result.truncated)

    def test_ends_are_told_apart(self):
        result = Sandbox().run(["sh", "-c", "kill -SEGV $$"])
        self.assertEqual((result.reason, result.signal, result.exit_code),
                         (ExitReason.SIGNALED, signal.SIGSEGV, -1))
        start = time.monotonic()
        result = Sandbox().run(SLEEP, timeout=0.3)
        self.assertEqual((result.reason, result.success, result.exit_code),
                         (ExitReason.TIMEOUT, False, -1))
        self.assertLess(time.monotonic() - start, LIMIT_S)

    def test_what_helps_to_find_a_fault_is_told_to_who_asks(self):
        with self.assertLogs("sandlock", "DEBUG") as logs:
            Sandbox().run(["true"]).check()
        self.assertIn("ready", "".join(logs.output))

    def test_life_cycle_step_by_step(self):
        sandbox = Sandbox(workdir=self.workdir)
        sandbox.create(["sh", "-c", "echo out; exit 2"])
        self.assertGreater(sandbox.pid, 0)
        self.assertTrue(sandbox.is_running)
        sandbox.start()
        result = sandbox.wait()
        self.assertEqual((result.exit_code, result.stdout), (2, b"out\n"))
        self.assertIsNone(sandbox.pid)
        self.assertFalse(sandbox.is_running)
        self.assertEqual(sandbox.run(["echo", "again"]).stdout, b"again\n")

    def test_one_at_a_time(self):
        with Sandbox() as sandbox:
            sandbox.spawn(SLEEP)
            for call in (sandbox.run, sandbox.spawn, sandbox.popen,
                         sandbox.run_interactive):
                with self.assertRaises(RuntimeError):
                    call(["true"])
            sandbox.kill()
            result = sandbox.wait()
            self.assertEqual((result.success, result.signal),
                             (False, signal.SIGKILL))

    def test_leaving_with_ends_what_runs(self):
        with Sandbox(workdir=self.workdir, name=unique("left")) as sandbox:
            sandbox.spawn(["sh", "-c", "echo x >f; exec sleep 1000"])
            pid = sandbox.pid
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)
        self.assertEqual((self.running(), os.listdir(self.workdir)),
                         ([], []))

    def test_a_dropped_sandbox_ends_what_runs(self):
        sandbox = Sandbox()
        sandbox.spawn(SLEEP)
        pid = sandbox.pid
        del sandbox
        gc.collect()
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)

    def test_kill_from_another_thread_while_one_runs(self):
        sandbox = Sandbox()
        results = []
        thread = threading.Thread(
            target=lambda: results.append(sandbox.run(SLEEP)))
        thread.start()
        self.eventually(lambda: sandbox.pid)
        while thread.is_alive():
            try:
                sandbox.kill()
            except SandboxError:
                pass
            thread.join(0.05)
        self.assertFalse(results[0].success)

    def test_an_interrupt_ends_what_runs(self):
        pids = []

        def interrupt():
            while not sandbox.pid:
                time.sleep(0.01)
            pids.append(sandbox.pid)
            os.kill(os.getpid(), signal.SIGINT)

        sandbox = Sandbox()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            with self.assertRaises(KeyboardInterrupt):
                sandbox.run(SLEEP)
        finally:
            signal.signal(signal.SIGINT, before)
            thread.join()
        self.assertFalse(sandbox.is_running)

    def test_to_start_it_again_is_no_end_of_it(self):
        with Sandbox() as sandbox:
            sandbox.create(["sh", "-c", "sleep 0.1; echo on"])
            sandbox.start()
            with self.assertRaisesRegex(SandboxError, "already"):
                sandbox.start()
            self.assertEqual(sandbox.wait().stdout, b"on\n")

    def test_pause_and_resume(self):
        with Sandbox(fs_writable=[self.workdir]) as sandbox:
            sandbox.spawn(["sh", "-c", f"until [ -e {self.path('go')} ]; "
                           "do sleep 0.05; done; echo on"])
            try:
                sandbox.pause()
            except ConfinementError as e:
                self.skipTest(str(e))
            self.write("go", "")
            time.sleep(0.5)
            self.assertTrue(sandbox.is_running)
            sandbox.resume()
            self.assertEqual(sandbox.wait().stdout, b"on\n")

    def test_other_threads_run_meanwhile(self):
        def let_go():
            self.eventually(lambda: os.path.exists(self.path("out/up")))
            self.write("out/go", "")

        os.mkdir(self.path("out"))
        thread = threading.Thread(target=let_go)
        thread.start()
        result = Sandbox(fs_writable=[self.path("out")]).run(
            ["sh", "-c", f"cd {self.path('out')}; : >up; "
             "until [ -e go ]; do sleep 0.05; done"], timeout=LIMIT_S)
        thread.join()
        self.assertTrue(result.success, result)

    def test_sandboxes_in_many_threads(self):
        failed = []

        def work(number):
            for _ in range(3):
                result = Sandbox(name=unique(f"thread-{number}")).run(
                    ["echo", str(number)])
                if result.stdout != f"{number}\n".encode():
                    failed.append(result)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])

    def test_the_thread_that_started_it_may_end(self):
        sandbox = Sandbox()
        thread = threading.Thread(
            target=sandbox.spawn, args=(["sh", "-c", "sleep 0.5; echo on"],))
        thread.start()
        thread.join()
        self.assertEqual(sandbox.wait().stdout, b"on\n")

    def test_a_name_is_taken_while_it_is_used(self):
        with Sandbox(name=unique("taken")) as first:
            first.spawn(SLEEP)
            result = Sandbox(name=unique("taken"), workdir=self.workdir).run(
                ["sh", "-c", "echo x >f"])
            self.assertFalse(result.success)
            self.assertIn("taken", result.error)
            self.assertEqual(os.listdir(self.workdir), [])
            self.assertTrue(first.is_running)

    def test_without_a_control_socket_nobody_sees_it(self):
        with Sandbox(control_socket=False) as sandbox:
            sandbox.spawn(SLEEP)
            self.assertEqual(self.running(), [])
            sandbox.kill()
            self.assertFalse(sandbox.wait().success)

    def test_the_environment(self):
        os.environ["A_VALUE_OF_OURS"] = "x"
        self.addCleanup(os.environ.pop, "A_VALUE_OF_OURS")
        show = ["sh", "-c", "echo $A-$A_VALUE_OF_OURS"]
        self.assertEqual(Sandbox(env={"A": "b"}).run(show).stdout, b"b-x\n")
        self.assertEqual(Sandbox(env={"A": "b"}, clean_env=True)
                         .run(show).stdout, b"b-\n")

    def test_mounts(self):
        self.write("f", "mounted")
        place = os.path.join(self.base, "inside")
        result = Sandbox(fs_mount_ro={place: self.workdir}).run(
            ["sh", "-c", f"cat {place}/f; echo x >{place}/f"])
        self.assertEqual((result.stdout, result.success), (b"mounted", False))
        result = Sandbox(fs_mount={place: self.workdir}).run(
            ["sh", "-c", f"echo x >{place}/f"])
        self.assertEqual((result.success, self.read("f")), (True, "x\n"))

    def test_run_interactive(self):
        self.assertEqual(
            Sandbox().run_interactive(["sh", "-c", "exit 7"]), 7)
        self.assertEqual(
            Sandbox().run_interactive(["sh", "-c", "kill -TERM $$"]), -1)


class Popen(Place):
    def test_a_forked_child_that_leaves_ends_nothing(self):
        with Sandbox() as sandbox:
            with sandbox.popen(["cat"], stdin=StdioMode.PIPED,
                               stdout=StdioMode.PIPED) as process:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    pid = os.fork()
                if pid == 0:
                    # What leaving both blocks would do.
                    try:
                        process._run.stop()
                        sandbox.__exit__(None, None, None)
                    finally:
                        os._exit(0)
                os.waitpid(pid, 0)
                self.assertEqual(process.stdin.write(b"x\n"), 2)
                process.stdin.flush()
                self.assertEqual(process.stdout.readline(), b"x\n")
                process.stdin.close()
                self.assertTrue(process.wait().success)

    def test_talking_to_it(self):
        sandbox = Sandbox()
        with sandbox.popen(["cat"], stdin=StdioMode.PIPED,
                           stdout=StdioMode.PIPED,
                           stderr=StdioMode.NULL) as process:
            self.assertGreater(process.pid, 0)
            self.assertIsNone(process.stderr)
            for text in (b"one\n", b"two\n"):
                process.stdin.write(text)
                self.assertEqual(process.stdout.read(len(text)), text)
            process.stdin.close()
            self.assertEqual(process.stdout.read(), b"")
            self.assertTrue(process.wait().success)
            self.assertIs(process.wait(), process.wait())
        self.assertEqual(sandbox.run(["echo", "x"]).stdout, b"x\n")

    def test_leaving_with_ends_it(self):
        with Sandbox().popen(SLEEP) as process:
            pid = process.pid
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)

    def test_wait_with_a_timeout_kills(self):
        with Sandbox().popen(SLEEP) as process:
            result = process.wait(timeout=0.2)
            self.assertEqual((result.reason, result.success),
                             (ExitReason.TIMEOUT, False))

    def test_the_sandbox_leaves_it_to_the_process(self):
        sandbox = Sandbox()
        with sandbox.popen(SLEEP) as process:
            for call in (sandbox.wait, sandbox.pause, sandbox.resume):
                with self.assertRaises(RuntimeError):
                    call()
            process.kill()
            process.kill()
            self.assertFalse(process.wait().success)
            process.kill()

    def test_one_that_is_forgotten_is_ended_with_a_warning(self):
        sandbox = Sandbox()
        process = sandbox.popen(SLEEP)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del process
            gc.collect()
        self.assertEqual([w.category for w in caught], [ResourceWarning])
        self.assertFalse(sandbox.is_running)

    def test_one_in_a_cycle_outlives_what_it_runs(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(8):
                sandbox = Sandbox()
                process = sandbox.popen(SLEEP)
                sandbox.__dict__["process"] = process
                process.sandbox = sandbox
                run = weakref.ref(sandbox._run)
                del process, sandbox
                gc.collect()
                self.assertIsNone(run())
        self.eventually(lambda: not self.running())

    def test_changes_come_from_wait(self):
        sandbox = Sandbox(workdir=self.workdir, on_exit=BranchAction.DEFER)
        with sandbox.popen(["sh", "-c", "read x; echo $x >f"],
                           stdin=StdioMode.PIPED) as process:
            process.stdin.write(b"hello\n")
            result = process.wait()
        self.assertEqual([str(c) for c in result.changes], ["A  f"])
        self.assertTrue(sandbox.pending)
        sandbox.commit()
        self.assertEqual(self.read("f"), "hello\n")


class ByName(Place):
    def setUp(self):
        super().setUp()
        self.sandbox = Sandbox(workdir=self.workdir, name=unique("by-name"))
        self.sandbox.spawn(SLEEP)
        self.addCleanup(self.end)
        self.name = self.sandbox.name

    def end(self):
        if self.sandbox.is_running:
            self.sandbox.kill()
            self.sandbox.wait()

    def test_state_and_what_was_asked_for(self):
        found = state(self.name)
        self.assertEqual((found["id"], found["status"]),
                         (self.name, "running"))
        self.assertEqual(inspect(self.name)["program"]["args"], SLEEP)

    def test_what_it_may_do(self):
        [call] = explain(self.name, "mount")
        self.assertEqual((call.what, call.verdict), ("call", "denied"))
        self.assertTrue(call.because)
        read, write = explain(self.name, "/etc/passwd")
        self.assertEqual((read.what, read.verdict), ("read", "allowed"))
        self.assertEqual((write.what, write.verdict), ("write", "denied"))

    def test_it_is_ended(self):
        kill(self.name)
        self.assertEqual(self.sandbox.wait().reason, ExitReason.SIGNALED)
        for ask in (state, inspect, kill, lambda n: explain(n, "mount"),
                    lambda n: kill(n, signal.SIGTERM)):
            with self.assertRaises(SandboxError) as caught:
                ask(self.name)
            self.assertEqual(caught.exception.kind, "not_found")


class Pipelines(Place):
    def test_a_pipeline(self):
        result = (Sandbox().cmd(["printf", "b\\na\\n"])
                  | Sandbox().cmd(["sort"])
                  | Sandbox().cmd(["sh", "-c", "cat; exit 4"])).run()
        self.assertEqual((result.stdout, result.exit_code), (b"a\nb\n", 4))

    def test_one_that_cannot_be_started_ends_all(self):
        result = (Sandbox().cmd(["/nonexistent"]) | Sandbox().cmd(["cat"])
                  ).run()
        self.assertEqual((result.exit_code, result.stdout), (127, b""))
        self.assertIn("/nonexistent", result.error)
        # The other one is gone, not on its way.
        self.assertEqual(self.running(), [])
        with self.assertRaises(ChildProcessError):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def test_output_to_a_descriptor(self):
        read_fd, write_fd = os.pipe()
        sandbox = Sandbox()
        result = (sandbox.cmd(["echo", "x"]) | sandbox.cmd(["cat"])).run(
            stdout=write_fd)
        os.close(write_fd)
        with os.fdopen(read_fd) as file:
            self.assertEqual((file.read(), result.stdout), ("x\n", b""))

    def test_a_reader_that_stops_stops_the_writer(self):
        result = (Sandbox().cmd(["yes"]) | Sandbox().cmd(["head", "-n1"])
                  ).run(timeout=LIMIT_S)
        self.assertEqual((result.success, result.stdout), (True, b"y\n"))

    def test_a_timeout_ends_all(self):
        result = (Sandbox().cmd(SLEEP) | Sandbox().cmd(["cat"])).run(
            timeout=0.3)
        self.assertEqual((result.reason, result.error),
                         (ExitReason.TIMEOUT, "Pipeline timed out"))
        self.assertEqual(self.running(), [])

    def test_a_stage_that_cannot_run_runs_none(self):
        result = (Sandbox(fs_writable=[self.workdir]).cmd(
            ["touch", self.path("f")]) | Sandbox().cmd(["/no/such"])).run()
        self.assertFalse(result.success)
        self.assertIn("/no/such", result.error)
        self.assertEqual(self.running(), [])

    def test_a_gather_has_sources_of_different_names_and_a_stage(self):
        stage = Sandbox().cmd(["cat"])
        a, b = stage.as_("a"), stage.as_("b")
        for bad in (lambda: Gather([]) | stage,
                    lambda: GatherPipeline([], stage),
                    lambda: a + b + stage.as_("a"),
                    lambda: Gather([("a", stage), ("a", stage)]),
                    lambda: GatherPipeline([("a", stage)] * 2, stage),
                    lambda: Gather([("a:b", stage)]),
                    lambda: stage.as_("a\0")):
            with self.assertRaises(ValueError):
                bad()
        for bad in (lambda: stage | 3, lambda: 3 | stage,
                    lambda: stage | a, lambda: (stage | stage) | "x",
                    lambda: a | 3, lambda: (a + b) | (stage | stage),
                    lambda: a + stage, lambda: a + b + 3,
                    lambda: Pipeline([stage, 3]), lambda: Gather([("a", 3)]),
                    lambda: stage.as_(3), lambda: Gather([]) + 3):
            with self.assertRaises(TypeError):
                bad()
        self.assertEqual([name for name, _ in (Gather([]) + a + b).sources],
                         ["a", "b"])

    def test_a_gather_by_name(self):
        consumer = Sandbox(workdir=self.workdir)
        result = (Sandbox().cmd(["echo", "A"]).as_("a")
                  + Sandbox().cmd(["echo", "B"]).as_("b")
                  + Sandbox().cmd(["echo", "C"]).as_("c")
                  | consumer.cmd(["sh", "-c", "echo $_SANDLOCK_GATHER; "
                                  "cat; cat <&4; cat <&3"])).run()
        self.assertEqual(result.stdout, b"a:3,b:4,c:0\nC\nB\nA\n")


class Async(Place):
    def test_runs_side_by_side(self):
        async def main():
            return await asyncio.gather(*(
                Sandbox().arun(["sh", "-c", f"sleep 0.1; echo {n}"])
                for n in range(3)))

        self.assertEqual([r.stdout for r in asyncio.run(main())],
                         [b"0\n", b"1\n", b"2\n"])

    def test_cancelling_kills(self):
        sandbox = Sandbox()

        async def main():
            task = asyncio.ensure_future(sandbox.arun(SLEEP))
            while not sandbox.pid:
                await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        self.assertFalse(sandbox.is_running)

    def test_waiting_for_less_than_forever(self):
        async def main():
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(Sandbox().arun(SLEEP), 0.5)

        asyncio.run(main())

    def test_slices_of_the_main_thread_do_not_end_a_wait(self):
        run = Sandbox()._new_run()
        run.create(["sleep", "2"], _run.INHERIT, _run.NULL, _run.NULL)
        run.start()
        self.assertIsNone(run.wait(0.01))
        self.assertTrue(run.wait().success)




class Chroot(Place):
    def test_another_root_with_and_without_a_branch(self):
        for name in ("bin", "out"):
            os.mkdir(self.path(name))
        shutil.copy2(shutil.which("busybox"), self.path("bin/busybox"))
        command = ["/bin/busybox", "sh", "-c", "echo x >/out/f"]
        result = Sandbox(chroot=self.workdir).run(command)
        self.assertEqual((result.success, os.listdir(self.path("out"))),
                         (False, []), result)
        sandbox = Sandbox(chroot=self.workdir, workdir=self.workdir,
                          fs_writable=["/out"], on_exit=BranchAction.DEFER)
        result = sandbox.run(command)
        self.assertTrue(result.success, result.error or result.stderr)
        self.assertEqual([str(c) for c in result.changes], ["A  out/f"])
        self.assertEqual(os.listdir(self.path("out")), [])
        sandbox.commit()
        self.assertEqual(self.read("out/f"), "x\n")

    def test_a_workdir_in_another_root_is_named_from_inside_or_outside(self):
        for name in ("bin", "out", "other"):
            os.mkdir(self.path(name))
        shutil.copy2(shutil.which("busybox"), self.path("bin/busybox"))
        for workdir in ("/out", self.path("out")):
            sandbox = Sandbox(chroot=self.workdir, workdir=workdir,
                              on_exit=BranchAction.DEFER)
            result = sandbox.run(["/bin/busybox", "sh", "-c",
                                  "echo x >f; pwd; echo x >/other/f; true"])
            self.assertEqual(result.stdout, b"/out\n")
            self.assertIn(b"Read-only", result.stderr)
            self.assertEqual([str(c) for c in result.changes], ["A  f"])
            sandbox.abort()


class Network(Place):
    def test_no_rule_is_no_network_and_ports_are_told(self):
        listen = ["python3", "-c", "import socket, time; "
                  "s = socket.create_server(('127.0.0.1', 8080)); "
                  "print('up', flush=True); time.sleep(1000)"]
        result = Sandbox().run(["python3", "-c", "import socket; "
                                "socket.create_connection(('127.0.0.1', 9))"])
        self.assertFalse(result.success)
        sandbox = Sandbox(net_allow_bind=[8080], port_remap=True)
        with sandbox.popen(listen, stdout=StdioMode.PIPED) as process:
            self.assertEqual(process.stdout.readline(), b"up\n")
            [(inside, real)] = process.ports().items()
            self.assertEqual(inside, 8080)
            socket.create_connection(("127.0.0.1", real), LIMIT_S).close()
        self.assertEqual(sandbox.ports(), {})


class Profiles(Place):
    def setUp(self):
        super().setUp()
        self._set("SANDLOCK_CONFIG_DIR", os.path.join(self.base, "config"))
        self.profiles = os.path.join(self.base, "config", "profiles")
        os.makedirs(self.profiles)

    def profile(self, name, text):
        with open(os.path.join(self.profiles, name + ".toml"), "w") as file:
            file.write(text)

    def test_a_profile_becomes_fields(self):
        self.profile("dev", f"""
            [program]
            args = ["make"]
            env = {{ A = "b" }}
            user = "0:0"
            [filesystem]
            read = ["/"]
            deny = ["/etc/passwd"]
            mount = ["/x:{self.workdir}:ro", "/y:{self.workdir}"]
            on_exit = "defer"
            [config]
            workdir = ["{self.workdir}"]
            [limits]
            memory = "512M"
            timeout = "90s"
            """)
        self.assertEqual(list_profiles(), ["dev"])
        sandbox = load_profile("dev")
        self.assertEqual(sandbox, Sandbox(
            env={"A": "b"}, uid=0, gid=0, fs_readable=["/"],
            fs_denied=["/etc/passwd"], fs_mount={"/y": self.workdir},
            fs_mount_ro={"/x": self.workdir}, workdir=self.workdir,
            on_exit=BranchAction.DEFER, max_memory=sandbox.max_memory,
            timeout=sandbox.timeout))
        result = sandbox.run(["sh", "-c", "echo $A; cat /etc/passwd"])
        self.assertEqual(result.stdout, b"b\n")
        self.assertIn(b"Permission denied", result.stderr)

    def test_the_home(self):
        self._set("HOME", self.base)
        self.profile("home", """
            [filesystem]
            read = ["${HOME}/work"]
            mount = "/x:${HOME}:ro"
            """)
        self.assertEqual(load_profile("home"), Sandbox(
            fs_readable=[self.workdir], fs_mount_ro={"/x": self.base}))

    def test_what_is_wrong_with_one(self):
        with self.assertRaisesRegex(PolicyError, "no profile 'gone'"):
            load_profile("gone")
        self.profile("twice", """
            [filesystem]
            mount = ["/x:/a", "/x:/b:ro"]
            """)
        with self.assertRaisesRegex(PolicyError, "more than once"):
            load_profile("twice")

    def test_a_bad_one_says_where(self):
        self.profile("bad", "[limits]\nmemory = true\n")
        with self.assertRaisesRegex(PolicyError, "bad.toml:2"):
            load_profile("bad")


class Confine(Place):
    def confined(self, statements, **fields):
        """Output of a process that confines itself first."""
        script = (f"import sandlock\nfrom sandlock import Sandbox\n"
                  f"sandlock.confine(Sandbox(**{fields!r}))\n{statements}")
        process = self.python("-c", script, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        return process.communicate(timeout=LIMIT_S)[0].decode()

    def test_files(self):
        self.write("f", "text")
        other = os.path.join(self.base, "other")
        out = self.confined(
            f"print(open({self.path('f')!r}).read())\n"
            f"open({other!r}, 'w')",
            fs_readable=["/usr", "/lib", self.workdir])
        self.assertIn("text\n", out)
        self.assertIn("PermissionError", out)
        self.assertFalse(os.path.exists(other))

    def test_what_would_mean_nothing_is_refused(self):
        for fields in ({"max_memory": "1G"}, {"workdir": self.workdir},
                       {"port_remap": True}):
            self.assertIn("ConfinementError", self.confined("", **fields))
