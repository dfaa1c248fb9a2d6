package sandlock

// #include "bridge.h"
import "C"

import (
	"context"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// BranchAction is what becomes of a branch when its command has ended.
type BranchAction uint8

const (
	// BranchActionDefault commits after success and aborts otherwise.
	BranchActionDefault BranchAction = iota
	// BranchActionCommit publishes the changes.
	BranchActionCommit
	// BranchActionAbort discards them.
	BranchActionAbort
	// BranchActionKeep leaves the branch on disk.
	BranchActionKeep
	// BranchActionDefer leaves it pending, for Commit or Abort.
	BranchActionDefer
)

var actionNames = [...]string{"default", "commit", "abort", "keep", "defer"}

func (a BranchAction) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return "invalid"
}

// actionOf translates from C, where there is no default: -1, then commit.
func actionOf(d C.enum_sandlock_disposition) BranchAction {
	return BranchAction(d + 1)
}

// Branch is a stored branch, its sandbox alive or not.
type Branch struct {
	Name            string
	State           string // open, interrupted, torn, pending, committing, ...
	Lower           string // the directory that it is a branch of
	Dir             string
	Upper           string
	Roots           []BranchRoot // all of them, where there are several
	Command         string
	OnExit, OnError BranchAction
	Created         time.Time
}

// BranchRoot is one directory that a branch is over.
type BranchRoot struct{ Lower, Upper string }

// Branches are all that the store has, sorted by name.
func (h Host) Branches() ([]Branch, error) {
	var v *C.struct_sandlock_branch_info
	var n C.size_t
	var cerr C.struct_sandlock_error

	e := h.env()
	defer e.free()
	r := C.sandlock_branches(e.c, &v, &n, &cerr)
	if err := newError("branches", r, &cerr); err != nil {
		return nil, err
	}
	defer C.sandlock_branches_free(v, n)
	list := make([]Branch, 0, int(n))
	for _, b := range unsafe.Slice(v, int(n)) {
		var roots []BranchRoot

		for _, r := range unsafe.Slice(b.roots, int(b.n_roots)) {
			roots = append(roots, BranchRoot{C.GoString(r.lower),
				C.GoString(r.upper)})
		}
		list = append(list, Branch{
			Roots:   roots,
			Name:    C.GoString(b.name),
			State:   C.GoString(b.state),
			Lower:   C.GoString(b.lower),
			Dir:     C.GoString(b.dir),
			Upper:   C.GoString(b.upper),
			Command: C.GoString(b.command),
			OnExit:  actionOf(b.on_exit),
			OnError: actionOf(b.on_error),
			Created: time.Unix(int64(b.created.tv_sec),
				int64(b.created.tv_nsec)),
		})
	}
	return list, nil
}

// DiffOptions say what Host.Diff shows; the zero value is what `sandlock diff`
// does.
type DiffOptions struct {
	Paths     []string // only these and what is below; nil: all
	Unchanged bool     // also what was written, but has the bytes it had
	Children  bool     // also what was in deleted directories
	Conflicts bool     // look for what the host changed meanwhile
	Metadata  bool     // also where only the time differs
}

func (o *DiffOptions) want() C.uint {
	var want C.uint
	for _, w := range []struct {
		is  bool
		bit C.uint
	}{
		{o.Unchanged, C.SANDLOCK_WANT_UNCHANGED},
		{o.Children, C.SANDLOCK_WANT_CHILDREN},
		{o.Conflicts, C.SANDLOCK_WANT_CONFLICTS},
		{o.Metadata, C.SANDLOCK_WANT_META},
	} {
		if w.is {
			want |= w.bit
		}
	}
	return want
}

