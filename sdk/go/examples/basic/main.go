// Basic runs a command in the current directory and shows what it changed,
// without keeping any of it.
//
//	go run ./examples/basic make test
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	sandlock "github.com/sandlock/sandlock/sdk/go"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: basic COMMAND [WORD]...")
	}
	// The first interrupt ends the command, and so the program.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	sb := &sandlock.Sandbox{
		MaxMemory: "1G",
		Timeout:   10 * time.Minute,
		OnExit:    sandlock.BranchActionAbort,
	}
	res, err := sb.Run(ctx, os.Args[1:]...)
	if err != nil {
		log.Fatal(err)
	}
	_, _ = os.Stdout.Write(res.Stdout)
	_, _ = os.Stderr.Write(res.Stderr)
	for _, c := range res.Changes {
		if !c.ContentUnchanged() {
			fmt.Println(c)
		}
	}
	if !res.Success {
		stop()
		os.Exit(1)
	}
}
