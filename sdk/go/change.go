package sandlock

// #include "bridge.h"
import "C"

import (
	"io/fs"
	"runtime/cgo"
	"syscall"
	"time"
	"unsafe"
)

// ChangeKind says what became of a path.
type ChangeKind byte

// Kinds, as `sandlock diff` prints them.
const (
	ChangeAdded    ChangeKind = 'A'
	ChangeModified ChangeKind = 'M' // opened for writing, or another target
	ChangeMetadata ChangeKind = 'm' // mode, owner, xattrs or time only
	ChangeDeleted  ChangeKind = 'D'
	ChangeType     ChangeKind = 'T' // another type, or a directory replaced
)

// EntryKind says what a path is.
type EntryKind uint8

// Kinds of entries; there is no Entry for what does not exist.
const (
	EntryFile EntryKind = iota
	EntryDir
	EntrySymlink
	EntryFIFO
	EntrySocket
	EntryCharDevice
	EntryBlockDevice
)

// Entry is one side of a Change.
type Entry struct {
	Kind   EntryKind
	Mode   fs.FileMode // permission, set-id and sticky bits
	Size   int64       // of a file, else 0
	Digest *[32]byte   // SHA-256 of a file, where it is known
	Target string      // of a symlink

	// Only from Host.Diff.
	UID, GID uint32
	Rdev     uint64
	ModTime  time.Time
}

// ChangeFlag says more about a Change.
type ChangeFlag uint

// Flags, as the C API has them.
const (
	FlagContentSame ChangeFlag = C.SANDLOCK_CHANGE_CONTENT_SAME
	FlagMtimeOnly   ChangeFlag = C.SANDLOCK_CHANGE_MTIME_ONLY
	FlagConflict    ChangeFlag = C.SANDLOCK_CHANGE_CONFLICT
	FlagOpaque      ChangeFlag = C.SANDLOCK_CHANGE_OPAQUE
	FlagLink        ChangeFlag = C.SANDLOCK_CHANGE_LINK
	FlagLinkBroken  ChangeFlag = C.SANDLOCK_CHANGE_LINK_BROKEN
	FlagSetID       ChangeFlag = C.SANDLOCK_CHANGE_SETID
	FlagSpecial     ChangeFlag = C.SANDLOCK_CHANGE_SPECIAL
	FlagAbsent      ChangeFlag = C.SANDLOCK_CHANGE_ABSENT
	FlagImplied     ChangeFlag = C.SANDLOCK_CHANGE_IMPLIED
	FlagStaleLock   ChangeFlag = C.SANDLOCK_CHANGE_STALE_LOCK
)

// Change is what became of one path.
type Change struct {
	Kind   ChangeKind
	Path   string // relative to the working directory
	Root   string // that directory; "" from Host.Diff if there is one only
	Flags  ChangeFlag
	Before *Entry // nil: did not exist
	After  *Entry // nil: does not exist

	// Only from Host.Diff.
	LinkTo   string // with FlagLink: the other name
	Xattrs   string // "+user.k -user.j ~user.l"
	Conflict string // with FlagConflict: why
}

// ContentUnchanged: it was opened for writing, but has the bytes it had. A
// commit leaves those alone.
func (c Change) ContentUnchanged() bool {
	return c.Flags&FlagContentSame != 0
}

// TypeChanged: there is something on both sides, but not of the same kind.
func (c Change) TypeChanged() bool {
	return c.Before != nil && c.After != nil && c.Before.Kind != c.After.Kind
}

func (c Change) String() string {
	return string(rune(c.Kind)) + " " + c.Path
}

// Rename is a file that is deleted here and made there, with equal bytes.
type Rename struct{ From, To Change }

// Renames finds the renamed files among the changes of a Result.
func Renames(changes []Change) ([]Rename, error) {
	var found *C.struct_sandlock_rename
	var n C.size_t
	var cerr C.struct_sandlock_error
	var mem memory
	var list []Rename

	if len(changes) == 0 {
		return nil, nil
	}
	defer mem.free()
	p := C.calloc(C.size_t(len(changes)),
		C.size_t(unsafe.Sizeof(C.struct_sandlock_changed{})))
	mem.blocks = append(mem.blocks, p)
	array := unsafe.Slice((*C.struct_sandlock_changed)(p), len(changes))
	for i, c := range changes {
		array[i].letter = C.char(c.Kind)
		array[i].flags = C.uint(c.Flags)
		array[i].path = mem.word(c.Path)
		array[i].root = mem.word(c.Root)
		fillEntry(&array[i].before, c.Before, &mem)
		fillEntry(&array[i].after, c.After, &mem)
	}
	r := C.sandlock_renames(&array[0], C.size_t(len(changes)), &found, &n,
		&cerr)
	if err := newError("renames", r, &cerr); err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(found))
	for _, r := range unsafe.Slice(found, int(n)) {
		list = append(list, Rename{changes[r.from], changes[r.to]})
	}
	return list, nil
}

