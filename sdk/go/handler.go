package sandlock

// #include "bridge.h"
import "C"

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/cgo"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// ExceptionPolicy is what becomes of a call whose handler fails: it panics,
// returns no Action, or closes the call without an answer.
type ExceptionPolicy uint32

// Policies.
const (
	ExceptionKill      ExceptionPolicy = C.SANDLOCK_EXCEPTION_KILL // all of the sandbox
	ExceptionDenyEPERM ExceptionPolicy = C.SANDLOCK_EXCEPTION_EPERM
	ExceptionContinue  ExceptionPolicy = C.SANDLOCK_EXCEPTION_CONTINUE
	ExceptionDenyEIO   ExceptionPolicy = C.SANDLOCK_EXCEPTION_EIO
)

// HandlerFunc answers a call at once. It runs on a thread of the library,
// several of them at the same time, and a run is not over while it does.
type HandlerFunc func(ctx context.Context, call *Call) Action

// DeferredHandlerFunc returns soon, and some goroutine answers the call later.
type DeferredHandlerFunc func(ctx context.Context, call *Call)

// Handler answers a system call of the sandbox in the place of the kernel, by
// one of two functions. Several handlers of one call are asked in their order,
// for as long as they continue. The context is that of the run: it ends when
// whoever waits for the command gives up, and with the run.
type Handler struct {
	Syscall     string // its name; "": Nr is its number
	Nr          int
	Func        HandlerFunc
	Deferred    DeferredHandlerFunc
	OnException ExceptionPolicy
}

// Action is what becomes of a call; the zero one is none, and a failure.
type Action struct {
	kind        C.enum_sandlock_action_kind
	errno       syscall.Errno
	value       int64
	file        *os.File
	bytes       []byte
	closeOnExec bool
	signal      syscall.Signal
}

// ActionContinue lets the next handler decide; after the last one the kernel
// carries the call out. It reads memory again then, which other threads of the
// caller may have changed: that is no way to allow what was looked at.
func ActionContinue() Action {
	return Action{kind: C.SANDLOCK_ACTION_CONTINUE}
}

// ActionErrno makes the call fail.
func ActionErrno(errno syscall.Errno) Action {
	return Action{kind: C.SANDLOCK_ACTION_ERRNO, errno: errno}
}

// ActionReturn makes the call return this, without being carried out.
func ActionReturn(value int64) Action {
	return Action{kind: C.SANDLOCK_ACTION_RETURN, value: value}
}

// ActionFile makes the call return a copy of the file, which stays ours and is
// open until the call is answered.
func ActionFile(file *os.File, closeOnExec bool) Action {
	return Action{kind: C.SANDLOCK_ACTION_FD, file: file,
		closeOnExec: closeOnExec}
}

// ActionBytes makes the call return the descriptor of a file with these bytes,
// which cannot be changed.
func ActionBytes(data []byte) Action {
	return Action{kind: C.SANDLOCK_ACTION_FD, bytes: data}
}

// ActionHold leaves the call unanswered: until a signal, or with EIO when its
// time is over.
func ActionHold() Action { return Action{kind: C.SANDLOCK_ACTION_HOLD} }

// ActionKill sends the signal to every process of the sandbox.
func ActionKill(sig syscall.Signal) Action {
	return Action{kind: C.SANDLOCK_ACTION_KILL, signal: sig}
}

// fill makes it one of C, whose descriptor is the library's.
func (a Action) fill(ret *C.struct_sandlock_action) error {
	var cerr C.struct_sandlock_error

	ret.kind = a.kind
	ret.error = C.int(a.errno)
	ret.value = C.int64_t(a.value)
	ret.fd = -1
	ret.close_on_exec = C.bool(a.closeOnExec)
	ret.signal = C.int(a.signal)
	if a.kind != C.SANDLOCK_ACTION_FD {
		return nil
	}
	if a.file == nil {
		var at unsafe.Pointer

		if len(a.bytes) > 0 {
			at = unsafe.Pointer(&a.bytes[0])
		}
		r := C.sandlock_action_bytes(at, C.size_t(len(a.bytes)), ret,
			&cerr)
		return newError("handler", r, &cerr)
	}
	fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, a.file.Fd(),
		syscall.F_DUPFD_CLOEXEC, 3)
	runtime.KeepAlive(a.file)
	if errno != 0 {
		return errno
	}
	ret.fd = C.int(fd)
	return nil
}

