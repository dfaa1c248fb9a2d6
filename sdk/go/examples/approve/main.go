// Approve runs a command and publishes what it changed only if a person says
// so, after having seen it.
//
//	go run ./examples/approve ~/src/project sh -c 'sed -i s/a/b/ *.txt'
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	sandlock "github.com/sandlock/sandlock/sdk/go"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: approve DIRECTORY COMMAND [WORD]...")
	}
	if err := run(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir string, command []string) error {
	sb := &sandlock.Sandbox{
		Workdir: dir,
		OnExit:  sandlock.BranchActionDefer,
		OnError: sandlock.BranchActionAbort,
	}
	// Whatever happens below: what is pending then stays on disk.
	defer sb.Close()

	res, err := sb.Run(ctx, command...)
	if err != nil {
		return err
	}
	_, _ = os.Stdout.Write(res.Stdout)
	_, _ = os.Stderr.Write(res.Stderr)
	if !res.Success {
		return fmt.Errorf("it failed, and nothing is changed")
	}
	if len(res.Changes) == 0 {
		return sb.Abort()
	}
	if err := show(sb, res); err != nil {
		return err
	}
	if !yes("Publish this?") {
		return sb.Abort()
	}
	_, err = sb.CommitWith(ctx, sandlock.CommitOptions{
		Conflicts: sandlock.ConflictsRefuse,
	})
	conflict := (*sandlock.ConflictError)(nil)
	if errors.As(err, &conflict) {
		for _, c := range conflict.Conflicts {
			fmt.Println("changed meanwhile:", c.Path)
		}
	}
	return err
}

func show(sb *sandlock.Sandbox, res *sandlock.Result) error {
	upper, err := sb.UpperDir()
	if err != nil {
		return err
	}
	for _, c := range res.Changes {
		fmt.Println(c)
		if c.After != nil && c.After.Kind == sandlock.EntryFile {
			fmt.Println("  now:", filepath.Join(upper, c.Path))
		}
	}
	renames, err := sandlock.Renames(res.Changes)
	for _, r := range renames {
		fmt.Printf("renamed: %s -> %s\n", r.From.Path, r.To.Path)
	}
	return err
}

func yes(question string) bool {
	fmt.Print(question, " [y/N] ")
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	return line == "y\n"
}
