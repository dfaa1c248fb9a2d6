package sandlock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func (w *world) sandbox() *Sandbox {
	return &Sandbox{Workdir: w.work, Host: w.Host}
}

// deferred is a sandbox whose success waits for a decision.
func (w *world) deferred() *Sandbox {
	sb := w.sandbox()
	sb.OnExit = BranchActionDefer
	return sb
}

func (w *world) run(sb *Sandbox, script string) *Result {
	w.Helper()
	res, err := sb.Run(background, "sh", "-c", script)
	must(w, err)
	return res
}

// branchNames are those of the store.
func (w *world) branchNames() []string {
	w.Helper()
	list, err := w.Branches()
	must(w, err)
	names := []string{}
	for _, b := range list {
		names = append(names, b.Name)
	}
	return names
}

// SEEDS row 1.
func TestApproved(t *testing.T) {
	w := newWorld(t)
	w.write("f", "old\n")
	sb := w.deferred()
	defer sb.Close()
	w.run(sb, "echo new >f; printf 'a\\000b' >g")
	expect(t, "pending", sb.Pending(), true)
	w.expectTree(map[string]string{"f": "old\n"})
	dir, err := sb.UpperDir()
	must(t, err)
	text, err := os.ReadFile(dir + "/f")
	must(t, err)
	expect(t, "in the upper directory", string(text), "new\n")

	must(t, sb.Commit(background))
	expect(t, "pending", sb.Pending(), false)
	w.expectTree(map[string]string{"f": "new\n", "g": "a\x00b"})
	expect(t, "branches", w.branchNames(), []string{})
	_, err = sb.UpperDir()
	expectIs(t, err, ErrState)
}

// SEEDS row 1.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	w.write("f", "old\n")
	before, err := os.Stat(w.work + "/f")
	must(t, err)
	sb := w.deferred()
	defer sb.Close()
	w.run(sb, "echo new >f")
	dir, err := sb.UpperDir()
	must(t, err)
	must(t, sb.Abort())
	w.expectTree(map[string]string{"f": "old\n"})
	after, err := os.Stat(w.work + "/f")
	must(t, err)
	expect(t, "time", after.ModTime(), before.ModTime())
	_, err = os.Stat(dir)
	expectIs(t, err, os.ErrNotExist)
}

// SEEDS row 7.
func TestDroppedWhilePending(t *testing.T) {
	w := newWorld(t)
	sb := w.deferred()
	sb.Name = "dropped"
	w.run(sb, "echo x >f")
	must(t, sb.Close())
	expect(t, "pending", sb.Pending(), false)
	w.expectTree(map[string]string{})
	expect(t, "branches", w.branchNames(), []string{"dropped"})
	_, err := w.Commit(background, "dropped", CommitOptions{})
	must(t, err)
	w.expectTree(map[string]string{"f": "x\n"})
}

// embed runs this test in a process of its own, which says what it has done.
func embed(t *testing.T, w *world) (cmd *exec.Cmd, line string) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "SLGO_DIR="+w.dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	line, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Process.Kill()
		t.Fatalf("the embedder said %q: %v", line, err)
	}
	return cmd, strings.TrimSpace(line)
}

// embedded is the world of the process that embed started, nil outside of it.
func embedded(t *testing.T) *world {
	dir := os.Getenv("SLGO_DIR")
	if dir == "" {
		return nil
	}
	return &world{TB: t, dir: dir, work: dir + "/work", Host: Host{
		Root: dir + "/run", Store: dir + "/store", Program: program(t),
	}}
}

// SEEDS row 7.
func TestEmbedderKilledWhilePending(t *testing.T) {
	if w := embedded(t); w != nil {
		sb := w.deferred()
		w.run(sb, "echo x >f")
		fmt.Println("pending")
		select {}
	}
	w := newWorld(t)
	cmd, _ := embed(t, w)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	w.expectTree(map[string]string{})
	names := w.branchNames()
	expect(t, "number of branches", len(names), 1)
	_, err := w.Commit(background, names[0], CommitOptions{})
	must(t, err)
	w.expectTree(map[string]string{"f": "x\n"})
}

