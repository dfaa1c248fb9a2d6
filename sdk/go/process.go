package sandlock

// #include "bridge.h"
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// StdioMode is how one standard stream of a command is connected.
type StdioMode uint32

// Modes.
const (
	StdioInherit StdioMode = iota // ours
	StdioPiped                    // the other end is in the Process
	StdioNull                     // /dev/null
	StdioCapture                  // output only: into the Result
)

func (m StdioMode) kind() C.enum_sandlock_stdio_kind {
	switch m {
	case StdioPiped:
		return C.SANDLOCK_STDIO_PIPE
	case StdioNull:
		return C.SANDLOCK_STDIO_NULL
	case StdioCapture:
		return C.SANDLOCK_STDIO_CAPTURE
	}
	return C.SANDLOCK_STDIO_INHERIT
}

// ExitReason is why a command ended.
type ExitReason uint32

// Reasons.
const (
	ReasonExited   ExitReason = iota // Result.ExitCode says how
	ReasonSignaled                   // by Result.Signal
	ReasonKilled                     // by Kill, Close, the context or MaxDisk
	ReasonTimeout                    // by Timeout, or the context's deadline
)

// Outcome is what became of the branch.
type Outcome int

// Outcomes.
const (
	OutcomeNone      Outcome = C.SANDLOCK_OUTCOME_NONE // there was no branch
	OutcomePending   Outcome = C.SANDLOCK_OUTCOME_PENDING
	OutcomeCommitted Outcome = C.SANDLOCK_OUTCOME_COMMITTED
	OutcomeAborted   Outcome = C.SANDLOCK_OUTCOME_ABORTED
	OutcomeEmpty     Outcome = C.SANDLOCK_OUTCOME_EMPTY // nothing was changed
)

// Result is what came of a command.
type Result struct {
	Name     string // of the sandbox, and of its branch
	Success  bool   // it exited with 0
	ExitCode int    // -1 if it did not exit
	Reason   ExitReason
	Signal   int // that ended it, else -1
	// OverQuota: killed because the branch took more than MaxDisk.
	OverQuota bool

	// Captured; Truncated says that there was more.
	Stdout, Stderr                   []byte
	StdoutTruncated, StderrTruncated bool

	// Changes are all paths that were made, removed or opened for writing,
	// whatever became of them, in order.
	Changes []Change
	// ChangesError says why they are not all there; nil if they are.
	ChangesError error

	Outcome Outcome
	// BranchError says why the branch was not committed or aborted as
	// planned; it is pending then.
	BranchError error
}

// Process is a command that was started.
type Process struct {
	// Our ends of what is StdioPiped, else nil. They are the caller's, but
	// Close closes them.
	Stdin, Stdout, Stderr *os.File

	*run
}

// A run is the library's side of a Process. It does not refer to the Process,
// whose finalizer ends it.
type run struct {
	name string

	mu sync.RWMutex // held for writing to free c, else for reading
	c  *C.struct_sandlock_sandbox

	env     *env
	done    chan struct{} // closed when it has ended
	result  *Result       // then
	waitErr error         // then

	causeMu sync.Mutex
	cause   error // why we killed it

	stopHandling func() // ends the context of its handlers

	callers sync.Map // the threads that its callbacks are on
}

// calledBack is for the length of a callback, which its goroutine spends on one
// thread that has no other. A stage of a transaction is nil: nobody waits for it.
func (r *run) calledBack() (end func()) {
	if r == nil {
		return func() {}
	}
	tid := syscall.Gettid()
	r.callers.Store(tid, nil)
	return func() { r.callers.Delete(tid) }
}

// checkCaller fails in a callback, which the end waits for.
func (r *run) checkCaller(step string) error {
	if _, ok := r.callers.Load(syscall.Gettid()); !ok || r.hasEnded() {
		return nil
	}
	return &Error{Kind: ErrState, Errno: syscall.EDEADLK, Step: step,
		Message: "a callback of the sandbox cannot wait for it",
		Hint: "it may kill it, or leave that to another goroutine and " +
			"return"}
}

