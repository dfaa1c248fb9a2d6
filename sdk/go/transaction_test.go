package sandlock

import (
	"context"
	"testing"
	"time"
)

func (w *world) transaction(scripts ...string) *Transaction {
	t := &Transaction{Host: w.Host}
	for _, s := range scripts {
		t.Stages = append(t.Stages, Stage{w.sandbox(),
			[]string{"sh", "-c", s}})
	}
	return t
}

func TestTransactionIsPublishedWhole(t *testing.T) {
	w := newWorld(t)
	w.write("f", "old\n")
	tr := w.transaction("echo 1 >f; echo one", "cat f; echo 2 >>f", "rm -f g")
	res, err := tr.Run(background)
	must(t, err)
	expect(t, "success", res.Success, true)
	expect(t, "outcome", res.Outcome, OutcomeCommitted)
	expect(t, "failed", res.Failed, -1)
	expect(t, "stages", len(res.Results), 3)
	expect(t, "the first one's output", string(res.Results[0].Stdout),
		"one\n")
	expect(t, "the second one's output", string(res.Results[1].Stdout),
		"1\n")
	expect(t, "changes", letters(res.Results[2].Changes), "M f")
	w.expectTree(map[string]string{"f": "1\n2\n"})
	expect(t, "branches", w.branchNames(), []string{})
}

func TestTransactionOfBundles(t *testing.T) {
	w := newWorld(t)
	bundle := w.makeBundle()
	tr := w.transaction("echo 1 >f", "busybox cat f; echo 2 >>f")
	for i := range tr.Stages {
		s := &tr.Stages[i]
		s.Sandbox.Workdir, s.Sandbox.Bundle = "", bundle
		s.Command = append([]string{"/bin/busybox"}, s.Command...)
	}
	res, err := tr.Run(background)
	must(t, err)
	expect(t, "success", res.Success, true)
	expect(t, "the second one's output", string(res.Results[1].Stdout),
		"1\n")
	w.expectTree(map[string]string{"f": "1\n2\n"})
}

func TestTransactionThatFails(t *testing.T) {
	w := newWorld(t)
	w.write("f", "old\n")
	tr := w.transaction("echo 1 >f", "echo 2 >f; exit 3", "echo 3 >f")
	res, err := tr.Run(background)
	must(t, err)
	expect(t, "success", res.Success, false)
	expect(t, "outcome", res.Outcome, OutcomeAborted)
	expect(t, "failed", res.Failed, 1)
	expect(t, "stages", len(res.Results), 2)
	expect(t, "exit code", res.Results[1].ExitCode, 3)
	w.expectTree(map[string]string{"f": "old\n"})
	expect(t, "branches", w.branchNames(), []string{})
}

// SEEDS row 38.
func TestStagesDecideNothing(t *testing.T) {
	w := newWorld(t)
	for _, a := range []BranchAction{BranchActionAbort, BranchActionKeep,
		BranchActionDefer} {
		tr := w.transaction("echo 1 >f", "echo 2 >g")
		tr.Stages[1].Sandbox.OnExit = a
		_, err := tr.Run(background)
		expectIs(t, err, ErrUsage)
	}
	tr := w.transaction("echo 1 >f")
	tr.Stages[0].Sandbox.PolicyFn = &PolicyFn{} // neither of the two
	_, err := tr.Run(background)
	expectIs(t, err, ErrUsage)
	_, err = w.transaction().Run(background)
	expectIs(t, err, ErrUsage)
	w.expectTree(map[string]string{})
}

func TestTransactionTakesTooLong(t *testing.T) {
	w := newWorld(t)
	tr := w.transaction("echo 1 >f", "sleep 1000")
	tr.Timeout = 3 * time.Second
	res, err := tr.Run(background)
	must(t, err)
	expect(t, "failed", res.Failed, 1)
	expect(t, "reason", res.Results[1].Reason, ReasonTimeout)
	w.expectTree(map[string]string{})
}

func TestContextKillsATransaction(t *testing.T) {
	w := newWorld(t)
	for _, wait := range []time.Duration{5 * time.Millisecond,
		300 * time.Millisecond} {
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(wait, cancel)
		tr := w.transaction("echo 1 >f", "exec sleep 1000")
		_, err := tr.Run(ctx)
		expectIs(t, err, context.Canceled)
		w.expectTree(map[string]string{})
		expect(t, "branches", w.branchNames(), []string{})
	}
}

func TestStagesAreUndoneAlone(t *testing.T) {
	w := newWorld(t)
	w.write("f", "old\n")
	out := t.TempDir()
	tr := w.transaction("echo 1 >f", "cat f; echo 2 >f; "+
		"[ -e "+out+"/tried ] || { : >"+out+"/tried; exit 3; }")
	tr.Stages[1].Sandbox.FSMount = map[string]string{out: out}
	tr.Retries = 1
	res, err := tr.Run(background)
	must(t, err)
	expect(t, "success", res.Success, true)
	expect(t, "output", string(res.Results[1].Stdout), "1\n")
	w.expectTree(map[string]string{"f": "2\n"})

	tr = w.transaction("echo 3 >f", "echo 4 >f; exit 5")
	tr.KeepStages = true
	res, err = tr.Run(background)
	must(t, err)
	expect(t, "failed", res.Failed, 1)
	expect(t, "outcome", res.Outcome, OutcomePending)
	w.expectTree(map[string]string{"f": "2\n"})
	expect(t, "branches", w.branchNames(), []string{res.Name})
	_, err = w.Host.Commit(background, res.Name, CommitOptions{})
	must(t, err)
	w.expectTree(map[string]string{"f": "3\n"})
}

func TestStageWithAPolicy(t *testing.T) {
	w := newWorld(t)
	tr := w.transaction("/bin/echo word", "/bin/echo word; echo $?")
	tr.Stages[1].Sandbox.PolicyFn = &PolicyFn{Callback: func(e SyscallEvent,
		_ *PolicyContext) PolicyDecision {
		if len(e.Argv) > 1 && e.Argv[1] == "word" {
			return Deny()
		}
		return Allow()
	}}
	res, err := tr.Run(background)
	must(t, err)
	expect(t, "the first one's", string(res.Results[0].Stdout), "word\n")
	expect(t, "the second one's", string(res.Results[1].Stdout), "126\n")
}