func TestEmbedderKilledWhileRunning(t *testing.T) {
	if w := embedded(t); w != nil {
		p, err := w.sandbox().Popen(Stdio{Stdout: StdioPiped}, "sh",
			"-c", "echo x >f; echo; exec sleep 1000")
		must(t, err)
		_, err = p.Stdout.Read(make([]byte, 1))
		must(t, err)
		fmt.Println(p.Pid())
		select {}
	}
	w := newWorld(t)
	cmd, pid := embed(t, w)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	eventually(t, "the command is dead", func() bool {
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		return err != nil || strings.Contains(string(text), ") Z ")
	})
	w.expectTree(map[string]string{})
	names := w.branchNames()
	expect(t, "number of branches", len(names), 1)
	eventually(t, "the branch is kept", func() bool {
		return w.Abort(names[0]) == nil
	})
}

// SEEDS row 14.
func TestOnErrorHasItsOwnAction(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		script  string
		reason  ExitReason
		pending bool
	}{
		{"echo x >f", ReasonExited, true},
		{"echo x >f; exit 3", ReasonExited, false},
		{"echo x >f; kill -SEGV $$", ReasonSignaled, false},
		{"echo x >f; exec sleep 1000", ReasonTimeout, false},
	} {
		sb := w.deferred()
		sb.OnError = BranchActionAbort
		if c.reason == ReasonTimeout {
			sb.Timeout = 3 * time.Second
		}
		res := w.run(sb, c.script)
		expect(t, c.script+": reason", res.Reason, c.reason)
		expect(t, c.script+": pending", sb.Pending(), c.pending)
		expect(t, c.script+": changes", letters(res.Changes), "A f")
		if c.pending {
			must(t, sb.Abort())
		}
		must(t, sb.Close())
	}
	expect(t, "branches", w.branchNames(), []string{})
}

// SEEDS row 37.
func TestPendingIsInTheWayOfARun(t *testing.T) {
	w := newWorld(t)
	sb := w.deferred()
	defer sb.Close()
	expectIs(t, sb.Commit(background), ErrState)
	expectIs(t, sb.Abort(), ErrState)
	w.run(sb, "echo x >f")
	_, err := sb.Run(background, "true")
	expectIs(t, err, ErrState)
	_, err = sb.Spawn("true")
	expectIs(t, err, ErrState)
	expect(t, "pending", sb.Pending(), true)
	must(t, sb.Commit(background))
	expectIs(t, sb.Commit(background), ErrState)
	expectIs(t, sb.Abort(), ErrState)

	p, err := sb.Popen(Stdio{Stdin: StdioPiped}, "cat")
	must(t, err)
	expectIs(t, sb.Commit(background), ErrState)
	expectIs(t, p.Abort(), ErrState)
	_, err = sb.Run(background, "true")
	expectIs(t, err, ErrState)
	must(t, p.Stdin.Close())
	_, err = p.Wait()
	must(t, err)
	// It changed nothing, but nobody has said what is to become of that.
	expect(t, "pending", p.Pending(), true)
	must(t, p.Commit(background))
	expect(t, "branches", w.branchNames(), []string{})
}

// SEEDS row 13.
func TestLockedWorkdirDefersACommit(t *testing.T) {
	w := newWorld(t)
	sb := w.deferred()
	defer sb.Close()
	w.run(sb, "echo x >f")
	unlock := w.lock()
	begin := time.Now()
	err := sb.Commit(background)
	if took := time.Since(begin); took < 4500*time.Millisecond {
		t.Errorf("it took %v", took)
	}
	expectIs(t, err, ErrLocked)
	if !strings.Contains(err.Error(), w.Store) {
		t.Errorf("no path in %q", err)
	}
	ctx, cancel := context.WithCancel(background)
	time.AfterFunc(100*time.Millisecond, cancel)
	expectIs(t, sb.Commit(ctx), context.Canceled)
	expect(t, "pending", sb.Pending(), true)
	unlock()
	must(t, sb.Commit(background))
	w.expectTree(map[string]string{"f": "x\n"})
}

func TestConflictOfAPendingRun(t *testing.T) {
	w := newWorld(t)
	w.write("f", "old\n")
	sb := w.deferred()
	defer sb.Close()
	w.run(sb, "echo inside >f")
	w.write("f", "outside\n")
	_, err := sb.CommitWith(background,
		CommitOptions{Conflicts: ConflictsRefuse})
	expectIs(t, err, ErrConflict)
	expect(t, "pending", sb.Pending(), true)
	must(t, sb.Commit(background))
	w.expectTree(map[string]string{"f": "inside\n"})
}