// start makes the sandbox and starts the command in it.
func (s *Sandbox) start(ctx context.Context, l Launch, cmd []string) (*Process,
	error) {
	var cerr C.struct_sandlock_error

	if err := s.PolicyFn.check(); err != nil {
		return nil, err
	}
	q, err := s.request(l.settings...)
	if err != nil {
		return nil, err
	}
	defer q.free()
	r := &run{env: s.Host.env(), done: make(chan struct{})}
	n := C.sandlock_sandbox_new(r.env.c, q.c, &r.c, &cerr)
	if err := newError("new", n, &cerr); err != nil {
		r.env.free()
		return nil, err
	}
	p := &Process{run: r}
	handling, stop := context.WithCancel(ctx)
	r.stopHandling = stop
	err = setPolicy(r, r.c, s.PolicyFn, s.Host.Logger)
	if err == nil {
		err = setHandlers(handling, r, r.c, s, s.Host.Logger)
	}
	if err == nil {
		err = p.create(l, cmd)
	}
	if err != nil {
		r.free()
		return nil, err
	}
	// Somebody may have to approve the start, and take a while.
	if ctx.Done() != nil {
		go r.watch(ctx)
	}
	if n := C.sandlock_sandbox_start(r.c, &cerr); n < 0 {
		close(r.done)
		p.closeFiles()
		r.free()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, newError("start", n, &cerr)
	}
	runtime.SetFinalizer(p, (*Process).drop)
	go r.reap()
	return p, nil
}

func (p *Process) create(l Launch, cmd []string) error {
	var cerr C.struct_sandlock_error
	var name *C.char
	var mem memory

	defer mem.free()
	if len(cmd) == 0 {
		cmd = nil
	}
	fds := make([]int, 0, len(l.Files))
	for _, f := range l.Files {
		fds = append(fds, int(f.Fd()))
	}
	c := C.struct_sandlock_launch{
		argv:        mem.words(cmd),
		capture_max: C.size_t(l.CaptureMax),
		fds:         mem.ints(fds),
		n_fds:       C.size_t(len(fds)),
	}
	c.in.kind = l.Stdin.kind()
	c.out.kind = l.Stdout.kind()
	c.err.kind = l.Stderr.kind()
	n := C.sandlock_sandbox_create(p.c, &c, &cerr)
	runtime.KeepAlive(l.Files)
	if err := newError("create", n, &cerr); err != nil {
		return err
	}
	p.Stdin = pipeEnd(&c.in, "stdin")
	p.Stdout = pipeEnd(&c.out, "stdout")
	p.Stderr = pipeEnd(&c.err, "stderr")
	n = C.sandlock_sandbox_name(p.c, &name, &cerr)
	if err := newError("create", n, &cerr); err != nil {
		p.closeFiles()
		return err
	}
	p.name = take(name)
	return nil
}

// pipeEnd is our end of a pipe, made so that Close interrupts a Read.
func pipeEnd(s *C.struct_sandlock_stdio, name string) *os.File {
	if s.kind != C.SANDLOCK_STDIO_PIPE {
		return nil
	}
	_ = syscall.SetNonblock(int(s.fd), true)
	return os.NewFile(uintptr(s.fd), name)
}

func (p *Process) closeFiles() {
	for _, f := range []*os.File{p.Stdin, p.Stdout, p.Stderr} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// drop is the finalizer. It must not wait for anything.
func (p *Process) drop() { go p.run.close() }

// reap waits for the end. c is not freed before done is closed.
func (r *run) reap() {
	var report *C.struct_sandlock_report
	var cerr C.struct_sandlock_error

	n := C.sandlock_sandbox_wait(r.c, -1, &report, &cerr)
	r.waitErr = newError("wait", n, &cerr)
	if r.waitErr == nil {
		r.result = resultOf(report, r.killedFor())
	}
	r.stopHandling()
	close(r.done)
	r.freeDecided()
}

func (r *run) watch(ctx context.Context) {
	select {
	case <-ctx.Done():
		_ = r.killFor(ctx.Err())
	case <-r.done:
	}
}

// free is called once nobody is in wait.
func (r *run) free() {
	r.stopHandling()
	r.mu.Lock()
	c := r.c
	r.c = nil
	r.mu.Unlock()
	if c != nil {
		C.sandlock_sandbox_free(c)
		r.env.free()
	}
}

// close kills what runs, waits for its end and keeps what is pending.
func (r *run) close() {
	_ = r.killFor(nil)
	<-r.done
	r.free()
}

// with calls f with the library's object, or says that there is none any more.
func (r *run) with(step string, gone *Error,
	f func(*C.struct_sandlock_sandbox, *C.struct_sandlock_error) C.int) error {
	var cerr C.struct_sandlock_error

	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.c == nil {
		return gone
	}
	return newError(step, f(r.c, &cerr), &cerr)
}

func notRunning(step string) *Error {
	return &Error{Kind: ErrState, Errno: syscall.ESRCH, Step: step,
		Message: "it is not running"}
}

// killFor remembers why, for the result.
func (r *run) killFor(cause error) error {
	r.causeMu.Lock()
	if r.cause == nil {
		r.cause = cause
		if cause == nil {
			r.cause = errKilled
		}
	}
	r.causeMu.Unlock()
	r.stopHandling()
	return r.with("kill", notRunning("kill"), func(
		c *C.struct_sandlock_sandbox, e *C.struct_sandlock_error) C.int {
		return C.sandlock_sandbox_kill(c, e)
	})
}

// errKilled is the cause of Kill and Close.
var errKilled = errors.New("killed")

func (r *run) killedFor() error {
	r.causeMu.Lock()
	defer r.causeMu.Unlock()
	return r.cause
}

func (r *run) hasEnded() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Kill ends all of it at once; Wait tells when it is dead. It is no error if it
// has ended already.
func (p *Process) Kill() error {
	err := p.run.killFor(nil)
	if errors.Is(err, ErrNotRunning) && p.run.hasEnded() {
		return nil
	}
	return err
}

// Signal sends sig to the command.
func (p *Process) Signal(sig syscall.Signal) error {
	return p.with("signal", notRunning("signal"), func(
		c *C.struct_sandlock_sandbox, e *C.struct_sandlock_error) C.int {
		return C.sandlock_sandbox_signal(c, C.int(sig), e)
	})
}

// Pause stops all of it. ErrUnsupported where there is no cgroup to do it by.
func (p *Process) Pause() error {
	return p.with("pause", notRunning("pause"), func(
		c *C.struct_sandlock_sandbox, e *C.struct_sandlock_error) C.int {
		return C.sandlock_sandbox_pause(c, e)
	})
}

// Resume undoes Pause.
func (p *Process) Resume() error {
	return p.with("resume", notRunning("resume"), func(
		c *C.struct_sandlock_sandbox, e *C.struct_sandlock_error) C.int {
		return C.sandlock_sandbox_resume(c, e)
	})
}

// Name is that of the sandbox.
func (p *Process) Name() string { return p.run.name }

// Pid is that of the first process inside, 0 once it has ended.
func (p *Process) Pid() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.c == nil {
		return 0
	}
	return int(C.sandlock_sandbox_pid(p.c))
}