func fillEntry(to *C.struct_sandlock_entry, from *Entry, mem *memory) {
	if from == nil {
		return
	}
	to.kind = C.enum_sandlock_entry_kind(from.Kind + 1)
	to.mode = C.mode_t(from.Mode.Perm())
	to.size = C.uint64_t(from.Size)
	to.target = mem.str(from.Target)
	if from.Digest != nil {
		to.has_digest = true
		for i, b := range from.Digest {
			to.digest[i] = C.uchar(b)
		}
	}
}

// permissions has those bits of a C mode that an Entry shows.
func permissions(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	if mode&syscall.S_ISUID != 0 {
		m |= fs.ModeSetuid
	}
	if mode&syscall.S_ISGID != 0 {
		m |= fs.ModeSetgid
	}
	if mode&syscall.S_ISVTX != 0 {
		m |= fs.ModeSticky
	}
	return m
}

func entryKind(mode uint32) EntryKind {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return EntryDir
	case syscall.S_IFLNK:
		return EntrySymlink
	case syscall.S_IFIFO:
		return EntryFIFO
	case syscall.S_IFSOCK:
		return EntrySocket
	case syscall.S_IFCHR:
		return EntryCharDevice
	case syscall.S_IFBLK:
		return EntryBlockDevice
	}
	return EntryFile
}

func sideOf(s *C.struct_sandlock_side) *Entry {
	mode := uint32(s.mode)
	if mode == 0 {
		return nil
	}
	e := &Entry{
		Kind:    entryKind(mode),
		Mode:    permissions(mode),
		Target:  C.GoString(s.link_target),
		UID:     uint32(s.uid),
		GID:     uint32(s.gid),
		Rdev:    uint64(s.rdev),
		ModTime: time.Unix(int64(s.mtime.tv_sec), int64(s.mtime.tv_nsec)),
	}
	if e.Kind == EntryFile {
		e.Size = int64(s.size)
	}
	return e
}

//export goChange
func goChange(handle C.uintptr_t, c *C.struct_sandlock_change) C.int {
	return cgo.Handle(handle).Value().(func(Change) C.int)(Change{
		Kind:     ChangeKind(c.letter),
		Path:     C.GoString(c.path),
		Root:     C.GoString(c.root),
		Flags:    ChangeFlag(c.flags),
		Before:   sideOf(&c.before),
		After:    sideOf(&c.after),
		LinkTo:   C.GoString(c.link_to),
		Xattrs:   C.GoString(c.xattrs),
		Conflict: C.GoString(c.conflict),
	})
}

// withHandle lends f to C for one call.
func withHandle(f func(Change) C.int, call func(C.uintptr_t) C.int) C.int {
	h := cgo.NewHandle(f)
	defer h.Delete()
	return call(C.uintptr_t(h))
}

func entryOf(e *C.struct_sandlock_entry) *Entry {
	if e.kind == C.SANDLOCK_ENTRY_NONE {
		return nil
	}
	entry := &Entry{
		Kind:   EntryKind(e.kind - 1),
		Mode:   permissions(uint32(e.mode)),
		Size:   int64(e.size),
		Target: C.GoString(e.target),
	}
	if e.has_digest {
		digest := [32]byte{}
		for i := range digest {
			digest[i] = byte(e.digest[i])
		}
		entry.Digest = &digest
	}
	return entry
}

func changesOf(report *C.struct_sandlock_report) []Change {
	list := make([]Change, 0, int(report.n_changes))
	for _, c := range unsafe.Slice(report.changes, int(report.n_changes)) {
		list = append(list, Change{
			Kind:   ChangeKind(c.letter),
			Path:   C.GoString(c.path),
			Root:   C.GoString(c.root),
			Flags:  ChangeFlag(c.flags),
			Before: entryOf(&c.before),
			After:  entryOf(&c.after),
		})
	}
	return list
}