func TestDryRun(t *testing.T) {
	w := newWorld(t)
	sb := w.deferred()
	for _, script := range []string{"echo x >f", "echo x >f; exit 3"} {
		res, err := sb.DryRun(context.Background(), "sh", "-c", script)
		must(t, err)
		expect(t, "changes", letters(res.Changes), "A f")
		expect(t, "pending", sb.Pending(), false)
	}
	expect(t, "branches", w.branchNames(), []string{})
}

func TestContextKills(t *testing.T) {
	w := newWorld(t)
	out := t.TempDir()
	sb := w.sandbox()
	sb.FSMount = map[string]string{out: out}
	ctx, cancel := context.WithCancel(background)
	go func() {
		defer cancel()
		eventually(t, "it runs", func() bool {
			_, err := os.Stat(out + "/up")
			return err == nil
		})
	}()
	res, err := sb.Run(ctx, "sh", "-c",
		"echo x >f; : >"+out+"/up; sleep 1000")
	expectIs(t, err, context.Canceled)
	if res == nil {
		t.Fatal("no result")
	}
	expect(t, "reason", res.Reason, ReasonKilled)
	expect(t, "exit code", res.ExitCode, -1)
	w.expectTree(map[string]string{})

	ctx, cancel = context.WithTimeout(background, 3*time.Second)
	defer cancel()
	res, err = sb.Run(ctx, "sleep", "1000")
	expectIs(t, err, context.DeadlineExceeded)
	expect(t, "reason", res.Reason, ReasonTimeout)
	_, err = sb.Run(ctx, "true")
	expectIs(t, err, context.DeadlineExceeded)
	expect(t, "branches", w.branchNames(), []string{})
}

func TestContextOfStart(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(background)
	p, err := w.sandbox().Start(ctx, Launch{}, "sleep", "1000")
	must(t, err)
	short, stop := context.WithTimeout(background, 50*time.Millisecond)
	defer stop()
	_, err = p.WaitContext(short)
	expectIs(t, err, context.DeadlineExceeded)
	cancel()
	_, err = p.Wait()
	expectIs(t, err, context.Canceled)
	must(t, p.Close())
}

func TestPipes(t *testing.T) {
	w := newWorld(t)
	p, err := w.sandbox().Popen(Stdio{StdioPiped, StdioPiped, StdioNull},
		"sh", "-c", "echo lost >&2; cat")
	must(t, err)
	defer p.Close()
	_, err = io.WriteString(p.Stdin, "hello\n")
	must(t, err)
	must(t, p.Stdin.Close())
	text, err := io.ReadAll(p.Stdout)
	must(t, err)
	expect(t, "output", string(text), "hello\n")
	if p.Stderr != nil {
		t.Error("there is a pipe nobody asked for")
	}
	res, err := p.Wait()
	must(t, err)
	expect(t, "success", res.Success, true)
	again, err := p.Wait()
	must(t, err)
	expect(t, "the same result", again, res)
	expect(t, "pid", p.Pid(), 0)
	must(t, p.Kill())
	expectIs(t, p.Signal(syscall.SIGTERM), ErrNotRunning)
}

func TestKillSignalPauseResume(t *testing.T) {
	w := newWorld(t)
	sb := w.sandbox()
	p, err := sb.Popen(Stdio{Stdout: StdioPiped}, "sh", "-c",
		"trap 'echo caught; exit 5' TERM; echo; while :; do sleep .1; done")
	must(t, err)
	defer p.Close()
	if p.Pid() <= 0 || p.Name() == "" {
		t.Errorf("pid %d, name %q", p.Pid(), p.Name())
	}
	out := bufio.NewReader(p.Stdout)
	_, err = out.ReadString('\n')
	must(t, err)
	if err = p.Pause(); err == nil {
		must(t, p.Resume())
	} else {
		expectIs(t, err, ErrUnsupported)
	}
	must(t, p.Signal(syscall.SIGTERM))
	res, err := p.Wait()
	must(t, err)
	expect(t, "exit code", res.ExitCode, 5)

	p, err = sb.Spawn("sleep", "1000")
	must(t, err)
	must(t, p.Kill())
	res, err = p.Wait()
	must(t, err)
	expect(t, "reason", res.Reason, ReasonKilled)
	must(t, p.Close())
}

