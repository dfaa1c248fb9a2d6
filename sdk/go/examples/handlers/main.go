// Handlers serves files that are nowhere: what is opened below /secrets comes
// from a vault, and the command is the only one that ever has it.
//
//	go run ./examples/handlers cat /secrets/token
package main

import (
	"context"
	"log"
	"os"
	"strings"
	"syscall"

	sandlock "github.com/sandlock/sandlock/sdk/go"
)

var vault = map[string]string{"token": "s3cret\n"}

// serve answers an openat(2). It is not told of other ways to open a file: what
// is nowhere cannot be opened by them either.
func serve(_ context.Context, call *sandlock.Call) sandlock.Action {
	path, err := call.ReadString(call.Args[1], 4096)
	if err != nil || !strings.HasPrefix(path, "/secrets/") {
		return sandlock.ActionContinue()
	}
	secret, ok := vault[strings.TrimPrefix(path, "/secrets/")]
	if !ok {
		return sandlock.ActionErrno(syscall.ENOENT)
	}
	return sandlock.ActionBytes([]byte(secret))
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: handlers COMMAND [WORD]...")
	}
	sb := &sandlock.Sandbox{Handlers: []sandlock.Handler{{
		Syscall:     "openat",
		Func:        serve,
		OnException: sandlock.ExceptionDenyEIO,
	}}}
	res, err := sb.Run(context.Background(), os.Args[1:]...)
	if err != nil {
		log.Fatal(err)
	}
	os.Stdout.Write(res.Stdout)
	os.Stderr.Write(res.Stderr)
	os.Exit(res.ExitCode)
}
