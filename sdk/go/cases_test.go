package sandlock

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The cases that the C, Python and Go suites share; its "about" says what they
// mean.
const casesFile = "../../tests/sdk/cases.json"

type testCase struct {
	Name      string
	Files     map[string]any
	Workdir   *bool
	Bundle    bool
	Request   map[string]any
	Command   []string
	TimeoutMS int `json:"timeout_ms"`
	Handlers  []testHandler
	Expect    expectation
	Then      []step
	After     *map[string]any `json:"files_after"`
}

type testHandler struct {
	Syscall     string
	Later       bool
	OnException string `json:"on_exception"`
	Action      struct {
		Continue bool
		Errno    *syscall.Errno
		Return   *int64
	}
}

func (h testHandler) action() Action {
	switch a := h.Action; {
	case a.Continue:
		return ActionContinue()
	case a.Errno != nil:
		return ActionErrno(*a.Errno)
	case a.Return != nil:
		return ActionReturn(*a.Return)
	}
	return Action{}
}

func (h testHandler) handler() Handler {
	handler := Handler{Syscall: h.Syscall,
		OnException: map[string]ExceptionPolicy{
			"eperm":    ExceptionDenyEPERM,
			"eio":      ExceptionDenyEIO,
			"continue": ExceptionContinue,
		}[h.OnException],
	}
	if !h.Later {
		handler.Func = func(context.Context, *Call) Action {
			return h.action()
		}
		return handler
	}
	handler.Deferred = func(_ context.Context, call *Call) {
		go func() {
			_ = call.Answer(h.action())
		}()
	}
	return handler
}

type expectation struct {
	ExitCode *int `json:"exit_code"`
	Signal   *int
	Timeout  bool
	Quota    bool `json:"over_quota"`
	Stdout   *string
	Stderr   *string
	Outcome  string
	Pending  *bool
	Changes  *[]map[string]any
	Renames  *[][2]string
	Error    *expectedError
}

type expectedError struct{ Kind, Message string }

type step struct {
	Write   map[string]any
	Call    string
	Error   *expectedError
	Pending *bool
	Files   *map[string]any
}

func TestSharedCases(t *testing.T) {
	text, err := os.ReadFile(casesFile)
	must(t, err)
	var file struct{ Cases []json.RawMessage }
	must(t, json.Unmarshal(text, &file))
	for _, raw := range file.Cases {
		var c testCase
		must(t, json.Unmarshal(raw, &c))
		t.Run(c.Name, func(t *testing.T) { c.run(newWorld(t)) })
	}
}

// makeBundle makes one whose root file system is the workdir.
func (w *world) makeBundle() string {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(casesFile),
		"bundle.json"))
	must(w, err)
	text = []byte(strings.NewReplacer("@WORKDIR@", w.work,
		"@UID@", strconv.Itoa(os.Getuid()),
		"@GID@", strconv.Itoa(os.Getgid())).Replace(string(text)))
	dir := w.TempDir()
	must(w, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644))
	return dir
}

func (c *testCase) run(w *world) {
	w.writeFiles(c.Files)
	sb := &Sandbox{Host: w.Host}
	if c.Workdir == nil || *c.Workdir {
		sb.Workdir = w.work
	}
	if c.Bundle {
		sb.Workdir, sb.Bundle = "", w.makeBundle()
	}
	sb.Timeout = time.Duration(c.TimeoutMS) * time.Millisecond
	for key, value := range c.Request {
		for _, v := range listOf(value) {
			v = strings.ReplaceAll(v, "@WORKDIR@", w.work)
			sb.Settings = append(sb.Settings, Setting{key, v})
		}
	}
	for _, h := range c.Handlers {
		sb.Handlers = append(sb.Handlers, h.handler())
	}
	defer sb.Close()
	res, err := sb.Run(background, c.Command...)
	if !w.failed(err, c.Expect.Error) {
		c.Expect.check(w, sb, res)
	}
	if c.After != nil {
		w.expectFiles(*c.After)
	}
	for _, s := range c.Then {
		s.run(w, sb, c.Command)
	}
}

func (s *step) run(w *world, sb *Sandbox, command []string) {
	var err error

	w.Logf("then %s", s.Call)
	w.writeFiles(s.Write)
	switch s.Call {
	case "commit":
		err = sb.Commit(background)
	case "abort":
		err = sb.Abort()
	case "run":
		_, err = sb.Run(background, command...)
	default:
		w.Fatalf("no call '%s'", s.Call)
	}
	w.failed(err, s.Error)
	if s.Pending != nil {
		expect(w, "pending", sb.Pending(), *s.Pending)
	}
	if s.Files != nil {
		w.expectFiles(*s.Files)
	}
}

var kindsByName = map[string]ErrorKind{
	"usage":        ErrUsage,
	"system":       ErrSystem,
	"name":         ErrName,
	"exists":       ErrExists,
	"not_found":    ErrNotFound,
	"state":        ErrState,
	"unsupported":  ErrUnsupported,
	"conflict":     ErrConflict,
	"locked":       ErrLocked,
	"exec_missing": ErrExecMissing,
	"exec_denied":  ErrExecDenied,
	"timeout":      ErrTimeout,
}

// failed: it had to, and did, in the right way.
func (w *world) failed(err error, want *expectedError) bool {
	w.Helper()
	if want == nil {
		must(w, err)
		return false
	}
	e := (*Error)(nil)
	if !errors.As(err, &e) {
		w.Fatalf("%v is no *Error", err)
	}
	expect(w, "kind of "+e.Error(), e.Kind, kindsByName[want.Kind])
	if !strings.Contains(e.Error(), want.Message) {
		w.Fatalf("'%s' is not in '%v'", want.Message, e)
	}
	return true
}