// Ports are the TCP ports that are bound inside and where they are outside;
// empty unless they are remapped.
func (p *Process) Ports() (map[int]int, error) { return p.ports("") }

// UDPPorts are the same of UDP.
func (p *Process) UDPPorts() (map[int]int, error) { return p.ports("/udp") }

func (r *run) ports(suffix string) (map[int]int, error) {
	var text *C.char
	var all map[string]int

	err := r.with("ports", notRunning("ports"), func(
		c *C.struct_sandlock_sandbox, e *C.struct_sandlock_error) C.int {
		return C.sandlock_sandbox_ports(c, &text, e)
	})
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(take(text)), &all); err != nil {
		return nil, &Error{Kind: ErrSystem, Step: "ports",
			Message: err.Error()}
	}
	ports := map[int]int{}
	for key, outside := range all {
		inside, err := strconv.Atoi(strings.TrimSuffix(key, suffix))
		if err == nil && strings.HasSuffix(key, suffix) {
			ports[inside] = outside
		}
	}
	return ports, nil
}

// Wait returns when the command has ended and its branch is committed, aborted
// or pending. Again it gives the same. If the context of Start ended it, that
// is the error, beside the result. As with os/exec whoever writes to Stdin closes
// it, or a command that reads all of it never ends. In a callback of the command
// it is an error (EDEADLK): it would wait for itself.
func (p *Process) Wait() (*Result, error) {
	return p.WaitContext(context.Background())
}