func TestInteractive(t *testing.T) {
	w := newWorld(t)
	sb := w.sandbox()
	for script, want := range map[string]int{
		"exit 7":        7,
		"kill -TERM $$": 128 + 15,
	} {
		code, err := sb.RunInteractive(background, "sh", "-c", script)
		must(t, err)
		expect(t, script, code, want)
	}
	sb.Timeout = 300 * time.Millisecond
	code, err := sb.RunInteractive(background, "sleep", "1000")
	must(t, err)
	expect(t, "timeout", code, 124)
	code, err = sb.RunInteractive(background, "no-such-program-of-ours")
	expectIs(t, err, ErrExecMissing)
	expect(t, "no program", code, -1)
}

func TestCaptureIsBounded(t *testing.T) {
	w := newWorld(t)
	p, err := w.sandbox().Start(background, Launch{Stdout: StdioCapture,
		CaptureMax: 10}, "sh", "-c", "echo 0123456789012345")
	must(t, err)
	defer p.Close()
	res, err := p.Wait()
	must(t, err)
	expect(t, "output", string(res.Stdout), "0123456789")
	expect(t, "truncated", res.StdoutTruncated, true)
}

func TestFilesArePassed(t *testing.T) {
	w := newWorld(t)
	w.write("f", "text of f\n")
	f, err := os.Open(w.work + "/f")
	must(t, err)
	defer f.Close()
	p, err := w.sandbox().Start(background, Launch{Stdout: StdioCapture,
		Files: []*os.File{f}}, "sh", "-c", "cat <&3")
	must(t, err)
	defer p.Close()
	res, err := p.Wait()
	must(t, err)
	expect(t, "output", string(res.Stdout), "text of f\n")
}

// SEEDS row 8.
func TestNameInUse(t *testing.T) {
	w := newWorld(t)
	sb := w.sandbox()
	sb.Name = "taken"
	p, err := sb.Spawn("sleep", "1000")
	must(t, err)
	defer p.Close()
	_, err = sb.Run(background, "touch", "f")
	expectIs(t, err, ErrExists)
	w.expectTree(map[string]string{})
	must(t, p.Close())
	res, err := sb.Run(background, "true")
	must(t, err)
	expect(t, "name", res.Name, "taken")
}

func TestFieldsAreKeys(t *testing.T) {
	one, two := 1, 2
	sb := &Sandbox{
		FSReadable: []string{"/a", "/b"}, FSWritable: []string{"/c"},
		FSDenied: []string{"/d"}, FSMount: map[string]string{"/e": "/f"},
		FSMountReadOnly: map[string]string{"/g": "/h"}, Workdir: "/i",
		Cwd: "/j", AllowDegraded: []Protection{ProtectionNetTCP},
		Disable:   []Protection{ProtectionAbstractUnixSocketScope},
		MaxMemory: "1G", MaxDisk: "2G", MaxProcesses: 3, MaxOpenFiles: 4,
		Timeout:            1500 * time.Microsecond,
		ExtraAllowSyscalls: []string{"k"},
		ExtraDenySyscalls:  []string{"l"}, CleanEnv: true,
		Env: map[string]string{"M": "n"}, UID: &one, GID: &two,
		NoCoredump: true, FSStorage: "/o", OnExit: BranchActionKeep,
		OnError: BranchActionDefer, Name: "p", NoControlSocket: true,
		Workdirs: []string{"/s", "/t"}, NoBranch: true, NoSupervisor: true,
		Isolation: "namespaces",
		NetAllow:  []string{"127.0.0.1:1"}, NetDeny: []string{"10.0.0.0/8"},
		NetAllowBind: []string{"2"}, NetDenyBind: []string{"3-4"},
		PortRemap: true, Chroot: "/u",
		Settings: []Setting{{"q", "r"}},
	}
	list, err := sb.settings()
	must(t, err)
	var lines []string
	for _, s := range list {
		lines = append(lines, s.Key+"="+s.Value)
	}
	expect(t, "settings", strings.Join(lines, " "), strings.Join([]string{
		"filesystem.read=/a", "filesystem.read=/b",
		"filesystem.write=/c", "filesystem.deny=/d",
		"filesystem.mount=/e:/f:rw", "filesystem.mount=/g:/h:ro",
		"filesystem.on_exit=keep", "filesystem.on_error=defer",
		"config.workdir=/i", "config.workdir=/s", "config.workdir=/t",
		"filesystem.chroot=/u", "config.branch=false", "config.fs_storage=/o", "program.cwd=/j",
		"program.env=M=n", "program.user=1:2", "program.clean_env=true",
		"program.no_coredump=true", "program.control_socket=false",
		"program.no_supervisor=true", "program.isolation=namespaces", "network.allow=127.0.0.1:1",
		"network.deny=10.0.0.0/8", "network.allow_bind=2",
		"network.deny_bind=3-4", "network.port_remap=true",
		"syscalls.extra_allow=k", "syscalls.extra_deny=l",
		"limits.memory=1G", "limits.disk=2G", "limits.processes=3", "limits.open_files=4",
		"limits.timeout=2ms", "allow_degraded=net-tcp",
		"disable=abstract-unix-scope", "name=p", "q=r",
	}, " "))
	// The library knows each of them.
	sb.Settings = nil
	q, err := sb.request()
	must(t, err)
	q.free()
}

