package sandlock

// #include "bridge.h"
import "C"

import (
	"fmt"
	"io/fs"
	"syscall"
)

// An ErrorKind says what sort of failure an [Error] is. It is an error itself,
// so that errors.Is(err, sandlock.ErrConflict) works.
type ErrorKind int

// The kinds, as enum sandlock_error_kind of the C API has them.
const (
	// ErrUsage: the request contradicts itself or has a bad value.
	ErrUsage ErrorKind = C.SANDLOCK_ERR_USAGE
	// ErrSystem: the kernel said no; Errno says why.
	ErrSystem ErrorKind = C.SANDLOCK_ERR_SYSTEM
	// ErrBundle: a bundle or its config.json cannot be used.
	ErrBundle ErrorKind = C.SANDLOCK_ERR_BUNDLE
	// ErrName: no sandbox can have this name.
	ErrName ErrorKind = C.SANDLOCK_ERR_NAME
	// ErrExists: there is a sandbox or a branch of this name.
	ErrExists ErrorKind = C.SANDLOCK_ERR_EXISTS
	// ErrNotFound: there is no sandbox or branch of this name.
	ErrNotFound ErrorKind = C.SANDLOCK_ERR_NOT_FOUND
	// ErrState: not now: it runs, or it does not, or nothing is pending.
	ErrState ErrorKind = C.SANDLOCK_ERR_STATE
	// ErrUnsupported: this kernel, container or user cannot do it.
	ErrUnsupported ErrorKind = C.SANDLOCK_ERR_UNSUPPORTED
	// ErrConflict: the host changed what the branch changed, too.
	ErrConflict ErrorKind = C.SANDLOCK_ERR_CONFLICT
	// ErrLocked: somebody else holds the lock; nothing was done.
	ErrLocked ErrorKind = C.SANDLOCK_ERR_LOCKED
	// ErrTorn: the machine went down while the sandbox ran.
	ErrTorn ErrorKind = C.SANDLOCK_ERR_TORN
	// ErrExecMissing: there is no such program.
	ErrExecMissing ErrorKind = C.SANDLOCK_ERR_EXEC_MISSING
	// ErrExecDenied: the program cannot be executed.
	ErrExecDenied ErrorKind = C.SANDLOCK_ERR_EXEC_DENIED
	// ErrHook: a hook of the bundle failed.
	ErrHook ErrorKind = C.SANDLOCK_ERR_HOOK
	// ErrTimeout: it took too long.
	ErrTimeout ErrorKind = C.SANDLOCK_ERR_TIMEOUT
)

// By the names of the Rust project's package, for errors.Is.
const (
	// ErrInvalidString: a NUL byte in what goes to C.
	ErrInvalidString = ErrUsage
	// ErrNotRunning: the process has ended, or there is none.
	ErrNotRunning = ErrState
)

var kindNames = map[ErrorKind]string{
	ErrUsage:       "usage",
	ErrSystem:      "system",
	ErrBundle:      "bundle",
	ErrName:        "name",
	ErrExists:      "exists",
	ErrNotFound:    "not found",
	ErrState:       "wrong state",
	ErrUnsupported: "unsupported",
	ErrConflict:    "conflict",
	ErrLocked:      "locked",
	ErrTorn:        "torn",
	ErrExecMissing: "no such program",
	ErrExecDenied:  "cannot be executed",
	ErrHook:        "hook failed",
	ErrTimeout:     "timeout",
}

func (k ErrorKind) Error() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("error kind %d", int(k))
}

// Error is what every function of this package fails with, unless the context
// ended first. errors.Is knows its kind, its errno, and fs.ErrNotExist and
// fs.ErrExist where they fit.
type Error struct {
	Kind    ErrorKind
	Errno   syscall.Errno // 0: no system call failed
	Step    string        // what was being done: "commit", "start"
	Message string        // lower case, one line
	Hint    string        // the next step, or ""
}

func (e *Error) Error() string {
	text := "sandlock: " + e.Step + ": " + e.Message
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Is is for errors.Is.
func (e *Error) Is(target error) bool {
	switch target {
	case e.Kind:
		return true
	case fs.ErrNotExist:
		return e.Kind == ErrNotFound
	case fs.ErrExist:
		return e.Kind == ErrExists
	}
	return false
}

// Unwrap gives the errno, if there is one.
func (e *Error) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// ConflictError is the [Error] of a commit that was refused because of
// conflicts, with the changes that have one. Nothing was published.
type ConflictError struct {
	Err       *Error
	Conflicts []Change
}

func (e *ConflictError) Error() string { return e.Err.Error() }

// Unwrap gives the [Error].
func (e *ConflictError) Unwrap() error { return e.Err }

// newError makes an Error of what a C function filled, nil if it returned r>=0.
func newError(step string, r C.int, from *C.struct_sandlock_error) error {
	if r >= 0 {
		return nil
	}
	e := errorOf(step, from)
	if e.Kind == C.SANDLOCK_ERR_NONE {
		e.Kind, e.Errno = ErrSystem, syscall.Errno(-r)
		e.Message = e.Errno.Error()
	}
	return e
}

func errorOf(step string, from *C.struct_sandlock_error) *Error {
	return &Error{
		Kind:    ErrorKind(from.kind),
		Errno:   syscall.Errno(from.sys),
		Step:    step,
		Message: C.GoString(&from.msg[0]),
		Hint:    C.GoString(&from.hint[0]),
	}
}

// usage is an error that this package finds itself.
func usage(step, format string, args ...any) *Error {
	return &Error{
		Kind:    ErrUsage,
		Errno:   syscall.EINVAL,
		Step:    step,
		Message: fmt.Sprintf(format, args...),
	}
}