// WaitContext gives up when the context ends; the command runs on. In a callback
// of the command it is an error if the context cannot end.
func (p *Process) WaitContext(ctx context.Context) (*Result, error) {
	if ctx.Done() == nil {
		if err := p.run.checkCaller("wait"); err != nil {
			return nil, err
		}
	}
	select {
	case <-p.done:
		return p.ended()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// How long an end is waited for that the context has ordered.
const killPatience = 5 * time.Second

// waitEnd waits for the end that comes with the context's, at the latest.
func (r *run) waitEnd(ctx context.Context) (*Result, error) {
	select {
	case <-r.done:
		return r.ended()
	case <-ctx.Done():
	}
	patience := time.NewTimer(killPatience)
	defer patience.Stop()
	select {
	case <-r.done:
		return r.ended()
	case <-patience.C:
		return nil, ctx.Err()
	}
}

func (r *run) ended() (*Result, error) {
	if r.waitErr != nil {
		return nil, r.waitErr
	}
	cause := r.killedFor()
	if r.result.Reason != ReasonKilled && r.result.Reason != ReasonTimeout ||
		cause == errKilled {
		cause = nil
	}
	return r.result, cause
}

// Pending: it has ended and nobody has decided about what it wrote.
func (p *Process) Pending() bool { return p.run.isPending() }

func (r *run) isPending() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.c != nil && r.hasEnded() && bool(C.sandlock_sandbox_pending(r.c))
}

// UpperDir is as Sandbox.UpperDir.
func (p *Process) UpperDir() (string, error) { return p.run.upperDir() }

func (r *run) upperDir() (string, error) { return r.upperDirOf("") }

// UpperDirOf is as Sandbox.UpperDirOf.
func (p *Process) UpperDirOf(root string) (string, error) {
	return p.run.upperDirOf(root)
}

// upperDirOf: root "" is the only one.
func (r *run) upperDirOf(root string) (string, error) {
	var dir *C.char
	var mem memory

	if err := checkText("upper dir", root); err != nil {
		return "", err
	}
	defer mem.free()
	err := r.with("upper dir", nothingPending("upper dir"), func(
		c *C.struct_sandlock_sandbox, e *C.struct_sandlock_error) C.int {
		if root == "" {
			return C.sandlock_sandbox_upper_dir(c, &dir, e)
		}
		return C.sandlock_sandbox_upper_dir_of(c, mem.word(root), &dir,
			e)
	})
	if err != nil {
		return "", err
	}
	return take(dir), nil
}

// Commit is as Sandbox.Commit.
func (p *Process) Commit(ctx context.Context) error {
	_, err := p.run.commit(ctx, CommitOptions{})
	return err
}

// CommitWith is as Sandbox.CommitWith.
func (p *Process) CommitWith(ctx context.Context, o CommitOptions) (*Committed,
	error) {
	return p.run.commit(ctx, o)
}

func (r *run) commit(ctx context.Context, o CommitOptions) (*Committed, error) {
	defer r.freeDecided()
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.c == nil {
		return nil, nothingPending("commit")
	}
	return commit(ctx, o, func(c *C.struct_sandlock_commit,
		f C.uintptr_t, e *C.struct_sandlock_error) C.int {
		return C.bridge_sandbox_commit(r.c, c, f, e)
	})
}

// Abort is as Sandbox.Abort.
func (p *Process) Abort() error { return p.run.abort() }

func (r *run) abort() error {
	err := r.with("abort", nothingPending("abort"), func(
		c *C.struct_sandlock_sandbox, e *C.struct_sandlock_error) C.int {
		return C.sandlock_sandbox_abort(c, e)
	})
	r.freeDecided()
	return err
}

// freeDecided lets go of what has ended and is pending no more.
func (r *run) freeDecided() {
	if r.hasEnded() && !r.isPending() {
		r.free()
	}
}

// Close kills the command if it runs and waits for its end. What is pending is
// kept on disk, where Host.Branches finds it, and nothing is published. In a
// callback of the command it does nothing and is an error (EDEADLK): Kill does
// not wait.
func (p *Process) Close() error {
	if err := p.run.checkCaller("close"); err != nil {
		return err
	}
	runtime.SetFinalizer(p, nil)
	p.closeFiles()
	p.run.close()
	return nil
}

// resultOf: cause is why we killed it, nil if we have not.
func resultOf(report *C.struct_sandlock_report, cause error) *Result {
	res := &Result{
		Name:            C.GoString(&report.result.name[0]),
		ExitCode:        -1,
		Signal:          -1,
		Outcome:         Outcome(report.result.outcome),
		Stdout:          bytesOf(report.out_data, report.out_len),
		Stderr:          bytesOf(report.err_data, report.err_len),
		StdoutTruncated: bool(report.out_cut),
		StderrTruncated: bool(report.err_cut),
	}
	switch value := int(report.result.exit_value); report.result.exit_kind {
	case C.SANDLOCK_EXIT_CODE:
		res.ExitCode = value
		res.Success = value == 0
	case C.SANDLOCK_EXIT_SIGNAL:
		res.Reason, res.Signal = reason(value, cause), value
	case C.SANDLOCK_EXIT_TIMEOUT:
		res.Reason = ReasonTimeout
	case C.SANDLOCK_EXIT_QUOTA:
		res.Reason, res.OverQuota = ReasonKilled, true
	default:
		res.Reason = ReasonKilled
	}
	if report.result.outcome_error.kind != C.SANDLOCK_ERR_NONE {
		res.BranchError = errorOf("dispose", &report.result.outcome_error)
	}
	if report.changes_error.kind != C.SANDLOCK_ERR_NONE {
		res.ChangesError = errorOf("changes", &report.changes_error)
	}
	res.Changes = changesOf(report)
	return res
}

// reason of an end by a signal, which may have been ours.
func reason(sig int, cause error) ExitReason {
	switch {
	case sig != int(syscall.SIGKILL) || cause == nil:
		return ReasonSignaled
	case cause == context.DeadlineExceeded:
		return ReasonTimeout
	}
	return ReasonKilled
}
