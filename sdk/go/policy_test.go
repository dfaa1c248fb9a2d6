package sandlock

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// asked is a sandbox that asks f about each program but the shell.
func (w *world) asked(f PolicyFunc) *Sandbox {
	sb := w.sandbox()
	sb.PolicyFn = &PolicyFn{Callback: func(e SyscallEvent,
		ctx *PolicyContext) PolicyDecision {
		// The command itself has no Program.
		if e.Syscall != "execve" || e.Program == "" {
			return Allow()
		}
		return f(e, ctx)
	}}
	return sb
}

// held is one that hands out an approval for each program that /env is.
func (w *world) held(f func(SyscallEvent, *Approval)) *Sandbox {
	sb := w.sandbox()
	sb.PolicyFn = &PolicyFn{Deferred: func(e SyscallEvent,
		ctx *PolicyContext, a *Approval) {
		switch {
		case a == nil:
		case e.Syscall == "execve" && strings.HasSuffix(e.Path, "/env"):
			f(e, a)
		default:
			_ = a.Resolve(Allow())
		}
	}}
	return sb
}

func TestPolicyOfABundle(t *testing.T) {
	w := newWorld(t)
	var seen []string
	sb := w.asked(func(e SyscallEvent, _ *PolicyContext) PolicyDecision {
		seen = append(seen, e.Path)
		return DenyWith(int(syscall.EACCES))
	})
	sb.Workdir, sb.Bundle = "", w.makeBundle()
	defer sb.Close()
	res, err := sb.Run(background, "/bin/busybox", "sh", "-c",
		"/bin/busybox true; echo $?")
	must(t, err)
	expect(w, "output", string(res.Stdout), "126\n")
	expect(w, "paths", strings.Join(seen, " "), "/bin/busybox")
}

func TestPolicyOfABundlesNetwork(t *testing.T) {
	w := newWorld(t)
	var seen []SyscallEvent
	sb := w.sandbox()
	sb.PolicyFn = &PolicyFn{Callback: func(e SyscallEvent,
		_ *PolicyContext) PolicyDecision {
		if e.Syscall != "connect" {
			return Allow()
		}
		seen = append(seen, e)
		return DenyWith(int(syscall.EHOSTDOWN))
	}}
	sb.Workdir, sb.Bundle = "", w.makeBundle()
	defer sb.Close()
	res, err := sb.Run(background, "/bin/busybox", "nc", "127.0.0.9", "99")
	must(t, err)
	expect(w, "denied", strings.Contains(string(res.Stderr), "Host is down"),
		true)
	expect(w, "events", len(seen), 1)
	expect(w, "host", seen[0].Host, "127.0.0.9")
	expect(w, "port", seen[0].Port, uint16(99))
}

const envTwice = "env true; echo $?"

// SEEDS row 36.
func TestPolicyModes(t *testing.T) {
	w := newWorld(t)
	for what, fn := range map[string]*PolicyFn{
		"none": {},
		"both": {
			func(SyscallEvent, *PolicyContext) PolicyDecision {
				return Allow()
			},
			func(SyscallEvent, *PolicyContext, *Approval) {},
		},
	} {
		sb := w.sandbox()
		sb.PolicyFn = fn
		_, err := sb.Run(background, "touch", "f")
		e := (*Error)(nil)
		if !errors.As(err, &e) || e.Kind != ErrUsage {
			t.Errorf("%s: error %v", what, err)
		}
	}
	w.expectTree(map[string]string{})
}

// Nobody else decides about the start meanwhile.
func TestPolicyLooksAtTheSandboxThatStarts(t *testing.T) {
	w := newWorld(t)
	n := 0
	sb := w.sandbox()
	sb.PolicyFn = &PolicyFn{Callback: func(e SyscallEvent,
		ctx *PolicyContext) PolicyDecision {
		if e.Syscall == "execve" && !sb.Pending() {
			n++
		}
		return Allow()
	}}
	res, err := sb.Run(background, "echo", "it")
	must(t, err)
	expect(t, "output", string(res.Stdout), "it\n")
	expect(t, "looks", n, 1)
}

func TestPolicyClosesTheSandboxThatStarts(t *testing.T) {
	w := newWorld(t)
	sb := w.sandbox()
	sb.PolicyFn = &PolicyFn{Callback: func(e SyscallEvent,
		ctx *PolicyContext) PolicyDecision {
		must(t, sb.Close())
		return Allow()
	}}
	_, err := sb.Run(background, "sleep", "1000")
	expect(t, "it fails", errors.Is(err, ErrState), true)
	sb.PolicyFn = nil
	res, err := sb.Run(background, "echo", "it")
	must(t, err)
	expect(t, "output", string(res.Stdout), "it\n")
}

