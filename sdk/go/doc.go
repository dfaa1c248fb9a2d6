// Package sandlock runs commands in a sandbox, on a copy-on-write branch of the
// directory they work in, shows what they changed, and then publishes or
// discards it.
//
//	sb := &sandlock.Sandbox{Workdir: dir, OnExit: sandlock.BranchActionDefer}
//	defer sb.Close()
//	res, err := sb.Run(ctx, "make", "test")
//	if err != nil {
//		return err
//	}
//	for _, c := range res.Changes {
//		fmt.Println(c)
//	}
//	if approve(res.Changes, sb) {
//		return sb.Commit(ctx)
//	}
//	return sb.Abort()
//
// The package is a thin layer over libsandlock, which it finds by pkg-config.
// What serves a sandbox is a process of its own; in this one there is nothing
// but a thread for each command that runs, in wait. Everything may be called
// from any goroutine, and no goroutine is tied to a thread.
//
// Finalizers are the fallback for what is dropped without Close: a command that
// runs is killed, a pending branch stays on disk and is found by name
// ([Host.Branches]). Nothing is ever published by dropping it.
package sandlock

// #cgo pkg-config: libsandlock
// #include "bridge.h"
import "C"

import (
	"runtime/cgo"
	"unsafe"
)

// Version is that of the library in use.
func Version() string { return C.GoString(C.sandlock_version()) }

// take copies a string that the library gave us, and frees it.
func take(s *C.char) string {
	defer C.free(unsafe.Pointer(s))
	return C.GoString(s)
}

// A memory holds C strings and arrays until free.
type memory struct{ blocks []unsafe.Pointer }

func (m *memory) free() {
	for _, b := range m.blocks {
		C.free(b)
	}
	m.blocks = nil
}

// str is NULL for "".
func (m *memory) str(s string) *C.char {
	if s == "" {
		return nil
	}
	return m.word(s)
}

func (m *memory) word(s string) *C.char {
	c := C.CString(s)
	m.blocks = append(m.blocks, unsafe.Pointer(c))
	return c
}

// words is an array that ends with NULL; nil gives NULL.
func (m *memory) words(v []string) **C.char {
	if v == nil {
		return nil
	}
	p := C.calloc(C.size_t(len(v)+1), C.size_t(unsafe.Sizeof((*C.char)(nil))))
	m.blocks = append(m.blocks, p)
	array := unsafe.Slice((**C.char)(p), len(v))
	for i, s := range v {
		array[i] = m.word(s)
	}
	return (**C.char)(p)
}

func (m *memory) ints(v []int) *C.int {
	if len(v) == 0 {
		return nil
	}
	p := C.calloc(C.size_t(len(v)), C.size_t(unsafe.Sizeof(C.int(0))))
	m.blocks = append(m.blocks, p)
	for i, n := range v {
		unsafe.Slice((*C.int)(p), len(v))[i] = C.int(n)
	}
	return (*C.int)(p)
}

// bytesOf copies; C.GoBytes takes an int of C, and 2 GiB are more.
func bytesOf(p *C.char, n C.size_t) []byte {
	if p == nil {
		return nil
	}
	return append([]byte{}, unsafe.Slice((*byte)(unsafe.Pointer(p)), n)...)
}

//export goLog
func goLog(handle C.uintptr_t, level C.int, msg *C.char) {
	cgo.Handle(handle).Value().(func(LogLevel, string))(
		LogLevel(level), C.GoString(msg))
}