func (x *expectation) check(w *world, sb *Sandbox, res *Result) {
	w.Helper()
	if x.ExitCode != nil {
		expect(w, "reason", res.Reason, ReasonExited)
		expect(w, "exit code", res.ExitCode, *x.ExitCode)
	}
	if x.Signal != nil {
		expect(w, "reason", res.Reason, ReasonSignaled)
		expect(w, "signal", res.Signal, *x.Signal)
	}
	if x.Timeout {
		expect(w, "reason", res.Reason, ReasonTimeout)
	}
	if x.Quota {
		expect(w, "reason", res.Reason, ReasonKilled)
	}
	expect(w, "over quota", res.OverQuota, x.Quota)
	expect(w, "success", res.Success, res.ExitCode == 0)
	if x.Stdout != nil {
		expect(w, "stdout", string(res.Stdout), *x.Stdout)
	}
	if x.Stderr != nil {
		expect(w, "stderr", string(res.Stderr), *x.Stderr)
	}
	if x.Outcome != "" {
		names := []string{"none", "pending", "committed", "aborted",
			"empty"}
		expect(w, "outcome", names[res.Outcome], x.Outcome)
	}
	if x.Pending != nil {
		expect(w, "pending", sb.Pending(), *x.Pending)
	}
	must(w, res.ChangesError)
	if x.Changes != nil {
		checkChanges(w, res.Changes, *x.Changes)
	}
	if x.Renames != nil {
		checkRenames(w, res.Changes, *x.Renames)
	}
}

func checkChanges(w *world, is []Change, want []map[string]any) {
	w.Helper()
	if len(is) != len(want) {
		w.Fatalf("changes: %s, should be %v", letters(is), want)
	}
	for i, c := range is {
		shown := map[string]any{
			"letter":            string(rune(c.Kind)),
			"path":              c.Path,
			"content_unchanged": c.ContentUnchanged(),
			"before":            shownEntry(c.Before),
			"after":             shownEntry(c.After),
		}
		checkShown(w, fmt.Sprintf("change %d", i), shown, want[i])
	}
}

var entryNames = [...]string{"file", "dir", "symlink", "fifo", "socket", "char",
	"block"}

func shownEntry(e *Entry) any {
	if e == nil {
		return nil
	}
	shown := map[string]any{
		"kind":   entryNames[e.Kind],
		"size":   float64(e.Size),
		"target": e.Target,
		"mode":   fmt.Sprintf("%04o", e.Mode.Perm()),
	}
	if e.Digest != nil {
		shown["sha256"] = hex.EncodeToString(e.Digest[:])
	}
	return shown
}

// checkShown compares what is named in want.
func checkShown(w *world, what string, is, want map[string]any) {
	w.Helper()
	for key, v := range want {
		inner, ok := v.(map[string]any)
		if shown, both := is[key].(map[string]any); ok && both {
			checkShown(w, what+", "+key, shown, inner)
		} else {
			expect(w, what+", "+key, is[key], v)
		}
	}
}

func checkRenames(w *world, changes []Change, want [][2]string) {
	w.Helper()
	found, err := Renames(changes)
	must(w, err)
	is := [][2]string{}
	for _, r := range found {
		is = append(is, [2]string{r.From.Path, r.To.Path})
	}
	expect(w, "renames", is, want)
}

func listOf(v any) []string {
	if s, ok := v.(string); ok {
		return []string{s}
	}
	var list []string
	for _, s := range v.([]any) {
		list = append(list, s.(string))
	}
	return list
}

// textOf is the text of a file of a case, and its mode.
func textOf(w *world, v any) (text string, mode os.FileMode, link bool) {
	mode = 0o644
	if s, ok := v.(string); ok {
		return s, mode, false
	}
	file := v.(map[string]any)
	if target, ok := file["link"]; ok {
		return target.(string), mode, true
	}
	if m, ok := file["mode"]; ok {
		_, err := fmt.Sscanf(m.(string), "%o", &mode)
		must(w, err)
	}
	return file["text"].(string), mode, false
}

func (w *world) writeFiles(files map[string]any) {
	w.Helper()
	for path, v := range files {
		full := filepath.Join(w.work, path)
		text, mode, link := textOf(w, v)
		must(w, os.MkdirAll(filepath.Dir(full), 0o755))
		switch {
		case strings.HasSuffix(path, "/"):
			must(w, os.MkdirAll(full, 0o755))
		case link:
			must(w, os.Symlink(text, full))
		default:
			must(w, os.WriteFile(full, []byte(text), mode))
			must(w, os.Chmod(full, mode))
		}
	}
}

// expectFiles: directories that have something in them need not be named.
func (w *world) expectFiles(files map[string]any) {
	w.Helper()
	want := map[string]string{}
	for path, v := range files {
		text, _, link := textOf(w, v)
		if link {
			text = "-> " + text
		}
		want[path] = text
		for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
			if dir+"/" != path {
				want[dir+"/"] = ""
			}
		}
	}
	is := w.tree()
	if keys(is) != keys(want) {
		w.Fatalf("workdir: has %s, should have %s", keys(is), keys(want))
	}
	expect(w, "workdir", is, want)
}

func keys(m map[string]string) string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	sort.Strings(list)
	return strings.Join(list, " ")
}