func TestPolicyDecides(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	var seen []SyscallEvent

	shell, err := filepath.EvalSymlinks("/bin/sh")
	must(t, err)
	sb := w.asked(func(e SyscallEvent, ctx *PolicyContext) PolicyDecision {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, e)
		switch {
		case e.ArgvContains("refused"):
			return Deny()
		case e.ArgvContains("missing"):
			return DenyWith(int(syscall.ENOENT))
		case e.ArgvContains("audited"):
			return Audit()
		case e.Interpreter == shell:
			return DenyWith(int(syscall.ENOENT))
		}
		return Allow()
	})
	res := w.run(sb, "env echo allowed; env echo refused; echo $?; "+
		"env echo missing 2>/dev/null; echo $?; env echo audited; "+
		"echo '#!/bin/sh' >s; chmod +x s; env ./s 2>/dev/null; echo $?")
	expect(t, "output", string(res.Stdout),
		"allowed\n126\n127\naudited\n127\n")
	mu.Lock()
	defer mu.Unlock()
	for _, e := range seen {
		if !e.ArgvContains("allowed") {
			continue
		}
		expect(t, "category", e.Category, CategoryProcess)
		if e.PID == 0 || !strings.HasPrefix(e.Path, "/") {
			t.Errorf("event: %+v", e)
		}
		return
	}
	t.Errorf("events: %+v", seen)
}

// SEEDS row 36.
func TestPanicDenies(t *testing.T) {
	w := newWorld(t)
	sb := w.asked(func(e SyscallEvent, _ *PolicyContext) PolicyDecision {
		if strings.HasSuffix(e.Path, "/env") {
			panic("on purpose")
		}
		return Allow()
	})
	res := w.run(sb, envTwice)
	expect(t, "output", string(res.Stdout), "126\n")

	// Also what was put elsewhere before is closed.
	var kept *Approval
	sb = w.held(func(_ SyscallEvent, a *Approval) {
		kept = a
		panic("on purpose")
	})
	res = w.run(sb, envTwice)
	expect(t, "output", string(res.Stdout), "126\n")
	expectIs(t, kept.Resolve(Allow()), syscall.EALREADY)
}

func TestApprovalFromAnotherGoroutine(t *testing.T) {
	w := newWorld(t)
	queue := make(chan *Approval, 8)
	sb := w.held(func(_ SyscallEvent, a *Approval) { queue <- a })
	answered := make(chan error, 8)
	go func() {
		for i, d := range []PolicyDecision{Allow(), Deny(),
			DenyWith(int(syscall.ENOENT))} {
			a := <-queue
			time.Sleep(time.Duration(i) * 10 * time.Millisecond)
			if a.IsCancelled() {
				answered <- errors.New("cancelled")
			}
			answered <- a.Resolve(d)
			if !errors.Is(a.Resolve(Allow()), syscall.EALREADY) {
				answered <- errors.New("answered twice")
			}
			a.Close()
		}
		close(answered)
	}()
	// With a path, as a shell tries the next directory after ENOENT.
	res := w.run(sb, "for i in 1 2 3; do /usr/bin/env true 2>/dev/null; "+
		"echo $?; done")
	expect(t, "output", string(res.Stdout), "0\n126\n127\n")
	for err := range answered {
		must(t, err)
	}
}

// SEEDS row 3.
func TestClosedApprovalDenies(t *testing.T) {
	w := newWorld(t)
	sb := w.held(func(_ SyscallEvent, a *Approval) { a.Close() })
	res := w.run(sb, envTwice)
	expect(t, "output", string(res.Stdout), "126\n")
}

// SEEDS row 36.
func TestDroppedApprovalDenies(t *testing.T) {
	w := newWorld(t)
	dropped := make(chan struct{})
	sb := w.held(func(_ SyscallEvent, a *Approval) { close(dropped) })
	p, err := sb.Start(background, Launch{Stdout: StdioCapture}, "sh", "-c",
		envTwice)
	must(t, err)
	defer p.Close()
	<-dropped
	eventually(t, "the finalizer has denied", func() bool {
		runtime.GC()
		return p.run.hasEnded()
	})
	res, err := p.Wait()
	must(t, err)
	expect(t, "output", string(res.Stdout), "126\n")
}

