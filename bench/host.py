"""Rows of bench/run for commands of the host: `run -- CMD` and its branch."""
import os
import shutil
import subprocess
import time

# Prints the nanoseconds that $1 takes, without the start of a shell, when $2
# has run before it.
TIMED = ("eval \"$2\" >/dev/null 2>&1; s=${EPOCHREALTIME/./}; "
         "eval \"$1\" >/dev/null 2>&1 || exit 1; "
         "echo $(((${EPOCHREALTIME/./} - s) * 1000))")
IDLE = 1000


class Host:
    def __init__(self, bench, program):
        self.bench = bench
        self.program = program
        self.top = os.path.join(bench.work, "host")

    def spawner(self, directory):
        """Children of it work in @directory."""
        return self.bench.spawner(("env", "-C", directory))

    def start(self):
        """The start of a command, with a branch over where it works."""
        bench, empty = self.bench, os.path.join(self.top, "empty")
        os.makedirs(empty, exist_ok=True)
        here = self.spawner(empty)
        for i in range(bench.rounds(30) + 2):
            row = {"sandlock": here.run([self.program, "run", "--", "true"])}
            if bench.have_bwrap:
                row["bwrap"] = here.run(["bwrap", "--unshare-all", "--ro-bind",
                                         "/", "/", "true"])
            if bench.rust_cli:
                row["rust"] = here.run([bench.rust_cli, "run", "-r", "/",
                                        "--", "true"])
                row["rust, branch"] = here.run(
                    [bench.rust_cli, "run", "-r", "/", "--workdir", empty,
                     "--on-exit", "abort", "--", "true"], check=False)
            if i >= 2:
                for who, ms in row.items():
                    bench.put("run -- true", who, ms)

    # ------------------------------------------------- work in a branch --

    def timed(self, argv, directory, text, before):
        out = subprocess.run(
            argv + ["bash", "-c", TIMED, "bash", text, before], cwd=directory,
            env=self.bench.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if out.returncode:
            raise RuntimeError("%s: %s" % (text, out.stderr.decode()[-200:]))
        return int(out.stdout.split()[-1]) / 1e6

    def compare(self, row, directory, text, reset="true", before="true"):
        """@text in a branch and plainly, each from the same state, where
        @before has run in the same branch."""
        inside = [self.program, "run", "--on-exit=abort", "--on-error=abort",
                  "--"]
        for i in range(self.bench.rounds(5) + 1):
            subprocess.run(["sh", "-c", reset], cwd=directory, check=True)
            branch = self.timed(inside, directory, text, before)
            self.bench.drain()
            plain = self.timed([], directory, text, before)
            subprocess.run(["sh", "-c", reset], cwd=directory, check=True)
            if i:
                self.bench.put(row, "sandlock", branch)
                self.bench.put(row, "native", plain)

    def make(self):
        tree = os.path.join(self.top, "make")
        os.makedirs(tree)
        for i in range(100):
            with open("%s/f%02d.c" % (tree, i), "w") as file:
                file.write("#include <stdio.h>\n"
                           "int f%d(int x) { return printf(\"%%d\", x); }\n"
                           % i)
        with open(tree + "/Makefile", "w") as file:
            file.write("all: $(patsubst %.c,%.o,$(wildcard *.c))\n")
        self.compare("make of 100 files", tree, "make -j2", "rm -f *.o")

    def git(self):
        if not shutil.which("git"):
            return
        tree = os.path.join(self.top, "git")
        self.bench.make_tree(tree, 5000)
        text = ("git init -q && git add -A && git -c user.name=b "
                "-c user.email=b@localhost commit -qm all")
        subprocess.run(["sh", "-c", text], cwd=tree, check=True)
        # Outside the kernel knows the files from the run before. So it does
        # inside from the second on; at the first a mount is new.
        look = "git status --porcelain"
        self.compare("git status", tree, look, before=look)
        self.compare("git status, first", tree, look)

    def read(self):
        tree = os.path.join(self.top, "read")
        self.bench.make_tree(tree, 20000)
        self.compare("read 20,000 files", tree, "cat */*")

    def untar(self):
        tree = os.path.join(self.top, "untar")
        self.bench.make_tree(tree, 5000)
        subprocess.run(["sh", "-c", "tar cf all.tar [0-9]* && rm -r [0-9]*"],
                       cwd=tree, check=True)
        self.compare("untar of 5,000 files", tree, "tar xf all.tar",
                     "rm -rf [0-9]*")

    def work(self):
        for step in (self.make, self.git, self.read, self.untar):
            step()
            shutil.rmtree(self.top)
            os.makedirs(self.top)

    # ------------------------------------------------------ supervisors --

    def started(self, name):
        path = os.path.join(self.bench.run_dir, name, "control.sock")
        for _ in range(1000):
            if os.path.exists(path):
                return
            time.sleep(0.01)
        raise RuntimeError("'%s' did not start" % name)

    def idle(self, name, *options):
        directory = os.path.join(self.top, name)
        os.makedirs(directory)
        proc = subprocess.Popen(
            [self.program, "run", "--name", name, *options, "--", "sleep",
             "100000"], cwd=directory, env=self.bench.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        return proc

    def memory(self, smaps):
        """Of what stays behind while a command idles, beside another one."""
        procs = [self.idle("memory%d" % i) for i in range(2)]
        try:
            for i in range(2):
                self.started("memory%d" % i)
            time.sleep(1)
            self.bench.put("supervisor private KiB", "sandlock",
                           smaps(procs[0].pid, ("Private_Dirty",
                                                "Private_Clean")))
            self.bench.put("supervisor threads", "sandlock",
                           len(os.listdir("/proc/%d/task" % procs[0].pid)))
        finally:
            for proc in procs:
                proc.terminate()
                proc.wait()

    def listing(self):
        """ps of many idle sandboxes."""
        n = IDLE if not self.bench.options.quick else IDLE // 10
        procs = []
        try:
            for i in range(n):
                procs.append(self.idle("idle%d" % i))
                if i % 20 == 19:
                    self.started("idle%d" % i)
            self.started("idle%d" % (n - 1))
            time.sleep(1)
            for _ in range(self.bench.rounds(10)):
                self.bench.put("ps of %d" % n, "sandlock",
                               self.bench.native.run([self.program, "ps"]))
        finally:
            for proc in procs:
                proc.terminate()
            for proc in procs:
                proc.wait()

    def targets(self, ratio):
        m = self.bench.median
        rows = [
            ratio("run -- true", "bwrap", 1.0),
            ratio("run -- true", "rust", 0.6),
            ratio("run -- true", "rust, branch", 0.6),
            ratio("make of 100 files", "native", 1.1),
            ratio("git status", "native", 1.3),
            ratio("read 20,000 files", "native", 2.2),
            ratio("untar of 5,000 files", "native", 2.0),
        ]
        for row, limit, unit in (("supervisor private KiB", 1024, "KiB"),
                                 ("supervisor threads", 1, ""),
                                 ("ps of %d" % IDLE, 100, "ms")):
            if m(row, "sandlock") is not None:
                rows.append((row, m(row, "sandlock"), limit, unit))
        return rows