// Call is a system call whose caller waits. Its methods fail with ESRCH once
// the call was answered, or its caller does not wait any more. A call of a
// Deferred handler is answered or closed once; what is dropped is closed by the
// garbage collector.
type Call struct {
	ID                 uint64
	PID                uint32 // the thread that calls
	Flags              uint32
	Nr                 int
	Arch               uint32 // AUDIT_ARCH_*
	InstructionPointer uint64
	Args               [6]uint64

	mu sync.Mutex
	c  *C.struct_sandlock_call // nil: answered
}

func newCall(c *C.struct_sandlock_call) *Call {
	info := C.sandlock_call_get_info(c)
	call := &Call{
		ID:                 uint64(info.id),
		PID:                uint32(info.pid),
		Flags:              uint32(info.flags),
		Nr:                 int(info.nr),
		Arch:               uint32(info.arch),
		InstructionPointer: uint64(info.instruction_pointer),
		c:                  c,
	}
	for i, arg := range info.args {
		call.Args[i] = uint64(arg)
	}
	return call
}

// with calls f with C's call, unless it was answered.
func (call *Call) with(f func(*C.struct_sandlock_call) C.int) (int, error) {
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.c == nil {
		return -1, syscall.ESRCH
	}
	r := int(f(call.c))
	if r < 0 {
		return -1, syscall.Errno(-r)
	}
	return r, nil
}

// Syscall is the call's name, or "".
func (call *Call) Syscall() string { return SyscallName(call.Nr) }

