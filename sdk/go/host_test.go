package sandlock

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program is the sandlock command that was built with the library.
func program(t testing.TB) string {
	t.Helper()
	path := os.Getenv("SANDLOCK")
	if path == "" {
		path = "../../build/sandlock"
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("no sandlock to test: %v; run make first", err)
	}
	return path
}

// A world is a host and a working directory that only one test has.
type world struct {
	testing.TB
	Host
	dir, work string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "slgo.")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, dir: dir, work: dir + "/work", Host: Host{
		Root:    dir + "/run",
		Store:   dir + "/store",
		Program: program(t),
		Logger: func(level LogLevel, msg string) {
			t.Logf("log %d: %s", level, msg)
		},
	}}
	for _, d := range []string{w.work, w.Root} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(w.clean)
	return w
}

// clean fails the test if a sandbox is left.
func (w *world) clean() {
	list, err := w.List(false)
	if err != nil {
		w.Errorf("list: %v", err)
	}
	for _, s := range list {
		w.Errorf("left behind: %+v", s)
		_ = w.Kill(s.Name)
	}
	// What was discarded is removed by a child that may still be at it, or
	// by who looks next; an overlay leaves directories of mode 0.
	eventually(w, "it is cleaned up", func() bool {
		_, _ = w.Branches()
		return os.RemoveAll(w.dir) == nil
	})
}

// sandlock runs the command line on the same host.
func (w *world) sandlock(args ...string) (string, error) {
	cmd := exec.Command(w.Program, args...)
	cmd.Dir = w.work
	cmd.Env = append(os.Environ(), "SANDLOCK_ROOT="+w.Root,
		"SANDLOCK_STORE="+w.Store, "SANDLOCK_CACHE="+w.dir+"/cache")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// branch makes a pending branch of what a script does.
func (w *world) branch(name, script string) {
	w.Helper()
	out, err := w.sandlock("run", "--name", name, "--on-exit=defer", "--",
		"sh", "-c", script)
	if err != nil {
		w.Fatalf("run: %v\n%s", err, out)
	}
}

func (w *world) write(path, text string) {
	w.Helper()
	path = filepath.Join(w.work, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

// tree has every file of the working directory and its text.
func (w *world) tree() map[string]string {
	w.Helper()
	tree, err := readTree(w.work)
	if err != nil {
		w.Fatal(err)
	}
	return tree
}

// readTree: directories end in '/', links are "-> target".
func readTree(root string) (map[string]string, error) {
	tree := map[string]string{}
	err := filepath.Walk(root, func(path string, i os.FileInfo,
		err error) error {
		if err != nil || path == root {
			return err
		}
		name := strings.TrimPrefix(path, root+"/")
		switch {
		case i.IsDir():
			tree[name+"/"] = ""
		case i.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(path)
			tree[name] = "-> " + target
			return err
		default:
			text, err := os.ReadFile(path)
			tree[name] = string(text)
			return err
		}
		return nil
	})
	return tree, err
}

func (w *world) expectTree(want map[string]string) {
	w.Helper()
	expect(w, "workdir", w.tree(), want)
}

// eventually: within a minute.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(end) {
			t.Fatalf("never came true: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
