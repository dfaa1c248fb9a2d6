package sandlock

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const nowhere = "/etc/of-nobody"

// pathOf is where the path of an open is.
func pathOf(call *Call) uint64 {
	if call.Syscall() == "openat" {
		return call.Args[1]
	}
	return call.Args[0]
}

// isNowhere: it is opened.
func isNowhere(call *Call) bool {
	path, err := call.ReadString(pathOf(call), 4096)
	return err == nil && path == nowhere
}

// about is f about nowhere, twice, and the kernel about all else.
func about(f HandlerFunc) []Handler {
	h := func(ctx context.Context, call *Call) Action {
		if !isNowhere(call) {
			return ActionContinue()
		}
		return f(ctx, call)
	}
	// Not every machine has it.
	nr, err := SyscallNr("open")
	if err != nil {
		return []Handler{{Syscall: "openat", Func: h}}
	}
	return []Handler{{Syscall: "openat", Func: h}, {Nr: nr, Func: h}}
}

// later is the same with deferred ones.
func later(f DeferredHandlerFunc) []Handler {
	h := func(ctx context.Context, call *Call) {
		if !isNowhere(call) {
			_ = call.Answer(ActionContinue())
			return
		}
		f(ctx, call)
	}
	return []Handler{{Syscall: "openat", Deferred: h},
		{Syscall: "open", Deferred: h}}
}

func (w *world) cat(t *testing.T, handlers []Handler) *Result {
	t.Helper()
	sb := w.sandbox()
	sb.Handlers = handlers
	res, err := sb.Run(background, "cat", nowhere)
	must(t, err)
	return res
}

func TestHandlersAnswer(t *testing.T) {
	w := newWorld(t)
	file, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer file.Close()
	for text, action := range map[string]func() Action{
		"No space left":     func() Action { return ActionErrno(syscall.ENOSPC) },
		"of bytes":          func() Action { return ActionBytes([]byte("of bytes")) },
		"Is a directory":    func() Action { return ActionErrno(syscall.EISDIR) },
		"Bad file":          func() Action { return ActionReturn(999) },
		"No such file":      ActionContinue,
		"of a file of ours": func() Action { return ActionFile(file, true) },
	} {
		must(t, file.Truncate(0))
		_, err := file.WriteAt([]byte("of a file of ours"), 0)
		must(t, err)
		_, err = file.Seek(0, 0)
		must(t, err)
		res := w.cat(t, about(func(context.Context, *Call) Action {
			return action()
		}))
		if out := string(res.Stdout) + string(res.Stderr); !strings.
			Contains(out, text) {
			t.Errorf("%q instead of %q", out, text)
		}
	}
	res := w.cat(t, about(func(context.Context, *Call) Action {
		return ActionKill(syscall.SIGKILL)
	}))
	expect(t, "reason", res.Reason, ReasonSignaled)
}

func TestHandlersReachTheCaller(t *testing.T) {
	w := newWorld(t)
	var kept *Call

	res := w.cat(t, about(func(_ context.Context, call *Call) Action {
		kept = call
		data, err := call.Read(pathOf(call), 5)
		must(t, err)
		expect(t, "bytes", string(data), "/etc/")
		_, err = call.Read(1, 5)
		expectIs(t, err, syscall.EFAULT)
		_, err = call.ReadString(pathOf(call), 3)
		expectIs(t, err, syscall.ENAMETOOLONG)
		out, err := call.File(1)
		must(t, err)
		_, err = out.WriteString("said\n")
		must(t, err)
		must(t, out.Close())
		process, err := call.Process()
		must(t, err)
		must(t, process.Close())
		fd, err := call.InstallFile(os.Stderr, true)
		must(t, err)
		expect(t, "installed", fd > 2, true)
		expect(t, "cancelled", call.IsCancelled(), false)
		must(t, call.Write(pathOf(call), []byte("/dev/null\x00")))
		return ActionContinue()
	}))
	expect(t, "output", string(res.Stdout), "said\n")
	expect(t, "success", res.Success, true)
	expect(t, "pid", kept.PID > 0, true)
	_, err := kept.Read(kept.Args[1], 1)
	expectIs(t, err, syscall.ESRCH)
	expectIs(t, kept.Answer(ActionContinue()), syscall.EALREADY)
	expect(t, "cancelled", kept.IsCancelled(), true)
}

// SEEDS rows 20 and 26.
func TestDeferredHandlersContinueAndAnswer(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	var calls []string

	asks := func(name string, a Action) []Handler {
		return later(func(_ context.Context, call *Call) {
			mu.Lock()
			calls = append(calls, name)
			mu.Unlock()
			go func() {
				must(t, call.Answer(a))
				expectIs(t, call.Answer(a), syscall.EALREADY)
				call.Close()
			}()
		})
	}
	handlers := append(asks("first", ActionContinue()),
		asks("second", ActionBytes([]byte("x")))...)
	handlers = append(handlers, asks("third", ActionHold())...)
	res := w.cat(t, handlers)
	expect(t, "output", string(res.Stdout), "x")
	expect(t, "calls", strings.Join(calls, " "), "first second")
}

