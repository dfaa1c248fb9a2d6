package sandlock

// #include "bridge.h"
import "C"

import (
	"fmt"
	"runtime"
	"syscall"
)

const (
	sysLandlockCreateRuleset     = 444
	landlockCreateRulesetVersion = 1
)

// LandlockABIVersion is what the running kernel has, -1 if it has no Landlock.
func LandlockABIVersion() int {
	abi, _, errno := syscall.RawSyscall(sysLandlockCreateRuleset, 0, 0,
		landlockCreateRulesetVersion)
	if errno != 0 {
		return -1
	}
	return int(abi)
}

// Protection is a part of Landlock that a Sandbox may do without.
type Protection uint32

// Protections.
const (
	ProtectionFSRefer                 Protection = iota // linking and renaming across directories
	ProtectionFSTruncate                                // truncation
	ProtectionNetTCP                                    // bind and connect
	ProtectionFSIoctlDev                                // ioctl on devices
	ProtectionSignalScope                               // signals to the outside
	ProtectionAbstractUnixSocketScope                   // abstract sockets outside
)

// Their names are keys of the library, which the tests hold against it.
var protections = [...]struct {
	name string
	abi  int
}{
	ProtectionFSRefer:                 {"fs-refer", 2},
	ProtectionFSTruncate:              {"fs-truncate", 3},
	ProtectionNetTCP:                  {"net-tcp", 4},
	ProtectionFSIoctlDev:              {"fs-ioctl-dev", 5},
	ProtectionSignalScope:             {"signal-scope", 6},
	ProtectionAbstractUnixSocketScope: {"abstract-unix-scope", 6},
}

func (p Protection) String() string {
	if int(p) < len(protections) {
		return protections[p].name
	}
	return fmt.Sprintf("protection %d", uint32(p))
}

// ProtectionMinABI is the version of Landlock that has a protection, -1 if
// there is no such protection.
func ProtectionMinABI(p Protection) int {
	if int(p) < len(protections) {
		return protections[p].abi
	}
	return -1
}

// MinLandlockABI is what a Sandbox takes that does without nothing.
func MinLandlockABI() int {
	highest := 0
	for _, p := range protections {
		if p.abi > highest {
			highest = p.abi
		}
	}
	return highest
}

// Confine confines the calling goroutine for good, without a sandbox: files by
// Landlock, system calls by a filter, no sockets but AF_UNIX. The goroutine is
// locked to its thread, which ends with it; what it executes is confined, too.
// Other goroutines, and what this one makes, are not.
//
// A process is judged by its main thread: once that one is confined, sandboxes
// refuse to answer the process (Questions, Denials and the like).
//
// Of the fields FSReadable, FSWritable, ExtraAllowSyscalls, ExtraDenySyscalls,
// AllowDegraded and Disable mean something here; with another one it is
// ErrUnsupported, and nothing was done. After any other failure the goroutine
// may be confined in part.
func Confine(s *Sandbox) error {
	var cerr C.struct_sandlock_error

	q, err := s.request()
	if err != nil {
		return err
	}
	defer q.free()
	e := s.Host.env()
	defer e.free()
	runtime.LockOSThread()
	r := C.sandlock_confine(e.c, q.c, &cerr)
	if r < 0 && cerr.kind == C.SANDLOCK_ERR_UNSUPPORTED {
		runtime.UnlockOSThread()
	}
	return newError("confine", r, &cerr)
}
