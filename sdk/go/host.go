package sandlock

// #include "bridge.h"
import "C"

import (
	"encoding/json"
	"runtime/cgo"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// LogLevel says how much a line of the log matters.
type LogLevel int

// Levels, the gravest first.
const (
	LogError   LogLevel = C.SANDLOCK_LOG_ERROR
	LogWarning LogLevel = C.SANDLOCK_LOG_WARNING
	LogInfo    LogLevel = C.SANDLOCK_LOG_INFO
	LogDebug   LogLevel = C.SANDLOCK_LOG_DEBUG
)

// Host is where sandboxes and branches are kept; the zero value is the default
// of the command line. Its methods see what any process of the same user made.
type Host struct {
	// Root is the runtime directory: $SANDLOCK_ROOT, or
	// /dev/shm/sandlock-UID.
	Root string
	// Store has the branches: $SANDLOCK_STORE, or /var/lib/sandlock for
	// root, else $XDG_STATE_HOME/sandlock.
	Store string
	// Program is the sandlock command that serves the sandboxes; default:
	// the installed one.
	Program string
	// Logger is called with warnings, from any goroutine.
	Logger func(level LogLevel, msg string)
	// Debug is for what only helps to find a fault, too.
	Debug bool
}

// An env is a Host for one call, or for as long as a sandbox lives.
type env struct {
	c   *C.struct_sandlock_env
	mem memory
	log cgo.Handle
}

func (h Host) env() *env {
	e := &env{}
	p := C.calloc(1, C.size_t(unsafe.Sizeof(C.struct_sandlock_env{})))
	e.mem.blocks = append(e.mem.blocks, p)
	e.c = (*C.struct_sandlock_env)(p)
	e.c.root = e.mem.str(h.Root)
	e.c.store = e.mem.str(h.Store)
	e.c.program = e.mem.str(h.Program)
	if h.Logger != nil {
		e.log = cgo.NewHandle(h.Logger)
		C.bridge_log(e.c, C.uintptr_t(e.log))
		e.c.log_debug = C.bool(h.Debug)
	}
	return e
}

func (e *env) free() {
	e.mem.free()
	if e.log != 0 {
		e.log.Delete()
		e.log = 0
	}
}

// checkText refuses what C would cut short.
func checkText(step string, texts ...string) error {
	for _, t := range texts {
		if strings.IndexByte(t, 0) >= 0 {
			return usage(step, "'%s' has a NUL byte",
				strings.ReplaceAll(t, "\x00", `\0`))
		}
	}
	return nil
}

// Info is a sandbox as Host.List shows it.
type Info struct {
	Name    string
	Pid     int    // 0 when stopped
	Status  string // creating, created, running, paused, stopped
	Bundle  string // "" for a command of the host
	Created string // RFC 3339
	Command string
	Uptime  time.Duration // -1 when not running
	Branch  string        // state of its branch, or ""
	Ports   string        // "8080->41234, ...", or ""
}

// List has every sandbox, sorted by name; withEnded adds those that have ended
// but still have a branch.
func (h Host) List(withEnded bool) ([]Info, error) {
	var v *C.struct_sandlock_info
	var n C.size_t
	var cerr C.struct_sandlock_error

	e := h.env()
	defer e.free()
	r := C.sandlock_list(e.c, C.bool(withEnded), &v, &n, &cerr)
	if err := newError("list", r, &cerr); err != nil {
		return nil, err
	}
	defer C.sandlock_list_free(v, n)
	list := make([]Info, 0, int(n))
	for _, i := range unsafe.Slice(v, int(n)) {
		info := Info{
			Name:    C.GoString(i.name),
			Pid:     int(i.pid),
			Status:  C.GoString(i.status),
			Bundle:  C.GoString(i.bundle),
			Created: C.GoString(i.created),
			Command: C.GoString(i.command),
			Uptime:  -1,
			Branch:  C.GoString(i.branch),
			Ports:   C.GoString(i.ports),
		}
		if i.uptime_s >= 0 {
			info.Uptime = time.Duration(i.uptime_s) * time.Second
		}
		list = append(list, info)
	}
	return list, nil
}

// Kill ends the whole sandbox and returns when it is dead and settled.
func (h Host) Kill(name string) error {
	return h.named("kill", name, func(e *env, n *C.char,
		cerr *C.struct_sandlock_error) C.int {
		return C.sandlock_kill_tree(e.c, n, cerr)
	})
}

// Signal sends sig to the first process of a sandbox.
func (h Host) Signal(name string, sig syscall.Signal) error {
	return h.named("signal", name, func(e *env, n *C.char,
		cerr *C.struct_sandlock_error) C.int {
		return C.sandlock_kill(e.c, n, C.int(sig), false, cerr)
	})
}

// Inspect gives what a sandbox was asked for, from its supervisor at this
// moment: JSON, or a profile that asks for the same.
func (h Host) Inspect(name string, toml bool) (string, error) {
	var text *C.char

	err := h.named("inspect", name, func(e *env, n *C.char,
		cerr *C.struct_sandlock_error) C.int {
		return C.sandlock_inspect(e.c, n, C.bool(toml), &text, cerr)
	})
	if err != nil {
		return "", err
	}
	return take(text), nil
}

// named calls f for the sandbox or branch of a name.
func (h Host) named(step, name string,
	f func(*env, *C.char, *C.struct_sandlock_error) C.int) error {
	var cerr C.struct_sandlock_error
	var mem memory

	if err := checkText(step, name); err != nil {
		return err
	}
	e := h.env()
	defer e.free()
	defer mem.free()
	return newError(step, f(e, mem.word(name), &cerr), &cerr)
}

// CheckState is how bad a row of a Check is.
type CheckState int

// States of a row.
const (
	CheckOK      CheckState = C.SANDLOCK_CHECK_OK
	CheckLimited CheckState = C.SANDLOCK_CHECK_LIMITED // a default run works
	CheckMissing CheckState = C.SANDLOCK_CHECK_MISSING // a default run needs it
)

// CheckRow is one ability of this kernel, container and user.
type CheckRow struct {
	Name  string
	State CheckState
	Found string
	Means string // what follows, or ""
	Fix   string // what to do about it, or ""
}

// Check is what this kernel, container and user can do.
type Check struct {
	Rows        []CheckRow
	Tier        string // "A", or "": nothing can be run
	LandlockABI int    // 0: none
	Usable      bool   // no row is missing
}

// Check tries everything in children that are gone afterwards.
func (h Host) Check() (*Check, error) {
	var c C.struct_sandlock_check
	var cerr C.struct_sandlock_error

	e := h.env()
	defer e.free()
	r := C.sandlock_check(e.c, &c, &cerr)
	if err := newError("check", r, &cerr); err != nil {
		return nil, err
	}
	defer C.sandlock_check_done(&c)
	check := &Check{
		Tier:        C.GoString(c.tier),
		LandlockABI: int(c.landlock_abi),
		Usable:      bool(c.usable),
	}
	for _, row := range unsafe.Slice(c.rows, int(c.n_rows)) {
		check.Rows = append(check.Rows, CheckRow{
			Name:  C.GoString(row.name),
			State: CheckState(row.state),
			Found: C.GoString(row.found),
			Means: C.GoString(row.means),
			Fix:   C.GoString(row.fix),
		})
	}
	return check, nil
}

// Features is what this build can do: the features object of the OCI runtime
// specification.
func Features() (json.RawMessage, error) {
	var text *C.char
	var cerr C.struct_sandlock_error

	r := C.sandlock_features(&text, &cerr)
	if err := newError("features", r, &cerr); err != nil {
		return nil, err
	}
	return json.RawMessage(take(text)), nil
}

// DeniedSyscall is a system call that a command of the host is denied.
type DeniedSyscall struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	Errno string `json:"errno"`
	When  string `json:"when,omitempty"` // "": always
}

