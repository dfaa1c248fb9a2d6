package sandlock

// #include "bridge.h"
import "C"

import (
	"context"
	"time"
)

// Stage is one command of a Transaction, in a sandbox with rules of its own.
// Fields of the Sandbox that are not about what the command may do, or where it
// works, are those of the first stage. OnExit and OnError are not for stages.
type Stage struct {
	Sandbox *Sandbox
	Command []string
}

// Transaction is several commands, one after the other over one branch: a stage
// sees what the ones before it wrote, and everything is published when the last
// one has succeeded, or nothing is.
type Transaction struct {
	Stages []Stage
	// Timeout is for all of them; 0: none.
	Timeout time.Duration
	// Retries: a stage that fails is undone and run again, up to so many
	// times.
	Retries int
	// KeepStages: when a stage has failed for good only that one is undone.
	// What those before it wrote is pending then, by its name.
	KeepStages bool
	// Host is that of all stages.
	Host Host
}

// TransactionResult is what came of a Transaction.
type TransactionResult struct {
	Name    string // of the branch
	Success bool   // every stage has succeeded
	Outcome Outcome
	// BranchError says why it could not be committed; it is pending then.
	BranchError error
	// Results are those of the stages that were begun. The Changes of each
	// are those of all stages so far.
	Results []*Result
	// Failed is the index of the stage that failed, -1 if none has.
	Failed int
}

// A transaction is the library's side of one.
type transaction struct {
	c   *C.struct_sandlock_transaction
	env *env
	// What the stages' launches point to.
	mem memory
}

func (t *transaction) free() {
	C.sandlock_transaction_free(t.c)
	t.mem.free()
	t.env.free()
}

// Run runs the stages, with their output captured and nothing on standard
// input. A stage that fails is no error; one that cannot be run is, and nothing
// of the branch is left then. When the context ends, the stage that runs is
// killed and the branch discarded. With KeepStages it is pending in both cases,
// with what the stages before wrote, if they wrote anything.
func (t *Transaction) Run(ctx context.Context) (*TransactionResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := t.make(ctx)
	if err != nil {
		return nil, err
	}
	defer c.free()
	done := make(chan struct{})
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		select {
		case <-ctx.Done():
			C.sandlock_transaction_kill(c.c)
		case <-done:
		}
	}()
	res, err := c.runAll(ctx, t)
	close(done)
	<-killed
	if ctx.Err() != nil && (err != nil || !res.Success) {
		err = ctx.Err()
	}
	return res, err
}

func (t *Transaction) make(ctx context.Context) (*transaction, error) {
	var cerr C.struct_sandlock_error

	c := &transaction{env: t.Host.env()}
	r := C.sandlock_transaction_new(c.env.c, &c.c, &cerr)
	err := newError("new", r, &cerr)
	if err == nil && t.hasSavepoints() {
		r := C.sandlock_transaction_set_savepoints(c.c, &cerr)
		err = newError("new", r, &cerr)
	}
	for i := 0; err == nil && i < len(t.Stages); i++ {
		err = c.add(ctx, i, t.Stages[i], t.Host.Logger)
	}
	if err != nil {
		c.free()
		return nil, err
	}
	return c, nil
}

func (t *Transaction) hasSavepoints() bool {
	return t.Retries > 0 || t.KeepStages
}

// runAll runs the stages, those that fail as often as they may.
func (c *transaction) runAll(ctx context.Context, t *Transaction) (
	*TransactionResult, error) {
	left, last := t.Retries, 0

	for {
		res, err := c.run(t.Timeout, len(t.Stages))
		if err == nil && res.Success || !t.hasSavepoints() {
			return res, err
		}
		if err == nil && res.Failed != last {
			left, last = t.Retries, res.Failed
		}
		if err == nil && left > 0 && ctx.Err() == nil {
			left--
			continue
		}
		return res, c.end(t.KeepStages, res, err)
	}
}

// end is for where it has stopped; why is what happened before.
func (c *transaction) end(keep bool, res *TransactionResult, why error) error {
	var result C.struct_sandlock_transaction_result
	var cerr C.struct_sandlock_error
	var what C.enum_sandlock_disposition = C.SANDLOCK_ABORT

	if keep {
		what = C.SANDLOCK_KEEP
	}
	r := C.sandlock_transaction_end(c.c, what, &result, &cerr)
	if why != nil {
		return why
	}
	res.Outcome = Outcome(result.outcome)
	return newError("end", r, &cerr)
}

func (c *transaction) add(ctx context.Context, i int, s Stage,
	logger func(LogLevel, string)) error {
	var cerr C.struct_sandlock_error

	if err := checkText("add", s.Command...); err != nil {
		return err
	}
	if err := s.Sandbox.PolicyFn.check(); err != nil {
		return err
	}
	q, err := s.Sandbox.request()
	if err != nil {
		return err
	}
	defer q.free()
	l := C.struct_sandlock_launch{}
	if len(s.Command) > 0 {
		l.argv = c.mem.words(s.Command)
	}
	l.in.kind = C.SANDLOCK_STDIO_NULL
	l.out.kind = C.SANDLOCK_STDIO_CAPTURE
	l.err.kind = C.SANDLOCK_STDIO_CAPTURE
	err = newError("add", C.sandlock_transaction_add(c.c, q.c, &l, &cerr),
		&cerr)
	if err != nil {
		return err
	}
	stage := C.sandlock_transaction_stage(c.c, C.size_t(i))
	if err := setPolicy(nil, stage, s.Sandbox.PolicyFn, logger); err != nil {
		return err
	}
	return setHandlers(ctx, nil, stage, s.Sandbox, logger)
}

func (c *transaction) run(timeout time.Duration, stages int) (
	*TransactionResult, error) {
	var result C.struct_sandlock_transaction_result
	var cerr C.struct_sandlock_error

	// A part of a millisecond is more than none.
	ms := (timeout + time.Millisecond - 1).Milliseconds()
	r := C.sandlock_transaction_run(c.c, C.uint64_t(ms), &result, &cerr)
	if err := newError("run", r, &cerr); err != nil {
		return nil, err
	}
	res := &TransactionResult{
		Name:    C.GoString(&result.name[0]),
		Success: int(result.failed) == stages,
		Outcome: Outcome(result.outcome),
		Failed:  -1,
	}
	if !res.Success {
		res.Failed = int(result.failed)
	}
	if result.outcome_error.kind != C.SANDLOCK_ERR_NONE {
		res.BranchError = errorOf("commit", &result.outcome_error)
	}
	for i := 0; i < int(result.n_run); i++ {
		report := C.sandlock_transaction_report(c.c, C.size_t(i))
		if report != nil {
			// It runs on nothing that could be killed.
			res.Results = append(res.Results, resultOf(report, nil))
		}
	}
	return res, nil
}