// Diff has what a branch changed, in the order of the paths. It is read-only,
// and the sandbox may be running.
func (h Host) Diff(ctx context.Context, name string, o DiffOptions) ([]Change,
	error) {
	var list []Change
	var mem memory

	if err := checkText("diff", o.Paths...); err != nil {
		return nil, err
	}
	defer mem.free()
	err := h.named("diff", name, func(e *env, n *C.char,
		cerr *C.struct_sandlock_error) C.int {
		return withHandle(collect(ctx, &list), func(f C.uintptr_t) C.int {
			return C.bridge_diff(e.c, n, o.want(), mem.words(o.Paths),
				C.size_t(len(o.Paths)), f, cerr)
		})
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return list, err
}

// collect appends to list, and ends the walk when the context does.
func collect(ctx context.Context, list *[]Change) func(Change) C.int {
	return func(c Change) C.int {
		if ctx.Err() != nil {
			return -C.int(syscall.ECANCELED)
		}
		*list = append(*list, c)
		return 0
	}
}

// Uncovered are the mounts below the working directory that the branch does not
// cover.
func (h Host) Uncovered(name string) ([]string, error) {
	var list []Change
	var paths []string

	err := h.named("uncovered", name, func(e *env, n *C.char,
		cerr *C.struct_sandlock_error) C.int {
		return withHandle(collect(context.Background(), &list),
			func(f C.uintptr_t) C.int {
				return C.bridge_uncovered(e.c, n, f, cerr)
			})
	})
	for _, c := range list {
		paths = append(paths, c.Path)
	}
	return paths, err
}

// Side is one of the two sides of a change.
type Side bool

// The sides.
const (
	Before Side = false
	After  Side = true
)

// Open gives the contents of a regular file on one side.
func (h Host) Open(name, path string, side Side) (*os.File, error) {
	var fd C.int
	var mem memory

	if err := checkText("open", path); err != nil {
		return nil, err
	}
	defer mem.free()
	err := h.named("open", name, func(e *env, n *C.char,
		cerr *C.struct_sandlock_error) C.int {
		return C.sandlock_open_content(e.c, n, mem.word(path),
			C.bool(side), &fd, cerr)
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Digest is the SHA-256 of a regular file on one side, in hex.
func (h Host) Digest(name, path string, side Side) (string, error) {
	var digest [65]C.char
	var mem memory

	if err := checkText("digest", path); err != nil {
		return "", err
	}
	defer mem.free()
	err := h.named("digest", name, func(e *env, n *C.char,
		cerr *C.struct_sandlock_error) C.int {
		return C.sandlock_digest(e.c, n, mem.word(path), C.bool(side),
			&digest[0], cerr)
	})
	return C.GoString(&digest[0]), err
}

// Conflicts says what a commit does about paths that the host changed, too.
type Conflicts int

const (
	// ConflictsForce: the last writer wins, which is this commit.
	ConflictsForce Conflicts = iota
	// ConflictsRefuse: a conflict, and nothing is published.
	ConflictsRefuse
	// ConflictsSkip: everything else is published.
	ConflictsSkip
)

func (c Conflicts) mode() C.enum_sandlock_conflicts {
	switch c {
	case ConflictsRefuse:
		return C.SANDLOCK_CONFLICT_REFUSE
	case ConflictsSkip:
		return C.SANDLOCK_CONFLICT_SKIP
	}
	return C.SANDLOCK_CONFLICT_FORCE
}

// CommitOptions; the zero value publishes everything.
type CommitOptions struct {
	Conflicts    Conflicts
	Paths        []string      // only these and what is below; nil: all
	ForceTorn    bool          // also of a branch that a crash left behind
	AllowSpecial bool          // also sockets and devices
	LockTimeout  time.Duration // for the working directory; 0: 5 s
}

// Committed is what a commit did.
type Committed struct {
	Published int
	Skipped   int
	Gone      bool // nothing of the branch is left
	Conflicts []Change
}

const (
	lockTimeout = 5 * time.Second
	// How long a lock is waited for before the context is looked at.
	lockSlice = 100 * time.Millisecond
)

// Commit publishes a branch, or parts of it. With ErrLocked nothing was done
// and it may be tried again. The context ends the wait for the lock, but never
// a commit that has begun.
func (h Host) Commit(ctx context.Context, name string, o CommitOptions) (
	*Committed, error) {
	if err := checkText("commit", name); err != nil {
		return nil, err
	}
	e := h.env()
	defer e.free()
	return commit(ctx, o, func(c *C.struct_sandlock_commit, f C.uintptr_t,
		cerr *C.struct_sandlock_error) C.int {
		var mem memory

		defer mem.free()
		return C.bridge_commit(e.c, mem.word(name), c, f, cerr)
	})
}

// commit waits for the lock in slices, so that the context can end it.
func commit(ctx context.Context, o CommitOptions,
	once func(*C.struct_sandlock_commit, C.uintptr_t,
		*C.struct_sandlock_error) C.int) (*Committed, error) {
	var mem memory

	if err := checkText("commit", o.Paths...); err != nil {
		return nil, err
	}
	defer mem.free()
	paths := mem.words(o.Paths)
	wait := o.LockTimeout
	if wait <= 0 {
		wait = lockTimeout
	}
	for end := time.Now().Add(wait); ; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		slice := time.Until(end)
		if ctx.Done() != nil && slice > lockSlice {
			slice = lockSlice
		}
		done, err := tryCommit(o, paths, slice, once)
		e, ok := err.(*Error)
		if !ok || e.Kind != ErrLocked || !time.Now().Before(end) {
			return done, err
		}
	}
}

func tryCommit(o CommitOptions, paths **C.char, wait time.Duration,
	once func(*C.struct_sandlock_commit, C.uintptr_t,
		*C.struct_sandlock_error) C.int) (*Committed, error) {
	var cerr C.struct_sandlock_error
	var conflicts []Change

	c := C.struct_sandlock_commit{
		conflicts:       o.Conflicts.mode(),
		force_torn:      C.bool(o.ForceTorn),
		allow_special:   C.bool(o.AllowSpecial),
		lock_timeout_ms: C.int(wait.Milliseconds()),
		paths:           paths,
		n_paths:         C.size_t(len(o.Paths)),
	}
	if c.lock_timeout_ms < 1 {
		c.lock_timeout_ms = 1
	}
	r := withHandle(collect(context.Background(), &conflicts),
		func(f C.uintptr_t) C.int { return once(&c, f, &cerr) })
	if err := newError("commit", r, &cerr); err != nil {
		e := err.(*Error)
		if e.Kind == ErrConflict {
			return nil, &ConflictError{e, conflicts}
		}
		return nil, e
	}
	return &Committed{
		Published: int(c.n_published),
		Skipped:   int(c.n_skipped),
		Gone:      bool(c.gone),
		Conflicts: conflicts,
	}, nil
}

// Abort discards a branch, or parts of it.
func (h Host) Abort(name string, paths ...string) error {
	var mem memory

	if err := checkText("abort", paths...); err != nil {
		return err
	}
	defer mem.free()
	return h.named("abort", name, func(e *env, n *C.char,
		cerr *C.struct_sandlock_error) C.int {
		return C.sandlock_abort(e.c, n, mem.words(paths),
			C.size_t(len(paths)), cerr)
	})
}

// Recovered is what Host.Recover found and did.
type Recovered int

// Outcomes of Recover.
const (
	RecoveredNothing Recovered = C.SANDLOCK_RECOVERED_NOTHING
	RecoveredSettled Recovered = C.SANDLOCK_RECOVERED_SETTLED
	RecoveredForward Recovered = C.SANDLOCK_RECOVERED_FORWARD
	RecoveredBack    Recovered = C.SANDLOCK_RECOVERED_BACK
)

// Recover finishes a commit that was interrupted, or undoes it.
func (h Host) Recover(name string, rollback bool) (Recovered, error) {
	var did C.enum_sandlock_recovered

	err := h.named("recover", name, func(e *env, n *C.char,
		cerr *C.struct_sandlock_error) C.int {
		return C.sandlock_recover(e.c, n, C.bool(rollback), &did, cerr)
	})
	return Recovered(did), err
}
