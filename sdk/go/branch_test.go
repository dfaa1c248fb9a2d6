package sandlock

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

var background = context.Background()

func expect(t testing.TB, what string, is, want any) {
	t.Helper()
	if !reflect.DeepEqual(is, want) {
		t.Fatalf("%s: is\n  %#v\nshould be\n  %#v", what, is, want)
	}
}

func expectIs(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, should be %v", err, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func letters(list []Change) string {
	var lines []string
	for _, c := range list {
		lines = append(lines, c.String())
	}
	return strings.Join(lines, ", ")
}

func TestBranchIsListedShownAndCommitted(t *testing.T) {
	w := newWorld(t)
	w.write("f", "old\n")
	w.write("gone", "x")
	w.branch("b1", "echo new >f; rm gone; ln -s f l")

	list, err := w.Branches()
	must(t, err)
	if len(list) != 1 {
		t.Fatalf("branches: %+v", list)
	}
	b := list[0]
	expect(t, "name", b.Name, "b1")
	expect(t, "state", b.State, "pending")
	expect(t, "lower", b.Lower, w.work)
	expect(t, "roots", b.Roots, []BranchRoot{{w.work, b.Upper}})
	expect(t, "on exit", b.OnExit, BranchActionDefer)

	changes, err := w.Diff(background, "b1", DiffOptions{})
	must(t, err)
	expect(t, "changes", letters(changes), "M f, D gone, A l")
	f, gone, l := changes[0], changes[1], changes[2]
	expect(t, "size before", f.Before.Size, int64(4))
	expect(t, "mode", f.After.Mode, fs.FileMode(0o644))
	expect(t, "what is gone", gone.After, (*Entry)(nil))
	expect(t, "kind of the link", l.After.Kind, EntrySymlink)
	expect(t, "target of the link", l.After.Target, "f")

	changes, err = w.Diff(background, "b1",
		DiffOptions{Paths: []string{"gone"}})
	must(t, err)
	expect(t, "one path", letters(changes), "D gone")

	file, err := w.Open("b1", "f", After)
	must(t, err)
	text, err := io.ReadAll(file)
	must(t, err)
	must(t, file.Close())
	expect(t, "contents", string(text), "new\n")
	digest, err := w.Digest("b1", "f", Before)
	must(t, err)
	expect(t, "digest", digest, "01d09d19c2139a46aebfb577780d123d"+
		"7396e97201bc7ead210a2ebff8239dee")

	done, err := w.Commit(background, "b1", CommitOptions{})
	must(t, err)
	expect(t, "gone", done.Gone, true)
	w.expectTree(map[string]string{"f": "new\n", "l": "-> f"})
	_, err = w.Diff(background, "b1", DiffOptions{})
	expectIs(t, err, ErrNotFound)
	expectIs(t, err, fs.ErrNotExist)
}

func TestBranchIsAborted(t *testing.T) {
	w := newWorld(t)
	w.write("f", "old\n")
	w.branch("b2", "echo new >f")
	must(t, w.Abort("b2"))
	w.expectTree(map[string]string{"f": "old\n"})
	expectIs(t, w.Abort("b2"), ErrNotFound)
}

func TestPartsOfABranch(t *testing.T) {
	w := newWorld(t)
	w.branch("b3", "echo 1 >one; echo 2 >two; echo 3 >three")
	done, err := w.Commit(background, "b3",
		CommitOptions{Paths: []string{"one"}})
	must(t, err)
	expect(t, "gone", done.Gone, false)
	must(t, w.Abort("b3", "two"))
	_, err = w.Commit(background, "b3", CommitOptions{})
	must(t, err)
	w.expectTree(map[string]string{"one": "1\n", "three": "3\n"})
}

func TestConflict(t *testing.T) {
	w := newWorld(t)
	w.write("f", "old\n")
	w.branch("b4", "echo inside >f; echo x >other")
	w.write("f", "outside\n")

	_, err := w.Commit(background, "b4",
		CommitOptions{Conflicts: ConflictsRefuse})
	expectIs(t, err, ErrConflict)
	conflict := (*ConflictError)(nil)
	if !errors.As(err, &conflict) {
		t.Fatalf("%T is no ConflictError", err)
	}
	expect(t, "conflicts", letters(conflict.Conflicts), "M f")
	w.expectTree(map[string]string{"f": "outside\n"})

	// Without options the last writer wins.
	_, err = w.Commit(background, "b4", CommitOptions{})
	must(t, err)
	w.expectTree(map[string]string{"f": "inside\n", "other": "x\n"})
}

// lock holds the lock of the working directory.
func (w *world) lock() (unlock func()) {
	w.Helper()
	dir, err := os.Open(w.work)
	must(w, err)
	must(w, syscall.Flock(int(dir.Fd()), syscall.LOCK_EX))
	return func() { _ = dir.Close() }
}

// SEEDS row 13.
func TestCommitWaitsForTheLock(t *testing.T) {
	w := newWorld(t)
	w.branch("b5", "echo x >f")
	unlock := w.lock()

	begin := time.Now()
	_, err := w.Commit(background, "b5", CommitOptions{})
	if took := time.Since(begin); took < 4500*time.Millisecond {
		t.Errorf("it took %v", took)
	}
	expectIs(t, err, ErrLocked)
	expectIs(t, err, syscall.EWOULDBLOCK)
	if !strings.Contains(err.Error(), w.Store+"/branches/b5") {
		t.Errorf("no path in %q", err)
	}

	ctx, cancel := context.WithTimeout(background, 200*time.Millisecond)
	defer cancel()
	_, err = w.Commit(ctx, "b5", CommitOptions{LockTimeout: time.Hour})
	expectIs(t, err, context.DeadlineExceeded)
	w.expectTree(map[string]string{})

	unlock()
	_, err = w.Commit(background, "b5", CommitOptions{})
	must(t, err)
	w.expectTree(map[string]string{"f": "x\n"})
}

func TestNamesThatAreNone(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"", "../x", "a\x00b"} {
		if _, err := w.Commit(background, name,
			CommitOptions{}); err == nil {
			t.Errorf("%q: no error", name)
		}
	}
	err := w.Kill("nobody")
	e := (*Error)(nil)
	if !errors.As(err, &e) {
		t.Fatalf("%T is no *Error", err)
	}
	expect(t, "step", e.Step, "kill")
	if !strings.Contains(e.Message, "nobody") {
		t.Errorf("no name in %q", e.Message)
	}
}

func TestRecoverFindsNothing(t *testing.T) {
	w := newWorld(t)
	w.branch("b6", "echo x >f")
	did, err := w.Recover("b6", false)
	must(t, err)
	expect(t, "recovered", did, RecoveredNothing)
	must(t, w.Abort("b6"))
}

func TestDiffEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	w.branch("b7", "echo x >f")
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err := w.Diff(ctx, "b7", DiffOptions{})
	expectIs(t, err, context.Canceled)
	must(t, w.Abort("b7"))
}
