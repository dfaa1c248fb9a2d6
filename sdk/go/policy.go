package sandlock

// #include "bridge.h"
import "C"

import (
	"fmt"
	"runtime"
	"runtime/cgo"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// SyscallCategory is what sort of thing a system call is about.
type SyscallCategory uint8

// Categories.
const (
	CategoryFile SyscallCategory = iota
	CategoryNetwork
	CategoryProcess
	CategoryMemory
)

var categoryNames = [...]string{"file", "network", "process", "memory"}

func (c SyscallCategory) String() string {
	if int(c) < len(categoryNames) {
		return categoryNames[c]
	}
	return "unknown"
}

func categoryOf(name string) SyscallCategory {
	for i, n := range categoryNames {
		if n == name {
			return SyscallCategory(i)
		}
	}
	return SyscallCategory(len(categoryNames))
}

// SyscallEvent is a system call that a callback is told of. What it says is a
// copy: after an allow it is checked again that it still holds.
type SyscallEvent struct {
	Syscall   string
	Category  SyscallCategory
	PID       uint32
	ParentPID uint32
	Program   string // of the caller; "" where a command is started
	Path      string // what is opened or executed
	Writes    bool   // it is opened for more than reading
	Host      string // numeric
	Port      uint16
	Protocol  string // "tcp", "udp"
	Argv      []string
	Truncated bool // Argv, or a path, was too long to be passed whole
	// Interpreter is what the kernel executes Path with, if that is a
	// script ("#!").
	Interpreter string
	Denied      bool // a rule has denied it: there is nothing to decide
}

// ArgvContains: one of the words has sub in it.
func (e SyscallEvent) ArgvContains(sub string) bool {
	for _, word := range e.Argv {
		if strings.Contains(word, sub) {
			return true
		}
	}
	return false
}

// PolicyDecision is a verdict; a positive one is the errno that the caller
// gets. No verdict grants what rules or the kernel refuse.
type PolicyDecision int32

// Verdicts.
const (
	DecisionAllow PolicyDecision = C.SANDLOCK_VERDICT_ALLOW
	DecisionDeny  PolicyDecision = C.SANDLOCK_VERDICT_DENY // EPERM
	DecisionAudit PolicyDecision = C.SANDLOCK_VERDICT_AUDIT
)

// Allow lets the call go on.
func Allow() PolicyDecision { return DecisionAllow }

// Deny makes it fail with EPERM.
func Deny() PolicyDecision { return DecisionDeny }

// Audit lets it go on, and puts that on record.
func Audit() PolicyDecision { return DecisionAudit }

// DenyWith makes it fail with an errno; one that is none is EPERM.
func DenyWith(errno int) PolicyDecision {
	if errno <= 0 || errno > maxErrno {
		return DecisionDeny
	}
	return PolicyDecision(errno)
}

const maxErrno = 4095

// PolicyContext belongs to one call of a callback, and is of no use after that.
type PolicyContext struct {
	mu sync.Mutex
	c  *C.struct_sandlock_context // nil once the callback has returned
}

func (x *PolicyContext) end() {
	x.mu.Lock()
	x.c = nil
	x.mu.Unlock()
}

// RestrictNetwork: from now on, the call that is decided about included, all
// processes that have no rules of their own reach only what rules allow, as
// Sandbox.NetAllow without host names; without rules nothing. It never grants
// more than the Sandbox does, and is for good: further rules only take away
// more.
func (x *PolicyContext) RestrictNetwork(rules []string) error {
	return x.setNetwork("restrict network", false, 0, rules)
}

// RestrictPIDNetwork is the same for one process and what descends from it, and
// takes the place of what was said of the process before.
func (x *PolicyContext) RestrictPIDNetwork(pid uint32, rules []string) error {
	if pid == 0 {
		return usage("restrict network", "0 is no process")
	}
	return x.setNetwork("restrict network", false, pid, rules)
}

// GrantNetwork: what RestrictNetwork took from all is not given back, which is
// ErrState; without that there is nothing to grant.
func (x *PolicyContext) GrantNetwork(rules []string) error {
	return x.setNetwork("grant network", true, 0, rules)
}

// GrantPIDNetwork adds to what RestrictPIDNetwork left to a process, within what
// the Sandbox allows.
func (x *PolicyContext) GrantPIDNetwork(pid uint32, rules []string) error {
	if pid == 0 {
		return usage("grant network", "0 is no process")
	}
	return x.setNetwork("grant network", true, pid, rules)
}

func (x *PolicyContext) setNetwork(step string, grant bool, pid uint32,
	rules []string) error {
	var mem memory

	if err := checkText(step, rules...); err != nil {
		return err
	}
	defer mem.free()
	return x.with(step, func(c *C.struct_sandlock_context,
		cerr *C.struct_sandlock_error) C.int {
		if grant {
			return C.sandlock_context_grant_network(c, C.pid_t(pid),
				mem.words(rules), C.size_t(len(rules)), cerr)
		}
		return C.sandlock_context_restrict_network(c, C.pid_t(pid),
			mem.words(rules), C.size_t(len(rules)), cerr)
	})
}

// RestrictMaxMemory: from now on all processes together use at most so many
// bytes, for good. Whoever uses too much already is killed.
func (x *PolicyContext) RestrictMaxMemory(bytes uint64) error {
	return x.with("restrict memory", func(c *C.struct_sandlock_context,
		cerr *C.struct_sandlock_error) C.int {
		return C.sandlock_context_restrict_max_memory(c,
			C.uint64_t(bytes), cerr)
	})
}

// RestrictMaxProcesses: from now on there are at most n processes, for good.
// Those that run go on.
func (x *PolicyContext) RestrictMaxProcesses(n uint32) error {
	return x.with("restrict processes", func(c *C.struct_sandlock_context,
		cerr *C.struct_sandlock_error) C.int {
		return C.sandlock_context_restrict_max_processes(c,
			C.uint32_t(n), cerr)
	})
}

// with calls f, unless the callback has returned.
func (x *PolicyContext) with(step string, f func(*C.struct_sandlock_context,
	*C.struct_sandlock_error) C.int) error {
	var cerr C.struct_sandlock_error

	x.mu.Lock()
	defer x.mu.Unlock()
	if x.c == nil {
		return stateError(step, "the callback has returned", "")
	}
	return newError(step, f(x.c, &cerr), &cerr)
}

// DenyPath: from now on, the call that is decided about included, nothing at or
// below the absolute path is opened or executed (EACCES). What is open stays
// open.
func (x *PolicyContext) DenyPath(path string) error {
	return x.changePath("deny path", path, false)
}

// AllowPath takes back a DenyPath of the same path, and nothing else.
func (x *PolicyContext) AllowPath(path string) error {
	return x.changePath("allow path", path, true)
}

func (x *PolicyContext) changePath(step, path string, allow bool) error {
	var mem memory

	if err := checkText(step, path); err != nil {
		return err
	}
	defer mem.free()
	return x.with(step, func(c *C.struct_sandlock_context,
		cerr *C.struct_sandlock_error) C.int {
		if allow {
			return C.sandlock_context_allow_path(c, mem.word(path),
				cerr)
		}
		return C.sandlock_context_deny_path(c, mem.word(path), cerr)
	})
}

// PolicyFunc decides at once. It is called for one event at a time; what it has
// not decided within 5 s is denied, and so is a panic.
type PolicyFunc func(event SyscallEvent, ctx *PolicyContext) PolicyDecision

// DeferredPolicyFunc decides when it likes: the approval is answered then, or
// later by any goroutine. It is nil where there is nothing to decide (Denied);
// then its methods do nothing. A panic closes the approval.
type DeferredPolicyFunc func(event SyscallEvent, ctx *PolicyContext,
	approval *Approval)

// PolicyFn is a callback that decides about system calls, in one of two modes;
// both, or none, is an error before anything is started.
type PolicyFn struct {
	Callback PolicyFunc
	Deferred DeferredPolicyFunc
}

func (p *PolicyFn) check() error {
	if p != nil && (p.Callback == nil) == (p.Deferred == nil) {
		return usage("new", "PolicyFn has either a Callback or a "+
			"Deferred one")
	}
	return nil
}

// A policy is what the library hands back to us with each event.
type policy struct {
	PolicyFn
	run    *run
	logger func(LogLevel, string)
}

// failed is deferred: a panic must not go through the library.
func (p *policy) failed(approval *Approval, verdict *C.int) {
	why := recover()
	if why == nil {
		return
	}
	if approval != nil {
		approval.Close()
	}
	*verdict = C.SANDLOCK_VERDICT_DENY
	if p.logger != nil {
		p.logger(LogError, fmt.Sprintf("panic in a policy: %v", why))
	}
}

// setPolicy is called before the first run.
func setPolicy(r *run, c *C.struct_sandlock_sandbox, fn *PolicyFn,
	logger func(LogLevel, string)) error {
	var cerr C.struct_sandlock_error

	if fn == nil {
		return nil
	}
	h := cgo.NewHandle(&policy{*fn, r, logger})
	// From here on the library has it, and lets go of it once.
	n := C.bridge_set_policy(c, C.bool(fn.Deferred != nil),
		C.uintptr_t(h), &cerr)
	return newError("new", n, &cerr)
}

func eventOf(e *C.struct_sandlock_event) SyscallEvent {
	event := SyscallEvent{
		Syscall:     C.GoString(e.syscall),
		Category:    categoryOf(C.GoString(e.category)),
		PID:         uint32(e.pid),
		ParentPID:   uint32(e.parent_pid),
		Program:     C.GoString(e.program),
		Path:        C.GoString(e.path),
		Writes:      bool(e.writes),
		Host:        C.GoString(e.host),
		Port:        uint16(e.port),
		Protocol:    C.GoString(e.protocol),
		Truncated:   bool(e.is_cut),
		Interpreter: C.GoString(e.interpreter),
		Denied:      bool(e.denied),
	}
	for _, word := range unsafe.Slice(e.argv, int(e.n_argv)) {
		event.Argv = append(event.Argv, C.GoString(word))
	}
	return event
}

//export goPolicy
func goPolicy(handle C.uintptr_t, e *C.struct_sandlock_event,
	c *C.struct_sandlock_context) (verdict C.int) {
	p := cgo.Handle(handle).Value().(*policy)
	ctx := &PolicyContext{c: c}

	defer ctx.end()
	defer p.run.calledBack()()
	defer p.failed(nil, &verdict)
	return C.int(p.Callback(eventOf(e), ctx))
}

//export goDeferred
func goDeferred(handle C.uintptr_t, e *C.struct_sandlock_event,
	c *C.struct_sandlock_context, a *C.struct_sandlock_approval) {
	var verdict C.int
	var approval *Approval

	p := cgo.Handle(handle).Value().(*policy)
	ctx := &PolicyContext{c: c}
	if a != nil {
		approval = &Approval{c: a}
		runtime.SetFinalizer(approval, (*Approval).Close)
	}
	defer ctx.end()
	defer p.run.calledBack()()
	defer p.failed(approval, &verdict)
	p.Deferred(eventOf(e), ctx, approval)
}

//export goForget
func goForget(handle C.uintptr_t) { cgo.Handle(handle).Delete() }

// Approval is a system call that waits for an answer. Whoever has it answers
// once, or closes it, which denies; what is dropped is closed by the garbage
// collector. Its deadline runs since the call was made.
type Approval struct {
	mu        sync.Mutex
	c         *C.struct_sandlock_approval // nil: answered or closed
	cancelled bool                        // then
}

// Resolve answers. The error has the errno EALREADY where it was answered or
// closed before, ECANCELED where nobody waits any more, ETIMEDOUT where it
// comes too late.
func (a *Approval) Resolve(d PolicyDecision) error {
	if a == nil {
		return approvalError(syscall.EALREADY)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.c == nil {
		return approvalError(syscall.EALREADY)
	}
	r := C.sandlock_approval_resolve(a.c, C.int(d))
	a.release()
	if r < 0 {
		return approvalError(syscall.Errno(-r))
	}
	return nil
}

func approvalError(errno syscall.Errno) error {
	e := &Error{Kind: ErrState, Errno: errno, Step: "resolve"}
	switch errno {
	case syscall.EALREADY:
		e.Message = "it was answered before"
	case syscall.ECANCELED:
		e.Message = "nobody waits for it any more"
	case syscall.ETIMEDOUT:
		e.Kind, e.Message = ErrTimeout, "it comes too late"
	default:
		e.Message = errno.Error()
	}
	return e
}

// IsCancelled: an answer would be in vain, because it is too late or because
// nobody waits.
func (a *Approval) IsCancelled() bool {
	if a == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.c == nil {
		return a.cancelled
	}
	return bool(C.sandlock_approval_is_cancelled(a.c))
}

// Close denies what was not answered. It may be called more than once.
func (a *Approval) Close() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.release()
}

// release is called with the lock.
func (a *Approval) release() {
	if a.c == nil {
		return
	}
	a.cancelled = bool(C.sandlock_approval_is_cancelled(a.c))
	C.sandlock_approval_free(a.c)
	a.c = nil
	runtime.SetFinalizer(a, nil)
}
