"""Rows of bench/run for the APIs: `true` from a process that stays."""
import os
import re
import subprocess
import sys

RUNS = int(os.environ.get("SANDLOCK_LEAK_RUNS", "1000"))

# One run for each line of standard input. $1 is where the module is.
PYTHON = """
import sys, time
sys.path.insert(0, sys.argv[1])
from sandlock import Sandbox
for line in sys.stdin:
    begin = time.perf_counter_ns()
    result = Sandbox(fs_readable=["/"]).run(["true"])
    took = time.perf_counter_ns() - begin
    if not result.success:
        sys.exit(str(result))
    print(took, flush=True)
"""


# The same, but a handler answers calls of "$2 loop $3", which prints its time.
PYTHON_HANDLER = """
import platform, sys
sys.path.insert(0, sys.argv[1])
from sandlock import Handler, NotifAction, Sandbox
class Answers(Handler):
    def handle(self, ctx):
        return NotifAction.returns(1)
getppid = 110 if platform.machine() == "x86_64" else 173
for line in sys.stdin:
    result = Sandbox(fs_readable=["/"]).run_with_handlers(
        [sys.argv[2], "loop", sys.argv[3]], [(getppid, Answers())])
    if not result.success:
        sys.exit(str(result))
    print(int(result.stdout), flush=True)
"""

CALLS = "1000"
# Microseconds.
OPEN = "an open, a callback: us"


class Embedder:
    def __init__(self, argv, directory, env):
        self.proc = subprocess.Popen(
            argv, cwd=directory, env=env, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self):
        """Milliseconds."""
        try:
            self.proc.stdin.write(b"\n")
            self.proc.stdin.flush()
        except BrokenPipeError:
            pass
        line = self.proc.stdout.readline()
        if not line:
            raise RuntimeError(self.proc.stderr.read().decode()[-300:])
        return int(line) / 1e6

    def close(self):
        self.proc.stdin.close()
        self.proc.wait()
        self.proc.stdout.close()
        self.proc.stderr.close()


class Sdk:
    def __init__(self, bench, program, build, repo, peers):
        self.bench = bench
        self.program = program
        self.api = os.path.join(build, "bench", "api")
        self.notify = os.path.join(build, "bench", "notify")
        self.ours = os.path.join(repo, "sdk", "python")
        self.library = os.path.join(build, "libsandlock.so")
        # make bench-peers
        self.rust = os.path.join(os.path.dirname(peers), "python")
        self.top = os.path.join(bench.work, "sdk")

    def env(self):
        return dict(self.bench.env, SANDLOCK_PROGRAM=self.program,
                    SANDLOCK_LIBRARY=self.library)

    def embedders(self, script, words, in_c):
        if not os.access(self.api, os.X_OK):
            raise RuntimeError("'%s' is missing: run make bench" % self.api)
        argv = {"C API": [self.api] + in_c}
        for who, where in (("python", self.ours), ("python rust", self.rust)):
            if os.path.isdir(os.path.join(where, "sandlock")):
                argv[who] = [sys.executable, "-c", script, where] + words
        return {who: Embedder(a, self.top, self.env())
                for who, a in argv.items()}

    def true(self):
        """`true`, by the command line and by embedders."""
        os.makedirs(self.top, exist_ok=True)
        cli = self.bench.spawner(("env", "-C", self.top))
        embedders = self.embedders(PYTHON, [], ["serve"])
        try:
            for i in range(self.bench.rounds(40) + 2):
                row = {"sandlock": cli.run([self.program, "run", "--on-exit",
                                            "commit", "--", "true"])}
                for who, embedder in list(embedders.items()):
                    self.one(row, who, embedder, embedders)
                if i >= 2:
                    for who, ms in row.items():
                        self.bench.put("true by API", who, ms)
        finally:
            for embedder in embedders.values():
                embedder.close()

    def handlers(self):
        """Calls that a handler answers, by embedders."""
        os.makedirs(self.top, exist_ok=True)
        embedders = self.embedders(PYTHON_HANDLER, [self.api, CALLS],
                                   ["handler", CALLS])
        try:
            for _ in range(self.bench.rounds(10)):
                row = {}
                for who, embedder in list(embedders.items()):
                    self.one(row, who, embedder, embedders)
                for who, ms in row.items():
                    self.bench.put(CALLS + " calls to a handler", who, ms)
        finally:
            for embedder in embedders.values():
                embedder.close()

    def policy(self):
        """Opens that a callback is asked about, against a bare loop."""
        if not os.access(self.notify, os.X_OK):
            raise RuntimeError("'%s' is missing: run make bench" % self.notify)
        out = subprocess.run([self.notify, "policy"], text=True,
                             env=self.env(), stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT).stdout
        times = re.search(r"bare +([\d.]+) us +ours +([\d.]+) us", out)
        if not times:
            raise RuntimeError(out.strip()[-300:])
        self.bench.put(OPEN, "bare", float(times[1]))
        self.bench.put(OPEN, "C API", float(times[2]))

    def one(self, row, who, embedder, embedders):
        """One that cannot do it here is left out, and said so."""
        try:
            row[who] = embedder.run()
        except RuntimeError as err:
            self.bench.errors.append("%s is left out: %s" % (who, err))
            embedders.pop(who).close()

    def leaks(self):
        os.makedirs(self.top, exist_ok=True)
        root = os.path.join(self.top, "run")
        runs = RUNS if not self.bench.options.quick else RUNS // 10
        out = subprocess.run(
            [self.api, "leak", str(runs)], cwd=self.top, text=True,
            env=dict(self.env(), SANDLOCK_ROOT=root,
                     SANDLOCK_STORE=os.path.join(self.top, "store")),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.bench.errors.append(out.stdout.strip().replace("\n", "; "))
        self.bench.put("leaks of %d runs" % RUNS, "C API",
                       float(out.returncode != 0))

    def targets(self, ratio):
        row = "leaks of %d runs" % RUNS
        leaks = self.bench.median(row, "C API")
        rows = [
            ratio("true by API", "sandlock", 1.2, "C API"),
            ratio("true by API", "python rust", 0.8, "python"),
            ratio(OPEN, "bare", 3.0, "C API"),
        ]
        if leaks is not None:
            rows.append((row, leaks, 0, ""))
        return rows
