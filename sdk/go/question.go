package sandlock

// #include "bridge.h"
import "C"

import (
	"context"
	"encoding/json"
	"os"
	"runtime/cgo"
	"syscall"
	"time"
)

// Question is what somebody is asked about by a rule ("ask.exec" and the like,
// by "ask.by" = "socket"), of any sandbox of this host.
type Question struct {
	ID      string // names this very question, and what it says
	State   string // waiting, allowed, denied, expired, withdrawn
	What    string // in words, escaped: "run '/bin/x' as 'x -v'"
	Cut     bool   // What does not say all
	Rule    string // why it is asked
	Program string // who wants it
	Pid     int
	Count   uint // how often it was asked
	Left    time.Duration
	By      string // who answered
	Reason  string
	JSON    json.RawMessage // all of it
}

//export goQuestion
func goQuestion(handle C.uintptr_t, q *C.struct_sandlock_question) C.int {
	return cgo.Handle(handle).Value().(func(Question) C.int)(Question{
		ID:      C.GoString(q.id),
		State:   C.GoString(q.state),
		What:    C.GoString(q.what),
		Cut:     bool(q.is_cut),
		Rule:    C.GoString(q.rule),
		Program: C.GoString(q.program),
		Pid:     int(q.pid),
		Count:   uint(q.count),
		Left:    time.Duration(q.seconds_left) * time.Second,
		By:      C.GoString(q.by),
		Reason:  C.GoString(q.reason),
		JSON:    json.RawMessage(C.GoString(q.json)),
	})
}

// Questions are those of a sandbox that are open, in order.
func (h Host) Questions(name string) ([]Question, error) {
	var list []Question

	f := cgo.NewHandle(func(q Question) C.int {
		list = append(list, q)
		return 0
	})
	defer f.Delete()
	err := h.named("questions", name, func(e *env, n *C.char,
		cerr *C.struct_sandlock_error) C.int {
		return C.bridge_questions(e.c, n, C.uintptr_t(f), cerr)
	})
	return list, err
}

// WatchQuestions calls f for those that are open, and for each that is asked or
// closed, until the sandbox ends, or the context does, or f returns an error,
// which is returned.
func (h Host) WatchQuestions(ctx context.Context, name string,
	f func(Question) error) error {
	var failed error

	// C watches until what it has of the pipe is at its end.
	stopped, stop, err := os.Pipe()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
		case <-done:
		}
		stop.Close()
		close(ended)
	}()
	handle := cgo.NewHandle(func(q Question) C.int {
		if failed = f(q); failed == nil {
			failed = ctx.Err()
		}
		if failed != nil {
			return -C.int(syscall.ECANCELED)
		}
		return 0
	})
	err = h.named("watch", name, func(e *env, n *C.char,
		cerr *C.struct_sandlock_error) C.int {
		e.c.stop_fd = e.mem.ints([]int{int(stopped.Fd())})
		return C.bridge_watch_questions(e.c, n, C.uintptr_t(handle), cerr)
	})
	close(done)
	<-ended
	handle.Delete()
	stopped.Close()
	if failed != nil {
		return failed
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Decide answers a question: errno 0 allows, else it is what the caller gets.
// ErrNotFound, ErrState where it is closed already, ErrConflict where the id
// means another question.
func (h Host) Decide(name, id string, errno syscall.Errno, by,
	reason string) error {
	var mem memory

	if err := checkText("decide", id, by, reason); err != nil {
		return err
	}
	defer mem.free()
	return h.named("decide", name, func(e *env, n *C.char,
		cerr *C.struct_sandlock_error) C.int {
		return C.sandlock_decide(e.c, n, mem.word(id), C.int(errno),
			mem.word(by), mem.str(reason), cerr)
	})
}
