// Policy asks a person about each program that a command wants to run outside
// of /usr and /bin, while everything else goes on.
//
//	go run ./examples/policy make
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	sandlock "github.com/sandlock/sandlock/sdk/go"
)

// A question waits for the person.
type question struct {
	text     string
	approval *sandlock.Approval
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: policy COMMAND [WORD]...")
	}
	questions := make(chan question, 64)
	sb := &sandlock.Sandbox{PolicyFn: &sandlock.PolicyFn{
		Deferred: func(e sandlock.SyscallEvent,
			_ *sandlock.PolicyContext, a *sandlock.Approval) {
			if a != nil {
				decide(e, a, questions)
			}
		},
	}}
	go answer(questions)
	res, err := sb.Run(context.Background(), os.Args[1:]...)
	if err != nil {
		log.Fatal(err)
	}
	_, _ = os.Stdout.Write(res.Stdout)
	_, _ = os.Stderr.Write(res.Stderr)
	if !res.Success {
		os.Exit(1)
	}
}

func decide(e sandlock.SyscallEvent, a *sandlock.Approval,
	questions chan<- question) {
	if e.Category != sandlock.CategoryProcess ||
		strings.HasPrefix(e.Path, "/usr/") ||
		strings.HasPrefix(e.Path, "/bin/") {
		_ = a.Resolve(sandlock.Allow())
		return
	}
	text := fmt.Sprintf("%s wants to run %q as %q", e.Program, e.Path,
		e.Argv)
	select {
	case questions <- question{text, a}:
	default:
		a.Close() // nobody keeps up: denied
	}
}

func answer(questions <-chan question) {
	in := bufio.NewReader(os.Stdin)
	for q := range questions {
		if q.approval.IsCancelled() {
			q.approval.Close()
			continue
		}
		fmt.Fprint(os.Stderr, q.text, ". Allow? [y/N] ")
		line, _ := in.ReadString('\n')
		verdict := sandlock.Deny()
		if line == "y\n" {
			verdict = sandlock.Allow()
		}
		if err := q.approval.Resolve(verdict); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}
