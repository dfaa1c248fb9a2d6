// Branches lists what waits for a decision, and shows or makes it.
//
//	go run ./examples/branches [NAME [commit|abort]]
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	sandlock "github.com/sandlock/sandlock/sdk/go"
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background(), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	host := sandlock.Host{}
	switch len(args) {
	case 0:
		return list(host)
	case 1:
		return show(ctx, host, args[0])
	}
	switch args[1] {
	case "commit":
		_, err := host.Commit(ctx, args[0], sandlock.CommitOptions{
			Conflicts: sandlock.ConflictsRefuse,
		})
		return err
	case "abort":
		return host.Abort(args[0])
	}
	return fmt.Errorf("'%s' is neither commit nor abort", args[1])
}

func list(host sandlock.Host) error {
	branches, err := host.Branches()
	for _, b := range branches {
		fmt.Printf("%-20s %-10s %s: %s\n", b.Name, b.State, b.Lower,
			b.Command)
	}
	return err
}

func show(ctx context.Context, host sandlock.Host, name string) error {
	changes, err := host.Diff(ctx, name,
		sandlock.DiffOptions{Conflicts: true})
	for _, c := range changes {
		fmt.Println(c)
		if c.Flags&sandlock.FlagConflict != 0 {
			fmt.Println("  conflict:", c.Conflict)
		}
	}
	return err
}
