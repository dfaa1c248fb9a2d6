package sandlock

// #include "bridge.h"
import "C"

import (
	"context"
	"runtime/cgo"
	"syscall"
	"time"
)

// Denial is something that was refused to a sandbox, and why.
type Denial struct {
	Code    string        // "syscall.mount", "net.connect_tcp"
	Call    string        // "mount"
	Errno   syscall.Errno // what it got
	Object  string        // a path, an address
	Rule    string        // which rule
	Where   string        // the file and the line that it stands in
	Remedy  string        // the narrowest option that would allow it
	Program string
	Pid     int // of the last time
	Count   uint64
	First   time.Time
	Last    time.Time
}

//export goDenial
func goDenial(handle C.uintptr_t, d *C.struct_sandlock_denial) C.int {
	return cgo.Handle(handle).Value().(func(Denial) C.int)(Denial{
		Code:    C.GoString(d.code),
		Call:    C.GoString(d.call),
		Errno:   syscall.Errno(d.error),
		Object:  C.GoString(d.object),
		Rule:    C.GoString(d.rule),
		Where:   C.GoString(d.where),
		Remedy:  C.GoString(d.remedy),
		Program: C.GoString(d.program),
		Pid:     int(d.pid),
		Count:   uint64(d.count),
		First:   time.Unix(int64(d.first.tv_sec), int64(d.first.tv_nsec)),
		Last:    time.Unix(int64(d.last.tv_sec), int64(d.last.tv_nsec)),
	})
}

// Denials are what was refused to a sandbox that runs, or has ended with a
// branch that is pending; the oldest first.
func (h Host) Denials(ctx context.Context, name string) ([]Denial, error) {
	var list []Denial

	f := cgo.NewHandle(func(d Denial) C.int {
		if ctx.Err() != nil {
			return -C.int(syscall.ECANCELED)
		}
		list = append(list, d)
		return 0
	})
	defer f.Delete()
	err := h.named("denials", name, func(e *env, n *C.char,
		cerr *C.struct_sandlock_error) C.int {
		return C.bridge_denials(e.c, n, C.uintptr_t(f), cerr)
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return list, err
}