func TestBadRequests(t *testing.T) {
	w := newWorld(t)
	id := 1
	for what, sb := range map[string]*Sandbox{
		"half a user": {UID: &id},
		"memory":      {MaxMemory: "much"},
		"disk":        {MaxDisk: "0"},
		"a NUL":       {Workdir: "a\x00b"},
		"a key":       {Settings: []Setting{{"no.such", "x"}}},
		"no name":     {Env: map[string]string{"": "x"}},
		"a name":      {Env: map[string]string{"A=": "x"}},
		"a variable":  {Env: map[string]string{"A\x00": "x"}},
		"a mount":     {FSMount: map[string]string{"/a:b": "/usr"}},
		"a read-only mount": {
			FSMountReadOnly: map[string]string{"/a:b": "/usr"}},
	} {
		sb.Host = w.Host
		_, err := sb.Run(background, "true")
		e := (*Error)(nil)
		if !errors.As(err, &e) {
			t.Fatalf("%s: %v is no *Error", what, err)
		}
		expect(t, what, e.Kind, ErrUsage)
	}
	_, err := w.sandbox().Run(background)
	expectIs(t, err, ErrUsage)
	_, err = w.sandbox().Run(background, "echo", "a\x00b")
	expectIs(t, err, ErrInvalidString)
	_, err = w.sandbox().Popen(Stdio{Stdout: 99}, "true")
	expectIs(t, err, ErrUsage)
}

func TestProfileIsLoadedFirst(t *testing.T) {
	w := newWorld(t)
	path := w.dir + "/p.toml"
	must(t, os.WriteFile(path, []byte("[program]\nexec = \"/bin/sh\"\n"+
		"args = [\"-c\", \"echo $A\"]\nenv = { A = \"profile\" }\n"), 0o600))
	sb := w.sandbox()
	sb.Profile = path
	res, err := sb.Run(background)
	must(t, err)
	expect(t, "output", string(res.Stdout), "profile\n")
	sb.Env = map[string]string{"A": "field"}
	res, err = sb.Run(background)
	must(t, err)
	expect(t, "output", string(res.Stdout), "field\n")
}

// SEEDS row 35.
func TestNoControlSocket(t *testing.T) {
	w := newWorld(t)
	sb := w.sandbox()
	sb.NoControlSocket = true
	p, err := sb.Spawn("sleep", "1000")
	must(t, err)
	defer p.Close()
	list, err := w.List(false)
	must(t, err)
	expect(t, "visible", len(list), 0)
	names, err := filepath.Glob(w.Root + "/*")
	must(t, err)
	expect(t, "directories", len(names), 0)
}

