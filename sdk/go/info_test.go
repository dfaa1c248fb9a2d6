package sandlock

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestVersionAndFeatures(t *testing.T) {
	if Version() == "" {
		t.Error("no version")
	}
	raw, err := Features()
	must(t, err)
	var features struct {
		OciVersionMax string `json:"ociVersionMax"`
	}
	must(t, json.Unmarshal(raw, &features))
	if features.OciVersionMax == "" {
		t.Errorf("no version in %s", raw)
	}
}

func TestCheck(t *testing.T) {
	c, err := newWorld(t).Check()
	must(t, err)
	if len(c.Rows) == 0 || c.Rows[0].Name == "" {
		t.Fatalf("rows: %+v", c.Rows)
	}
	abi := LandlockABIVersion()
	if abi < 0 {
		abi = 0
	}
	expect(t, "Landlock", c.LandlockABI, abi)
}

func TestDeniedSyscalls(t *testing.T) {
	list, err := DeniedSyscalls()
	must(t, err)
	for _, s := range list {
		if s.Name == "unshare" {
			expect(t, "errno", s.Errno, "EPERM")
			expect(t, "group", s.Group, "namespace")
			return
		}
	}
	t.Errorf("unshare is not in %+v", list)
}

func TestProfiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SANDLOCK_CONFIG_DIR", dir)
	must(t, os.Mkdir(dir+"/profiles", 0o755))
	path := dir + "/profiles/dev.toml"
	must(t, os.WriteFile(path, []byte("[limits]\nprocesses = 9\n"), 0o644))
	names, err := Profiles()
	must(t, err)
	found := false
	for _, n := range names {
		found = found || n == "dev"
	}
	if !found {
		t.Errorf("profiles: %q", names)
	}
	is, err := ProfilePath("dev")
	must(t, err)
	expect(t, "path", is, path)
	_, err = ProfilePath("no-such-profile")
	expectIs(t, err, ErrNotFound)
}

func TestErrors(t *testing.T) {
	e := &Error{Kind: ErrNotFound, Errno: syscall.ENOENT, Step: "open",
		Message: "no 'x'", Hint: "make one"}
	expect(t, "text", e.Error(), "sandlock: open: no 'x' (make one)")
	for _, is := range []error{ErrNotFound, fs.ErrNotExist, syscall.ENOENT} {
		expectIs(t, e, is)
	}
	if errors.Is(e, ErrConflict) || errors.Is(e, fs.ErrExist) {
		t.Error("it is too much at once")
	}
	e = &Error{Kind: ErrExists, Step: "create"}
	expectIs(t, e, fs.ErrExist)
	expect(t, "without errno", errors.Unwrap(e), nil)
	expect(t, "unknown kind", ErrorKind(99).Error(), "error kind 99")
}

func TestActionsAreNumberedAsInTheSeeds(t *testing.T) {
	for want, a := range []BranchAction{BranchActionDefault,
		BranchActionCommit, BranchActionAbort, BranchActionKeep,
		BranchActionDefer} {
		expect(t, a.String(), int(a), want)
	}
	expect(t, "none", BranchAction(9).String(), "invalid")
}
