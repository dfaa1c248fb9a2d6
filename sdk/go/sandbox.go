package sandlock

// #include "bridge.h"
import "C"

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Setting is a key of sandlock.toml(5), "limits.memory", and a value for it.
// The value of a list is added to it.
type Setting struct{ Key, Value string }

// Sandbox says what a command may do, and what becomes of what it writes. Each
// field may be left out: then it is as on the command line, where a command
// sees the system's directories read-only and the working directory on a
// branch. Fields are read when a command is started.
//
// Any number of commands may run at a time, but only one that may be left
// pending by OnExit or OnError, and none while one is pending. The methods
// Pending, UpperDir, Commit and Abort are about the command that was started
// last. A Sandbox must not be copied once it was used.
type Sandbox struct {
	// Profile is loaded first: a name, or with a slash in it a file. The
	// fields below replace its values and add to its lists.
	Profile string

	FSReadable []string // instead of the system's directories
	FSWritable []string // written through, past the branch
	FSDenied   []string // hidden
	// FSMount has host directories by their path inside.
	FSMount         map[string]string
	FSMountReadOnly map[string]string

	Workdir  string   // on a branch; default: the current directory
	Workdirs []string // more of them
	NoBranch bool     // no working directory, and so no branch
	Chroot   string   // the command's root, on a branch unless Workdir names some in it
	Cwd      string   // where the command starts; default: Workdir

	// Bundle is a directory with a config.json, which says what the command
	// may do and whose root file system it sees, on a branch. No words of a
	// command are the program of config.json. PolicyFn and Handlers work,
	// but for the network.
	Bundle string

	// NetAllow is where it may connect to: "host:443", "10.0.0.0/8:*",
	// "udp://1.1.1.1:53"; without any there is no network. NetDeny takes
	// away from that, or from everything.
	NetAllow, NetDeny []string
	// NetAllowBind is what it may listen on: "8080", "3000-3010", "*".
	NetAllowBind, NetDenyBind []string
	// PortRemap: it listens on other ports of the host, see Process.Ports.
	PortRemap bool

	AllowDegraded []Protection // used where the kernel has them
	Disable       []Protection

	MaxMemory    string // "512M"
	MaxProcesses uint32 // with threads
	MaxOpenFiles uint32 // of each process
	// MaxDisk is what the branch may take on disk, "512M". Beyond that all
	// is killed: Result.OverQuota.
	MaxDisk string
	// Timeout: all is killed then, which is an error for OnError.
	Timeout time.Duration

	ExtraAllowSyscalls []string // groups
	ExtraDenySyscalls  []string // names or groups

	CleanEnv bool              // only PATH, HOME, USER, TERM, LANG and the like
	Env      map[string]string // added

	UID, GID   *int // inside; both or none
	NoCoredump bool

	FSStorage       string       // where the branch is kept
	OnExit, OnError BranchAction // after success; after anything else

	// Name is made up if it is "".
	Name string
	// NoControlSocket: no other command can see it or ask it anything.
	NoControlSocket bool
	// NoSupervisor: nothing is mediated. What needs that is an error.
	NoSupervisor bool
	// Isolation is "namespaces" or "notify"; empty: what works here.
	Isolation string

	// PolicyFn decides about system calls while the command runs.
	PolicyFn *PolicyFn
	// Handlers answer system calls in the place of the kernel.
	Handlers []Handler
	// HandlerThreads is how many of them run at once (0: 64), and
	// HandlerTimeout what all of one call have together (0: 30 s); then it
	// is EIO.
	HandlerThreads uint
	HandlerTimeout time.Duration

	// Settings are set last.
	Settings []Setting
	Host     Host

	starting sync.Mutex // held while a command is started; before mu

	mu     sync.Mutex
	last   *run     // was started last
	own    *Process // keeps a pending run of ours until the Sandbox is dropped
	closes int      // how many times it was closed
}

type request struct {
	c *C.struct_sandlock_request
}

func (q *request) free() { C.sandlock_request_free(q.c) }

func (q *request) set(key, value string) error {
	var cerr C.struct_sandlock_error
	var mem memory

	if err := checkText("set "+key, key, value); err != nil {
		return err
	}
	defer mem.free()
	r := C.sandlock_request_set(q.c, mem.word(key), mem.word(value),
		mem.word(key), &cerr)
	return newError("set "+key, r, &cerr)
}