// DeniedSyscalls are those that every command is denied, unless
// ExtraAllowSyscalls says otherwise.
func DeniedSyscalls() ([]DeniedSyscall, error) {
	var list []DeniedSyscall
	var text *C.char
	var cerr C.struct_sandlock_error

	r := C.sandlock_syscalls(&text, &cerr)
	if err := newError("syscalls", r, &cerr); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(take(text)), &list); err != nil {
		return nil, &Error{Kind: ErrSystem, Step: "syscalls",
			Message: err.Error()}
	}
	return list, nil
}

// Profiles are the names that Sandbox.Profile can have, sorted.
func Profiles() ([]string, error) {
	var v **C.char
	var n C.size_t
	var cerr C.struct_sandlock_error

	r := C.sandlock_profiles(&v, &n, &cerr)
	if err := newError("profiles", r, &cerr); err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(v))
	names := make([]string, 0, int(n))
	for _, s := range unsafe.Slice(v, int(n)) {
		names = append(names, take(s))
	}
	return names, nil
}

// ProfilePath is the file that a profile is.
func ProfilePath(name string) (string, error) {
	var path *C.char
	var cerr C.struct_sandlock_error
	var mem memory

	if err := checkText("profile", name); err != nil {
		return "", err
	}
	defer mem.free()
	r := C.sandlock_profile_path(mem.word(name), &path, &cerr)
	if err := newError("profile", r, &cerr); err != nil {
		return "", err
	}
	return take(path), nil
}