// SEEDS row 3.
func TestApprovalOfARunThatIsOver(t *testing.T) {
	w := newWorld(t)
	queue := make(chan *Approval, 1)
	sb := w.held(func(_ SyscallEvent, a *Approval) { queue <- a })
	p, err := sb.Spawn("sh", "-c", envTwice)
	must(t, err)
	a := <-queue
	must(t, p.Kill())
	_, err = p.Wait()
	must(t, err)
	eventually(t, "it is cancelled", a.IsCancelled)
	expectIs(t, a.Resolve(Allow()), syscall.ECANCELED)
	expect(t, "cancelled", a.IsCancelled(), true)
	a.Close()
	must(t, p.Close())
}

// SEEDS row 3.
func TestApprovalThatNobodyAnswers(t *testing.T) {
	w := newWorld(t)
	var kept *Approval
	sb := w.held(func(_ SyscallEvent, a *Approval) { kept = a })
	sb.Settings = []Setting{{"ask.timeout", "3s"}}
	res := w.run(sb, envTwice)
	expect(t, "output", string(res.Stdout), "126\n")
	if err := kept.Resolve(Allow()); err == nil {
		t.Error("it was answered after its time")
	}
}

// SEEDS row 6: while one waits, others go on.
func TestOneApprovalDoesNotDelayAnother(t *testing.T) {
	w := newWorld(t)
	queue := make(chan *Approval, 2)
	sb := w.held(func(_ SyscallEvent, a *Approval) { queue <- a })
	p, err := sb.Start(background, Launch{Stdout: StdioCapture}, "sh", "-c",
		"(env echo first; echo end) & env echo second; wait")
	must(t, err)
	defer p.Close()
	first, second := <-queue, <-queue
	must(t, second.Resolve(Allow()))
	must(t, first.Resolve(Allow()))
	res, err := p.Wait()
	must(t, err)
	for _, word := range []string{"first", "second"} {
		if !strings.Contains(string(res.Stdout), word) {
			t.Errorf("no %s in %q", word, res.Stdout)
		}
	}
}

func TestContextEndsARunWhoseCallbackDoesNot(t *testing.T) {
	w := newWorld(t)
	called := make(chan struct{}, 1)
	release := make(chan struct{})
	sb := w.asked(func(e SyscallEvent, _ *PolicyContext) PolicyDecision {
		select {
		case called <- struct{}{}:
		default:
		}
		<-release
		return Allow()
	})
	ctx, cancel := context.WithCancel(background)
	go func() {
		<-called
		cancel()
	}()
	_, err := sb.Run(ctx, "sh", "-c", "env true; sleep 1000")
	expectIs(t, err, context.Canceled)
	r := sb.current()
	expect(t, "ended", r.hasEnded(), false)
	close(release)
	eventually(t, "it has ended", r.hasEnded)
}

const connect = `
if (exec 3<>/dev/tcp/127.0.0.1/$P) 2>/dev/null; then echo reached
else echo refused; fi
`

// SEEDS row 9.
func TestNetworkIsRestricted(t *testing.T) {
	w := newWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	var kept *PolicyContext
	sb := w.asked(func(e SyscallEvent, ctx *PolicyContext) PolicyDecision {
		if strings.HasSuffix(e.Path, "/env") {
			kept = ctx
			if err := ctx.RestrictNetwork(nil); err != nil {
				t.Error(err)
			}
			expectIs(t, ctx.RestrictPIDNetwork(0, nil), ErrUsage)
			expectIs(t, ctx.GrantPIDNetwork(0, nil), ErrUsage)
			expectIs(t, ctx.GrantNetwork([]string{"127.0.0.1"}),
				ErrState)
		}
		return Allow()
	})
	sb.NetAllow = []string{"127.0.0.1:" + port}
	sb.Env = map[string]string{"P": port}
	res, err := sb.Run(background, "bash", "-c",
		connect+"env true\n"+connect)
	must(t, err)
	expect(t, "output", string(res.Stdout), "reached\nrefused\n")
	expectIs(t, kept.RestrictNetwork(nil), ErrState)

	// What a process has lost may come back.
	sb = w.sandbox()
	sb.NetAllow = []string{"127.0.0.1:" + port}
	sb.Env = map[string]string{"P": port}
	sb.PolicyFn = &PolicyFn{Callback: func(e SyscallEvent,
		ctx *PolicyContext) PolicyDecision {
		if e.Syscall == "connect" {
			must(t, ctx.RestrictPIDNetwork(e.PID, nil))
			must(t, ctx.GrantPIDNetwork(e.PID, []string{"127.0.0.1"}))
		}
		return Allow()
	}}
	res, err = sb.Run(background, "bash", "-c", connect)
	must(t, err)
	expect(t, "output", string(res.Stdout), "reached\n")
}

