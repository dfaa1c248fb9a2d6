package sandlock

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"
)

func TestProtectionsAreThoseOfTheLibrary(t *testing.T) {
	for p := range protections {
		sb := &Sandbox{Disable: []Protection{Protection(p)}}
		q, err := sb.request()
		must(t, err)
		q.free()
	}
	_, err := (&Sandbox{Disable: []Protection{99}}).request()
	expectIs(t, err, ErrUsage)
	expect(t, "of none", ProtectionMinABI(99), -1)
	expect(t, "of all", MinLandlockABI(), 6)
	expect(t, "of one", ProtectionMinABI(ProtectionNetTCP), 4)
}

func TestConfineIsOfOneGoroutine(t *testing.T) {
	if LandlockABIVersion() < MinLandlockABI() {
		t.Skipf("Landlock %d", LandlockABIVersion())
	}
	w := newWorld(t)
	w.write("f", "text")
	expectIs(t, Confine(&Sandbox{Workdir: w.work}), ErrUnsupported)

	done := make(chan error)
	var confine func()
	confine = func() {
		// The main thread stands for the process, which the other tests
		// would find confined: it is held until another one was taken.
		runtime.LockOSThread()
		if syscall.Gettid() == os.Getpid() {
			defer runtime.UnlockOSThread()
			next := make(chan struct{})
			go func() {
				defer close(next)
				confine()
			}()
			<-next
			return
		}
		err := Confine(&Sandbox{FSReadable: []string{"/usr"}})
		if err == nil {
			_, err = os.ReadFile(w.work + "/f")
			if errors.Is(err, syscall.EACCES) {
				_, err = os.ReadDir("/usr")
			} else if err == nil {
				err = errors.New("it was read")
			}
		}
		done <- err
	}
	go confine()
	must(t, <-done)
	_, err := os.ReadFile(w.work + "/f")
	must(t, err)
}
