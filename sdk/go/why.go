package sandlock

// #include "bridge.h"
import "C"

import (
	"encoding/json"
	"runtime/cgo"
)

// Verdict is what an explanation comes to.
type Verdict int

// Verdicts.
const (
	Allowed    Verdict = C.SANDLOCK_ALLOWED
	Denied     Verdict = C.SANDLOCK_DENIED
	CannotTell Verdict = C.SANDLOCK_CANNOT_TELL
)

// Why is whether a sandbox can do something, and why.
type Why struct {
	What    string // "read", "write", "call"
	Verdict Verdict
	Because string
	Remedy  string // an option of `sandlock run`, or ""
}

//export goWhy
func goWhy(handle C.uintptr_t, w *C.struct_sandlock_why) C.int {
	list := cgo.Handle(handle).Value().(*[]Why)
	*list = append(*list, Why{
		What:    C.GoString(w.what),
		Verdict: Verdict(w.verdict),
		Because: C.GoString(w.because),
		Remedy:  C.GoString(w.remedy),
	})
	return 0
}

// Explain tells whether a sandbox that runs can do something: word is an
// absolute path, or the name of a system call.
func (h Host) Explain(name, word string) ([]Why, error) {
	var list []Why
	var mem memory

	if err := checkText("explain", word); err != nil {
		return nil, err
	}
	defer mem.free()
	f := cgo.NewHandle(&list)
	defer f.Delete()
	err := h.named("explain", name, func(e *env, n *C.char,
		cerr *C.struct_sandlock_error) C.int {
		return C.bridge_explain(e.c, n, mem.word(word), C.uintptr_t(f),
			cerr)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// State is the state of a sandbox as the OCI runtime specification has it.
func (h Host) State(name string) (json.RawMessage, error) {
	var text *C.char

	err := h.named("state", name, func(e *env, n *C.char,
		cerr *C.struct_sandlock_error) C.int {
		return C.sandlock_state(e.c, n, &text, cerr)
	})
	if err != nil {
		return nil, err
	}
	return json.RawMessage(take(text)), nil
}