func TestLimitsAreSetWhileItRuns(t *testing.T) {
	w := newWorld(t)
	sb := w.asked(func(e SyscallEvent, ctx *PolicyContext) PolicyDecision {
		if strings.HasSuffix(e.Path, "/env") {
			must(t, ctx.RestrictMaxProcesses(1))
			must(t, ctx.RestrictMaxMemory(1<<30))
			expectIs(t, ctx.RestrictMaxProcesses(0), ErrUsage)
			expectIs(t, ctx.RestrictMaxMemory(0), ErrUsage)
		}
		return Allow()
	})
	res, err := sb.Run(background, "sh", "-c",
		"(echo forked); exec env -- sh -c '(echo forked)'")
	must(t, err)
	expect(t, "output", string(res.Stdout), "forked\n")
	expect(t, "success", res.Success, false)
}

func TestPathIsDenied(t *testing.T) {
	w := newWorld(t)
	sb := w.asked(func(e SyscallEvent, ctx *PolicyContext) PolicyDecision {
		if strings.HasSuffix(e.Path, "/env") {
			if err := ctx.DenyPath("/etc/passwd"); err != nil {
				t.Error(err)
			}
			expectIs(t, ctx.DenyPath("relative"), ErrUsage)
			expectIs(t, ctx.AllowPath("relative"), ErrUsage)
		}
		return Allow()
	})
	res, err := sb.Run(background, "sh", "-c",
		"head -c 4 /etc/passwd; echo; env true; "+
			"cat /etc/passwd 2>/dev/null || echo none")
	must(t, err)
	expect(t, "output", string(res.Stdout), "root\nnone\n")
}

func TestDecisions(t *testing.T) {
	expect(t, "allow", int(Allow()), 0)
	expect(t, "deny", int(Deny()), -1)
	expect(t, "audit", int(Audit()), -2)
	expect(t, "errno", int(DenyWith(int(syscall.EACCES))), int(syscall.EACCES))
	expect(t, "none", DenyWith(0), Deny())
	expect(t, "too much", DenyWith(1<<20), Deny())
	expect(t, "category", CategoryNetwork.String(), "network")
	expect(t, "no category", categoryOf("x").String(), "unknown")
}

// expectDeadlock asks from a callback of p for what would wait for itself.
func expectDeadlock(t *testing.T, sb *Sandbox, p *Process) {
	t.Helper()
	_, err := p.Wait()
	for step, err := range map[string]error{"wait": err,
		"close": p.Close(), "close the sandbox": sb.Close()} {
		e := (*Error)(nil)
		if !errors.As(err, &e) || e.Kind != ErrState ||
			e.Errno != syscall.EDEADLK {
			t.Errorf("%s: error %v", step, err)
		}
	}
	ctx, cancel := context.WithTimeout(background, time.Millisecond)
	defer cancel()
	_, err = p.WaitContext(ctx)
	if err != context.DeadlineExceeded {
		t.Errorf("with a time: error %v", err)
	}
}

func TestCallbacksDoNotWaitForThemselves(t *testing.T) {
	w := newWorld(t)
	started := make(chan *Process, 1)
	var sb *Sandbox
	n := 0
	decide := func() {
		p := <-started
		expectDeadlock(t, sb, p)
		n++
		started <- p
	}
	sb = w.asked(func(e SyscallEvent, _ *PolicyContext) PolicyDecision {
		decide()
		return Allow()
	})
	sb.Handlers = about(func(_ context.Context, _ *Call) Action {
		decide()
		return ActionErrno(syscall.ENOENT)
	})
	p, err := sb.Popen(Stdio{}, "sh", "-c", "env true; cat "+nowhere)
	must(t, err)
	started <- p
	res, err := p.Wait()
	must(t, err)
	<-started
	expect(t, "exit code", res.ExitCode, 1)
	expect(t, "callbacks", n >= 3, true)
	must(t, p.Close())
	must(t, sb.Close())
}