func (q *request) load(profile string) error {
	var cerr C.struct_sandlock_error
	var mem memory

	if err := checkText("load profile", profile); err != nil {
		return err
	}
	defer mem.free()
	isPath := false
	for _, c := range profile {
		isPath = isPath || c == '/'
	}
	r := C.sandlock_request_load(q.c, mem.word(profile), C.bool(isPath),
		&cerr)
	return newError("load profile", r, &cerr)
}

func count(n uint32) []string {
	if n == 0 {
		return nil
	}
	return []string{strconv.FormatUint(uint64(n), 10)}
}

func text(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

func flag(is bool, value string) []string {
	if !is {
		return nil
	}
	return []string{value}
}

func pairs(m map[string]string, between, end string) []string {
	var list []string
	for k, v := range m {
		list = append(list, k+between+v+end)
	}
	sort.Strings(list)
	return list
}

// checkNames refuses names that would end before they do.
func checkNames(key, end string, maps ...map[string]string) error {
	for _, m := range maps {
		for name := range m {
			if name == "" || strings.Contains(name, end) {
				return usage("set "+key, "the name %q is empty "+
					"or has a %q", name, end)
			}
		}
	}
	return nil
}

func names(v []Protection) []string {
	var list []string
	for _, p := range v {
		list = append(list, p.String())
	}
	return list
}

func action(a BranchAction) []string {
	if a == BranchActionDefault {
		return nil
	}
	return []string{a.String()}
}

func milliseconds(d time.Duration) []string {
	if d <= 0 {
		return nil
	}
	// A part of a millisecond is more than none.
	d += time.Millisecond - 1
	return []string{strconv.FormatInt(d.Milliseconds(), 10) + "ms"}
}

// settings are the fields as keys and values.
func (s *Sandbox) settings() ([]Setting, error) {
	var list []Setting

	if (s.UID == nil) != (s.GID == nil) {
		return nil, usage("set program.user",
			"UID and GID are set together or not at all")
	}
	if err := checkNames("program.env", "=", s.Env); err != nil {
		return nil, err
	}
	if err := checkNames("filesystem.mount", ":", s.FSMount,
		s.FSMountReadOnly); err != nil {
		return nil, err
	}
	user := ""
	if s.UID != nil {
		user = fmt.Sprintf("%d:%d", *s.UID, *s.GID)
	}
	for _, field := range []struct {
		key    string
		values []string
	}{
		{"filesystem.read", s.FSReadable},
		{"filesystem.write", s.FSWritable},
		{"filesystem.deny", s.FSDenied},
		{"filesystem.mount", pairs(s.FSMount, ":", ":rw")},
		{"filesystem.mount", pairs(s.FSMountReadOnly, ":", ":ro")},
		{"filesystem.on_exit", action(s.OnExit)},
		{"filesystem.on_error", action(s.OnError)},
		{"config.workdir", text(s.Workdir)},
		{"config.workdir", s.Workdirs},
		{"filesystem.chroot", text(s.Chroot)},
		{"program.bundle", text(s.Bundle)},
		{"config.branch", flag(s.NoBranch, "false")},
		{"config.fs_storage", text(s.FSStorage)},
		{"program.cwd", text(s.Cwd)},
		{"program.env", pairs(s.Env, "=", "")},
		{"program.user", text(user)},
		{"program.clean_env", flag(s.CleanEnv, "true")},
		{"program.no_coredump", flag(s.NoCoredump, "true")},
		{"program.control_socket", flag(s.NoControlSocket, "false")},
		{"program.no_supervisor", flag(s.NoSupervisor, "true")},
		{"program.isolation", text(s.Isolation)},
		{"network.allow", s.NetAllow},
		{"network.deny", s.NetDeny},
		{"network.allow_bind", s.NetAllowBind},
		{"network.deny_bind", s.NetDenyBind},
		{"network.port_remap", flag(s.PortRemap, "true")},
		{"syscalls.extra_allow", s.ExtraAllowSyscalls},
		{"syscalls.extra_deny", s.ExtraDenySyscalls},
		{"limits.memory", text(s.MaxMemory)},
		{"limits.disk", text(s.MaxDisk)},
		{"limits.processes", count(s.MaxProcesses)},
		{"limits.open_files", count(s.MaxOpenFiles)},
		{"limits.timeout", milliseconds(s.Timeout)},
		{"allow_degraded", names(s.AllowDegraded)},
		{"disable", names(s.Disable)},
		{"name", text(s.Name)},
	} {
		for _, v := range field.values {
			list = append(list, Setting{field.key, v})
		}
	}
	return append(list, s.Settings...), nil
}

func (s *Sandbox) request(more ...Setting) (*request, error) {
	c := C.sandlock_request_new()
	if c == nil {
		return nil, &Error{Kind: ErrSystem, Errno: syscall.ENOMEM,
			Step: "new", Message: "out of memory"}
	}
	q := &request{c}
	err := error(nil)
	if s.Profile != "" {
		err = q.load(s.Profile)
	}
	list, bad := s.settings()
	if err == nil {
		err = bad
	}
	list = append(list, more...)
	for i := 0; err == nil && i < len(list); i++ {
		err = q.set(list[i].Key, list[i].Value)
	}
	if err != nil {
		q.free()
		return nil, err
	}
	return q, nil
}

// mayPend: a run of it may wait for a decision, as planned.
func (s *Sandbox) mayPend() bool {
	return s.OnExit == BranchActionDefer || s.OnError == BranchActionDefer
}

// claim says whether another command may be started; s.mu is held.
func (s *Sandbox) claim() error {
	if s.last == nil {
		return nil
	}
	if s.last.isPending() {
		return stateError("run", "the changes of '"+s.last.name+
			"' are pending", "commit or abort them first")
	}
	if s.mayPend() && !s.last.hasEnded() {
		return stateError("run", "'"+s.last.name+"' runs and may be left "+
			"pending", "wait for its end, or use another Sandbox")
	}
	return nil
}

func stateError(step, message, hint string) *Error {
	return &Error{Kind: ErrState, Errno: syscall.EBUSY, Step: step,
		Message: message, Hint: hint}
}

// Launch says how a command is started.
type Launch struct {
	Stdin, Stdout, Stderr StdioMode
	// Files become fds 3, 4, ... of the command. They stay the caller's.
	Files []*os.File
	// CaptureMax is how much is kept of a captured stream; 0: 16 MiB.
	CaptureMax int

	settings []Setting // after those of the sandbox
}

// Start starts a command and returns when it has been executed. When the
// context ends, the command is killed.
func (s *Sandbox) Start(ctx context.Context, l Launch, cmd ...string) (*Process,
	error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkText("run", cmd...); err != nil {
		return nil, err
	}
	for _, mode := range []StdioMode{l.Stdin, l.Stdout, l.Stderr} {
		if mode > StdioCapture {
			return nil, usage("run", "%d is no StdioMode", mode)
		}
	}
	// A callback decides about the start, and may look at us meanwhile.
	s.starting.Lock()
	defer s.starting.Unlock()
	s.mu.Lock()
	err := s.claim()
	closes := s.closes
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	p, err := s.start(ctx, l, cmd)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	closed := s.closes != closes
	if !closed {
		s.last, s.own = p.run, nil
	}
	s.mu.Unlock()
	if closed {
		p.run.close()
		return nil, stateError("run", "the Sandbox was closed meanwhile", "")
	}
	return p, nil
}

// Run runs a command with its output captured and nothing on standard input,
// and returns when it has ended and its branch is committed, aborted or
// pending.
//
// When the context ends, the command is killed, and Run returns promptly, with
// what there is of the result and the error of the context; without a result
// after 5 s if a callback does not return.
func (s *Sandbox) Run(ctx context.Context, cmd ...string) (*Result, error) {
	return s.runAs(ctx, Launch{
		Stdin: StdioNull, Stdout: StdioCapture, Stderr: StdioCapture,
	}, cmd)
}

// RunInteractive runs a command with our standard streams and returns its exit
// status, for a signal 128 and its number, after Timeout 124.
func (s *Sandbox) RunInteractive(ctx context.Context, cmd ...string) (int,
	error) {
	res, err := s.runAs(ctx, Launch{}, cmd)
	switch {
	case res == nil:
		return -1, err
	case res.BranchError != nil && err == nil:
		err = res.BranchError
	}
	switch res.Reason {
	case ReasonSignaled:
		return 128 + res.Signal, err
	case ReasonTimeout:
		return 124, err
	}
	return res.ExitCode, err
}

// DryRun is Run, but what the command writes on the branch is discarded,
// whatever OnExit and OnError say. Changes of the result has it.
func (s *Sandbox) DryRun(ctx context.Context, cmd ...string) (*Result, error) {
	abort := BranchActionAbort.String()
	return s.runAs(ctx, Launch{
		Stdin: StdioNull, Stdout: StdioCapture, Stderr: StdioCapture,
		settings: []Setting{{"filesystem.on_exit", abort},
			{"filesystem.on_error", abort}},
	}, cmd)
}

func (s *Sandbox) runAs(ctx context.Context, l Launch, cmd []string) (*Result,
	error) {
	p, err := s.Start(ctx, l, cmd...)
	if err != nil {
		return nil, err
	}
	res, err := p.run.waitEnd(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	// Nobody else has it.
	switch {
	case !p.run.hasEnded():
		// A callback does not return.
		go p.Close()
	case !p.Pending():
		_ = p.Close()
	case s.last == p.run:
		s.own = p
	}
	return res, err
}

// Spawn starts a command with our standard streams.
func (s *Sandbox) Spawn(cmd ...string) (*Process, error) {
	return s.Start(context.Background(), Launch{}, cmd...)
}

// Stdio is how the standard streams of a command are connected; the zero value
// gives it ours.
type Stdio struct{ Stdin, Stdout, Stderr StdioMode }

// Popen starts a command. The other ends of its pipes are in the Process.
func (s *Sandbox) Popen(stdio Stdio, cmd ...string) (*Process, error) {
	return s.Start(context.Background(), Launch{
		Stdin: stdio.Stdin, Stdout: stdio.Stdout, Stderr: stdio.Stderr,
	}, cmd...)
}

func (s *Sandbox) current() *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Pending: a command has ended and nobody has decided about what it wrote.
func (s *Sandbox) Pending() bool {
	r := s.current()
	return r != nil && r.isPending()
}

// UpperDir is where the changed files are while it is pending, laid out as the
// working directory; what was deleted is a character device 0:0. Of a run that
// changed nothing it does not exist. ErrUsage where there are several working
// directories.
func (s *Sandbox) UpperDir() (string, error) {
	if r := s.current(); r != nil {
		return r.upperDir()
	}
	return "", nothingPending("upper dir")
}

// UpperDirOf is the same of one working directory, the Root of a Change.
func (s *Sandbox) UpperDirOf(root string) (string, error) {
	if r := s.current(); r != nil {
		return r.upperDirOf(root)
	}
	return "", nothingPending("upper dir")
}

// Commit publishes what is pending; the last writer wins. ErrState if nothing
// is; ErrLocked if somebody else holds the lock of the working directory for
// 5 s: it is pending still. The context ends the wait for the lock.
func (s *Sandbox) Commit(ctx context.Context) error {
	_, err := s.CommitWith(ctx, CommitOptions{})
	return err
}

// CommitWith publishes some of what is pending, or on conditions.
func (s *Sandbox) CommitWith(ctx context.Context, o CommitOptions) (*Committed,
	error) {
	if r := s.current(); r != nil {
		return r.commit(ctx, o)
	}
	return nil, nothingPending("commit")
}

// Abort discards what is pending.
func (s *Sandbox) Abort() error {
	if r := s.current(); r != nil {
		return r.abort()
	}
	return nothingPending("abort")
}

// Close kills the command that was started last, if it runs, and waits for its
// end; in a callback of that command it does nothing and is an error (EDEADLK):
// Process.Kill does not wait. What is pending is kept on disk, where Host.Branches finds it,
// and nothing is published. A Start that is under way fails, and its command is
// killed.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	r := s.last
	if r != nil {
		if err := r.checkCaller("close"); err != nil {
			s.mu.Unlock()
			return err
		}
	}
	s.last, s.own = nil, nil
	s.closes++
	s.mu.Unlock()
	if r != nil {
		r.close()
	}
	return nil
}

func nothingPending(step string) *Error {
	return stateError(step, "nothing is pending", "")
}