// Read copies n bytes of the caller's memory.
func (call *Call) Read(addr uint64, n int) ([]byte, error) {
	if n <= 0 {
		return nil, nil
	}
	data := make([]byte, n)
	_, err := call.with(func(c *C.struct_sandlock_call) C.int {
		return C.sandlock_call_read(c, C.uint64_t(addr),
			unsafe.Pointer(&data[0]), C.size_t(n))
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// ReadString copies a string from there, whose NUL is within max bytes.
func (call *Call) ReadString(addr uint64, max int) (string, error) {
	if max <= 0 {
		return "", syscall.ENAMETOOLONG
	}
	data := make([]byte, max)
	at := (*C.char)(unsafe.Pointer(&data[0]))
	_, err := call.with(func(c *C.struct_sandlock_call) C.int {
		return C.sandlock_call_read_string(c, C.uint64_t(addr), at,
			C.size_t(max))
	})
	if err != nil {
		return "", err
	}
	return C.GoString(at), nil
}

// Write puts data into the caller's memory.
func (call *Call) Write(addr uint64, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	_, err := call.with(func(c *C.struct_sandlock_call) C.int {
		return C.sandlock_call_write(c, C.uint64_t(addr),
			unsafe.Pointer(&data[0]), C.size_t(len(data)))
	})
	return err
}

// InstallFile gives the caller a copy of the file: its number there.
func (call *Call) InstallFile(file *os.File, closeOnExec bool) (int, error) {
	fd, err := call.with(func(c *C.struct_sandlock_call) C.int {
		return C.sandlock_call_install_fd(c, C.int(file.Fd()),
			C.bool(closeOnExec))
	})
	runtime.KeepAlive(file)
	return fd, err
}

// File is a copy of the caller's descriptor fd, to be closed.
func (call *Call) File(fd int) (*os.File, error) {
	own, err := call.with(func(c *C.struct_sandlock_call) C.int {
		return C.sandlock_call_get_fd(c, C.int(fd))
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(own), fmt.Sprintf("fd %d", fd)), nil
}

// Process is a pidfd of the caller's process, to be closed: it can be read once
// that has ended, which no handler is told of.
func (call *Call) Process() (*os.File, error) {
	own, err := call.with(func(c *C.struct_sandlock_call) C.int {
		return C.sandlock_call_open_process(c)
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(own), "process"), nil
}

// IsCancelled: nobody waits for an answer any more.
func (call *Call) IsCancelled() bool {
	cancelled := true
	_, _ = call.with(func(c *C.struct_sandlock_call) C.int {
		cancelled = bool(C.sandlock_call_is_cancelled(c))
		return 0
	})
	return cancelled
}

// Answer is for calls of Deferred handlers, once. The error is EALREADY where it
// was answered or closed before, ECANCELED where the run is over.
func (call *Call) Answer(a Action) error {
	var action C.struct_sandlock_action

	call.mu.Lock()
	defer call.mu.Unlock()
	if call.c == nil {
		return syscall.EALREADY
	}
	err := a.fill(&action)
	if err == nil {
		r := C.sandlock_call_answer(call.c, &action)
		if r < 0 {
			err = syscall.Errno(-r)
		}
	}
	call.release()
	return err
}

// Close lets the handler fail, if the call was not answered. It may be called
// more than once.
func (call *Call) Close() {
	call.mu.Lock()
	defer call.mu.Unlock()
	call.release()
}

// release is called with the lock.
func (call *Call) release() {
	if call.c != nil {
		C.sandlock_call_free(call.c)
		call.c = nil
		runtime.SetFinalizer(call, nil)
	}
}

// giveBack is for a call that the library had only lent.
func (call *Call) giveBack() {
	call.mu.Lock()
	call.c = nil
	call.mu.Unlock()
}

// A handling is what the library hands back to us with each call.
type handling struct {
	Handler
	ctx    context.Context
	run    *run
	logger func(LogLevel, string)
}

func (h *handling) log(text string) {
	if h.logger != nil {
		h.logger(LogError, text)
	}
}

func (h *Handler) check() error {
	if (h.Func == nil) == (h.Deferred == nil) {
		return usage("new", "a Handler has either a Func or a Deferred "+
			"one")
	}
	return checkText("new", h.Syscall)
}

// setHandlers is called before the first run.
func setHandlers(ctx context.Context, r *run, c *C.struct_sandlock_sandbox,
	s *Sandbox, logger func(LogLevel, string)) error {
	var cerr C.struct_sandlock_error

	if s.HandlerThreads != 0 || s.HandlerTimeout != 0 {
		n := C.sandlock_sandbox_limit_handlers(c,
			C.uint(s.HandlerThreads),
			C.uint64_t(s.HandlerTimeout/time.Millisecond), &cerr)
		if err := newError("new", n, &cerr); err != nil {
			return err
		}
	}
	for _, h := range s.Handlers {
		if err := addHandler(c, &handling{h, ctx, r, logger}); err != nil {
			return err
		}
	}
	return nil
}

func addHandler(c *C.struct_sandlock_sandbox, h *handling) error {
	var cerr C.struct_sandlock_error
	var mem memory

	if err := h.check(); err != nil {
		return err
	}
	defer mem.free()
	// From here on the library has it, and lets go of it once.
	n := C.bridge_add_handler(c, mem.str(h.Syscall), C.int(h.Nr),
		C.enum_sandlock_exception(h.OnException),
		C.uintptr_t(cgo.NewHandle(h)), &cerr)
	return newError("new", n, &cerr)
}

//export goHandler
func goHandler(handle C.uintptr_t, c *C.struct_sandlock_call,
	ret *C.struct_sandlock_action) (result C.int) {
	h := cgo.Handle(handle).Value().(*handling)
	call := newCall(c)

	defer h.run.calledBack()()
	// A panic must not go through the library.
	defer func() {
		why := recover()
		if why == nil {
			return
		}
		h.log(fmt.Sprintf("panic in a handler: %v", why))
		if h.Deferred != nil {
			call.Close()
			return
		}
		call.giveBack()
		result = -1
	}()
	if h.Deferred != nil {
		result = C.SANDLOCK_HANDLER_LATER
		runtime.SetFinalizer(call, (*Call).Close)
		h.Deferred(h.ctx, call)
		return result
	}
	action := h.Func(h.ctx, call)
	call.giveBack()
	if err := action.fill(ret); err != nil {
		h.log(fmt.Sprintf("a handler has failed: %v", err))
		return -1
	}
	return 0
}

// SyscallNr is the number of a system call of this machine; it fails if there
// is none of that name.
func SyscallNr(name string) (int, error) {
	var mem memory

	if err := checkText("syscall", name); err != nil {
		return -1, err
	}
	defer mem.free()
	nr := int(C.sandlock_syscall_number(mem.word(name)))
	if nr < 0 {
		return -1, usage("syscall", "there is no system call '%s'", name)
	}
	return nr, nil
}

// SyscallName is the name of a number, or "".
func SyscallName(nr int) string {
	name := C.sandlock_syscall_name(C.int(nr))
	if name == nil {
		return ""
	}
	return take(name)
}