func TestSeveralWorkdirs(t *testing.T) {
	w := newWorld(t)
	other := w.dir + "/other"
	must(t, os.Mkdir(other, 0o755))
	sb := w.deferred()
	sb.Workdirs = []string{other}
	defer sb.Close()
	res := w.run(sb, "echo 1 >f; echo 2 >"+other+"/g")
	roots := map[string]string{}
	for _, c := range res.Changes {
		roots[c.Path] = c.Root
	}
	expect(t, "roots", roots, map[string]string{"f": w.work, "g": other})
	_, err := sb.UpperDir()
	expectIs(t, err, ErrUsage)
	dir, err := sb.UpperDirOf(other)
	must(t, err)
	text, err := os.ReadFile(dir + "/g")
	must(t, err)
	expect(t, "in the upper directory", string(text), "2\n")
	must(t, sb.Commit(background))
	text, err = os.ReadFile(other + "/g")
	must(t, err)
	expect(t, "published", string(text), "2\n")
	w.expectTree(map[string]string{"f": "1\n"})
}

func TestNoBranch(t *testing.T) {
	w := newWorld(t)
	sb := &Sandbox{Host: w.Host, NoBranch: true, Cwd: "/"}
	res := w.run(sb, "echo hi")
	expect(t, "output", string(res.Stdout), "hi\n")
	expect(t, "outcome", res.Outcome, OutcomeNone)
	expect(t, "changes", len(res.Changes), 0)
}

const listener = `
import os, socket, sys
s = socket.socket()
s.bind(("127.0.0.1", 8080))
s.listen()
os.write(1, b"up")
c = s.accept()[0]
c.sendall(b"hello")
c.close()
`

// SEEDS row 33.
func TestPortsAreRemapped(t *testing.T) {
	w := newWorld(t)
	sb := w.sandbox()
	sb.NetAllowBind = []string{"8080"}
	sb.PortRemap = true
	p, err := sb.Popen(Stdio{StdioNull, StdioPiped, StdioInherit},
		"python3", "-c", listener)
	must(t, err)
	defer p.Close()
	_, err = io.ReadFull(p.Stdout, make([]byte, 2))
	must(t, err)
	ports, err := p.Ports()
	must(t, err)
	outside := ports[8080]
	if outside == 0 {
		t.Fatalf("ports: %v", ports)
	}
	udp, err := p.UDPPorts()
	must(t, err)
	expect(t, "UDP", len(udp), 0)
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", outside))
	must(t, err)
	text, err := io.ReadAll(conn)
	must(t, err)
	must(t, conn.Close())
	expect(t, "said", string(text), "hello")
	_, err = p.Wait()
	must(t, err)
	_, err = p.Ports()
	expectIs(t, err, ErrState)
}

func TestStateAndExplain(t *testing.T) {
	w := newWorld(t)
	sb := w.deferred()
	defer sb.Close()
	p, err := sb.Spawn("sleep", "100")
	must(t, err)
	defer p.Close()
	raw, err := w.State(p.Name())
	must(t, err)
	var state struct{ ID, Status string }
	must(t, json.Unmarshal(raw, &state))
	expect(t, "id", state.ID, p.Name())
	expect(t, "status", state.Status, "running")
	list, err := w.Explain(p.Name(), "mount")
	must(t, err)
	if len(list) != 1 || list[0].What != "call" ||
		list[0].Verdict != Denied || list[0].Because == "" {
		t.Errorf("mount: %+v", list)
	}
	list, err = w.Explain(p.Name(), "/etc/passwd")
	must(t, err)
	if len(list) != 2 || list[0].What != "read" ||
		list[0].Verdict != Allowed || list[1].Verdict != Denied {
		t.Errorf("/etc/passwd: %+v", list)
	}
	_, err = w.Explain(p.Name(), "no-such-call")
	expectIs(t, err, ErrUsage)
	_, err = w.State("no-such-sandbox")
	expectIs(t, err, ErrNotFound)
	must(t, p.Kill())
}

func TestDenials(t *testing.T) {
	w := newWorld(t)
	sb := w.deferred()
	defer sb.Close()
	res := w.run(sb, "touch f; mount -t tmpfs none /mnt 2>/dev/null; :")
	list, err := w.Denials(background, res.Name)
	must(t, err)
	for _, d := range list {
		if d.Call == "mount" {
			expect(t, "code", d.Code, "syscall.mount")
			expect(t, "errno", d.Errno, syscall.EPERM)
			must(t, sb.Abort())
			return
		}
	}
	t.Errorf("no mount in %+v", list)
}