func TestHandlersThatFail(t *testing.T) {
	w := newWorld(t)
	for what, handlers := range map[string][]Handler{
		"none":  about(func(context.Context, *Call) Action { return Action{} }),
		"panic": about(func(context.Context, *Call) Action { panic("x") }),
		"closed file": about(func(context.Context, *Call) Action {
			return ActionFile(os.NewFile(9999, "none"), true)
		}),
		"later":       later(func(context.Context, *Call) { panic("x") }),
		"never":       later(func(_ context.Context, c *Call) { c.Close() }),
		"of nobody's": later(func(context.Context, *Call) { go runtime.GC() }),
	} {
		for policy, text := range map[ExceptionPolicy]string{
			ExceptionDenyEPERM: "not permitted",
			ExceptionDenyEIO:   "output error",
			ExceptionContinue:  "No such file",
		} {
			for i := range handlers {
				handlers[i].OnException = policy
			}
			// The garbage collector closes when it likes.
			stop := make(chan struct{})
			go func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(20 * time.Millisecond):
						runtime.GC()
					}
				}
			}()
			res := w.cat(t, handlers)
			close(stop)
			if !bytes.Contains(res.Stderr, []byte(text)) {
				t.Errorf("%s: %q instead of %q", what, res.Stderr,
					text)
			}
		}
	}
}

func TestHandlersOfTwoModes(t *testing.T) {
	w := newWorld(t)
	f := func(context.Context, *Call) Action { return ActionContinue() }
	d := func(context.Context, *Call) {}
	for what, h := range map[string]Handler{
		"neither":  {Syscall: "openat"},
		"both":     {Syscall: "openat", Func: f, Deferred: d},
		"nul":      {Syscall: "open\x00at", Func: f},
		"unknown":  {Syscall: "opneat", Func: f},
		"no trap":  {Syscall: "exit", Func: f},
		"negative": {Nr: -5, Func: f},
	} {
		sb := w.sandbox()
		sb.Handlers = []Handler{h}
		_, err := sb.Run(background, "touch", "f")
		e := (*Error)(nil)
		if !errors.As(err, &e) || e.Kind != ErrUsage {
			t.Errorf("%s: error %v", what, err)
		}
	}
	w.expectTree(map[string]string{})
	if nr, err := SyscallNr("nothing"); !errors.Is(err, ErrUsage) {
		t.Errorf("nothing has the number %d (%v)", nr, err)
	}
	expect(t, "name", SyscallName(-1), "")
}

// The context of a handler ends with that of the run.
func TestHandlersHaveAContext(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	ended := make(chan error, 1)
	sb := w.sandbox()
	sb.Handlers = about(func(ctx context.Context, _ *Call) Action {
		cancel()
		<-ctx.Done()
		ended <- ctx.Err()
		return ActionHold() // only the context ends it
	})
	_, err := sb.Run(ctx, "cat", nowhere)
	expectIs(t, err, context.Canceled)
	expectIs(t, <-ended, context.Canceled)

	// And with the run: what is deferred may be left alone then.
	begun := make(chan bool, 1)
	sb = w.sandbox()
	sb.Handlers = later(func(ctx context.Context, call *Call) {
		go func() {
			begun <- true
			<-ctx.Done()
			ended <- call.Answer(ActionContinue())
		}()
	})
	p, err := sb.Start(background, Launch{Stdin: StdioPiped}, "sh", "-c",
		"cat "+nowhere+" & read x; kill $!; wait")
	must(t, err)
	<-begun
	must(t, p.Stdin.Close())
	_, err = p.Wait()
	must(t, err)
	expectIs(t, <-ended, syscall.ECANCELED)
}

func TestHandlersHaveATime(t *testing.T) {
	w := newWorld(t)
	sb := w.sandbox()
	sb.HandlerTimeout = 200 * time.Millisecond
	sb.HandlerThreads = 1
	// No call but this one has so little time.
	for _, name := range []string{"mkdir", "mkdirat"} {
		sb.Handlers = append(sb.Handlers, Handler{Syscall: name,
			Func: func(context.Context, *Call) Action {
				return ActionHold()
			}})
	}
	res, err := sb.Run(background, "mkdir", "/tmp/made")
	must(t, err)
	if !bytes.Contains(res.Stderr, []byte("output error")) {
		t.Errorf("it said %q", res.Stderr)
	}
}

func TestStagesHaveHandlers(t *testing.T) {
	w := newWorld(t)
	first, second := w.sandbox(), w.sandbox()
	second.Handlers = about(func(context.Context, *Call) Action {
		return ActionBytes([]byte("of a handler"))
	})
	tx := &Transaction{Host: w.Host, Stages: []Stage{
		{first, []string{"sh", "-c", "! cat " + nowhere}},
		{second, []string{"cat", nowhere}},
	}}
	res, err := tx.Run(background)
	must(t, err)
	expect(t, "success", res.Success, true)
	expect(t, "output", string(res.Results[1].Stdout), "of a handler")
}
