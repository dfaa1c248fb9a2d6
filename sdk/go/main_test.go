package sandlock

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain looks for what the tests have left behind: descriptors, children
// and goroutines.
func TestMain(m *testing.M) {
	before := descriptors()
	goroutines := runtime.NumGoroutine()
	code := m.Run()
	if left := leftOf(before, goroutines); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "left behind:", left)
		code = 1
	}
	os.Exit(code)
}

// descriptors are those that the runtime of Go does not make for itself.
func descriptors() map[string]string {
	found := map[string]string{}
	names, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range names {
		target, err := os.Readlink(name)
		if err == nil && !strings.HasPrefix(target, "anon_inode:[event") {
			found[name] = target
		}
	}
	return found
}

func children() string {
	text := ""
	names, _ := filepath.Glob("/proc/self/task/*/children")
	for _, name := range names {
		data, _ := os.ReadFile(name)
		text += string(data)
	}
	return text
}

// leftOf waits for what ends by itself, finalizers among them.
func leftOf(before map[string]string, goroutines int) string {
	left := ""
	for end := time.Now().Add(time.Minute); ; {
		runtime.GC()
		left = ""
		for name, target := range descriptors() {
			if before[name] != target {
				left += fmt.Sprintf("%s -> %s; ", name, target)
			}
		}
		if pids := children(); pids != "" {
			left += "children " + pids + "; "
		}
		if n := runtime.NumGoroutine() - goroutines; n > 0 {
			stacks := make([]byte, 1<<16)
			left += fmt.Sprintf("%d goroutines\n%s", n,
				stacks[:runtime.Stack(stacks, true)])
		}
		if left == "" || time.Now().After(end) {
			return left
		}
		time.Sleep(20 * time.Millisecond)
	}
}