func TestQuestionsAreAnsweredByName(t *testing.T) {
	w := newWorld(t)
	sb := w.sandbox()
	sb.Name = "asks"
	sb.Settings = []Setting{{"ask.exec", "env"}, {"ask.by", "socket"}}
	p, err := sb.Start(background, Launch{Stdout: StdioCapture}, "sh", "-c",
		"env true && echo ran; env true || echo $?")
	must(t, err)
	defer p.Close()
	answers := []syscall.Errno{0, syscall.EACCES}
	err = w.WatchQuestions(background, "asks", func(q Question) error {
		if q.State != "waiting" || len(answers) == 0 {
			return nil
		}
		if !strings.Contains(q.What, "/env") || q.ID == "" {
			t.Errorf("question: %+v", q)
		}
		errno := answers[0]
		answers = answers[1:]
		return w.Decide("asks", q.ID, errno, "a test", "because")
	})
	must(t, err)
	res, err := p.Wait()
	must(t, err)
	expect(t, "output", string(res.Stdout), "ran\n126\n")
	if list, err := w.Questions("asks"); err == nil {
		t.Errorf("of one that has ended: %+v", list)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	sb := w.sandbox()
	sb.Name = "quiet"
	p, err := sb.Spawn("sleep", "1000")
	must(t, err)
	ctx, cancel := context.WithTimeout(background, 300*time.Millisecond)
	defer cancel()
	err = w.WatchQuestions(ctx, "quiet", func(Question) error { return nil })
	expectIs(t, err, context.DeadlineExceeded)
	must(t, p.Close())
}

// A goroutine that ends while locked takes its thread with it.
func TestThreadThatStartedMayEnd(t *testing.T) {
	w := newWorld(t)
	started := make(chan *Process)
	go func() {
		runtime.LockOSThread()
		p, err := w.sandbox().Popen(Stdio{StdioPiped, StdioPiped,
			StdioInherit}, "cat")
		if err != nil {
			t.Error(err)
		}
		started <- p
	}()
	p := <-started
	if p == nil {
		return
	}
	defer p.Close()
	for i := 0; i < 20; i++ {
		_, err := io.WriteString(p.Stdin, "x")
		must(t, err)
		_, err = p.Stdout.Read(make([]byte, 1))
		must(t, err)
		time.Sleep(time.Millisecond)
	}
	must(t, p.Stdin.Close())
	res, err := p.Wait()
	must(t, err)
	expect(t, "success", res.Success, true)
}

func TestDroppedProcessIsKilled(t *testing.T) {
	w := newWorld(t)
	pid := func() int {
		p, err := w.sandbox().Spawn("sleep", "1000")
		must(t, err)
		return p.Pid()
	}()
	eventually(t, "the finalizer has killed it", func() bool {
		runtime.GC()
		return syscall.Kill(pid, 0) == syscall.ESRCH
	})
	eventually(t, "its sandbox is gone", func() bool {
		list, err := w.List(false)
		return err == nil && len(list) == 0
	})
}

func openFiles(t testing.TB) int {
	t.Helper()
	names, err := filepath.Glob("/proc/self/fd/*")
	must(t, err)
	return len(names)
}

func TestManyAtATime(t *testing.T) {
	w := newWorld(t)
	sb := w.sandbox()
	sb.OnExit = BranchActionAbort
	w.run(sb, "true")
	before := openFiles(t)
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			for j := 0; j < 3; j++ {
				runOneOfMany(t, sb, fmt.Sprintf("%d.%d", i, j))
			}
		}(i)
	}
	group.Wait()
	w.expectTree(map[string]string{})
	expect(t, "branches", w.branchNames(), []string{})
	eventually(t, "no file is left open", func() bool {
		return openFiles(t) <= before
	})
	_, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
	expect(t, "children left", err, error(syscall.ECHILD))
}

func runOneOfMany(t *testing.T, sb *Sandbox, word string) {
	res, err := sb.Run(background, "sh", "-c", "echo "+word+" | tee f"+word)
	switch {
	case err != nil:
		t.Error(err)
	case string(res.Stdout) != word+"\n":
		t.Errorf("output %q, not %q", res.Stdout, word)
	case letters(res.Changes) != "A f"+word:
		t.Errorf("changes %s of %s", letters(res.Changes), word)
	case res.Outcome != OutcomeAborted:
		t.Errorf("outcome %v", res.Outcome)
	}
}
