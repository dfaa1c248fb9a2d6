#include "branch_fixture.h"

#include "killed.h"

#include "branch/move.h"

/*
 * One tree with something of everything, so that one series of kills covers
 * all kinds of steps.
 */
static const char lower_script[] =
	"mkdir -p d/e gone/deep replaced keep ro links t; echo 1 > d/f; "
	"echo 2 > d/e/g; echo 3 > gone/deep/x; echo 4 > replaced/old; "
	"echo 5 > keep/unchanged; echo 6 > file-to-dir; mkdir dir-to-file; "
	"echo 7 > dir-to-file/x; ln -s d link; echo 8 > links/a; "
	"ln links/a links/b; echo 9 > meta; mkfifo fifo; chmod 555 ro; "
	"setfattr -n user.was -v 1 t; echo 10 > swap; echo 11 > links/c";
static const char inside_script[] =
	"echo more >> d/f; echo n > d/e/new; rm -r gone; rm -r replaced; "
	"mkdir replaced; echo r > replaced/new; rm file-to-dir; "
	"mkdir file-to-dir; echo y > file-to-dir/y; rm -r dir-to-file; "
	"echo f > dir-to-file; ln -sfn keep link; echo b >> links/b; "
	"chmod 700 meta; chown 3:4 d; setfattr -x user.was t; "
	"setfattr -n user.is -v 2 t; chmod 1777 t; echo ro > ro/child; "
	": <> keep/unchanged; mkdir -p tree/a/b; echo t > tree/a/b/c; "
	"ln tree/a/b/c tree/l; ln links/c tree/m; rm fifo; mkfifo fifo; "
	"mv tree/a tree/z; mv swap swapped; "
	"setfattr -n trusted.overlay.mine -v 3 d/f; touch -d @99.5 keep; "
	"chmod 750 .";

enum verb { COMMIT, FORWARD, BACK };

static int run_verb(struct branch *b, enum verb verb, struct error *err)
{
	const struct commit_options o = { .lock_timeout_ms = 5000 };
	struct commit_result result;
	enum recover_action action;

	if (verb == COMMIT)
		return branch_commit(b, &o, &result, err);
	return branch_recover(b, verb == BACK, &action, err);
}

/* In a child that dies before its @step-th step. Tells whether it did. */
static bool run_killed(struct fixture *f, enum verb verb, int step)
{
	struct error err = ERROR_INIT;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct branch *b;

		if (branch_find(f->store, "b", &b, &err) < 0)
			_exit(2);
		steps_left = step;
		branch_step_hook = count_down;
		if (run_verb(b, verb, &err) < 0) {
			print_error("%s\n", err.msg);
			_exit(1);
		}
		_exit(0);
	}
	return was_killed(pid);
}

static void run_whole(struct fixture *f, enum verb verb)
{
	assert_false(run_killed(f, verb, 0));
}

static enum branch_state state_of(struct fixture *f)
{
	struct error err = ERROR_INIT;
	struct branch *b;
	enum branch_state state;
	int r = branch_find(f->store, "b", &b, &err);

	if (r < 0)
		return BRANCH_COMMITTED;
	assert_int_equal(branch_get_state(b, &state, &err), 0);
	branch_close(b);
	return state;
}

static void assert_tree(struct fixture *f, const char *expected)
{
	char *got = snapshot(f->lower);

	assert_string_equal(got, expected);
	free(got);
}

/* @staged: the lower is on a file system of its own. */
static char *open_fixture(struct fixture *f, bool staged)
{
	char *before;

	fixture_open_empty(f);
	if (staged) {
		f->storage = f->store_dir;
		shell(f->lower, "mount -t tmpfs -o mode=755 none .");
	}
	fixture_fill(f, lower_script);
	before = snapshot(f->lower);
	fixture_run(f, inside_script, NULL);
	branch_close(f->branch);
	f->branch = NULL;
	return before;
}

struct how {
	bool staged;		    /* from one file system to another */
	unsigned int without_flags; /* of renameat2(2) */
	bool touches;		    /* times of directories, as XFS does */
};

static int reset(void **state)
{
	(void)state;
	move_without_flags = 0;
	move_touches = false;
	return 0;
}

/* Every point of the commit, then forward; every other one killed again. */
static void kill_and_go_on(void **state)
{
	const struct how *how = *state;
	bool killed = true;

	move_without_flags = how->without_flags;
	move_touches = how->touches;
	for (int step = 1; killed; step++) {
		struct fixture f;
		char *before = open_fixture(&f, how->staged);

		killed = run_killed(&f, COMMIT, step);
		if (killed && state_of(&f) == BRANCH_PENDING) {
			run_whole(&f, FORWARD);
			assert_tree(&f, before);
			run_whole(&f, COMMIT);
		} else if (killed) {
			(void)run_killed(&f, FORWARD, 1 + step * 7 % 50);
			if (state_of(&f) != BRANCH_COMMITTED)
				run_whole(&f, FORWARD);
		}
		assert_tree(&f, f.seen);
		free(before);
		fixture_close(&f);
	}
}

static bool is_past_return(struct fixture *f)
{
	return state_of(f) == BRANCH_COMMITTED;
}

/*
 * A rollback leaves the branch as it was, so that one fixture serves for every
 * point; at the end the commit must still be exact.
 */
static void kill_and_go_back(void **state)
{
	const struct how *how = *state;
	struct fixture f;
	char *before = open_fixture(&f, how->staged);
	char *diff, *again;

	move_without_flags = how->without_flags;
	move_touches = how->touches;
	assert_int_equal(branch_find(f.store, "b", &f.branch, NULL), 0);
	diff = diff_lines(&f, CHANGE_WANT_CONFLICTS | CHANGE_WANT_META);
	branch_close(f.branch);
	f.branch = NULL;
	for (int step = 1; run_killed(&f, COMMIT, step); step++) {
		if (is_past_return(&f))
			break;
		if (state_of(&f) == BRANCH_COMMITTING) {
			if (step % 3 == 0)
				(void)run_killed(&f, FORWARD, 1 + step % 11);
			if (is_past_return(&f))
				break;
			for (int again_at = 1 + step % 5; again_at < 90;
			     again_at += 20)
				if (state_of(&f) == BRANCH_COMMITTING)
					(void)run_killed(&f, BACK, again_at);
			if (state_of(&f) == BRANCH_COMMITTING)
				run_whole(&f, BACK);
		}
		assert_int_equal(state_of(&f), BRANCH_PENDING);
		run_whole(&f, BACK);
		assert_tree(&f, before);
		assert_int_equal(branch_find(f.store, "b", &f.branch, NULL), 0);
		again = diff_lines(&f,
				   CHANGE_WANT_CONFLICTS | CHANGE_WANT_META);
		assert_string_equal(again, diff);
		free(again);
		branch_close(f.branch);
		f.branch = NULL;
	}
	if (state_of(&f) != BRANCH_COMMITTED)
		run_whole(&f, COMMIT);
	assert_tree(&f, f.seen);
	free(before);
	free(diff);
	fixture_close(&f);
}

/* What the host does between a kill and the recovery. */
struct meanwhile {
	const char *name;
	const char *killed_at; /* before the first rename, or after the last */
	const char *host;
	enum verb possible; /* the other one is refused */
	const char *diff;   /* after going back */
	const char *lower;  /* succeeds in the end */
};

/* clang-format off */
static const struct meanwhile meanwhiles[] = {
	{ "the host wrote to what was not published yet", "rename",
	  "echo h >> d/f", BACK, "M d/f CONFLICT", "grep -q h d/f" },
	{ "the host changed the mode of what was not published yet", "rename",
	  "chmod 600 d/f", BACK, "M d/f CONFLICT",
	  "test $(stat -c %a d/f) = 600" },
	{ "the host replaced what was not published yet", "rename",
	  "echo h > t.new; mv t.new d/f", BACK, "M d/f CONFLICT",
	  "grep -q h d/f" },
	{ "the host removed what was not published yet", "rename", "rm d/f",
	  BACK, "A d/f CONFLICT removed", "test ! -e d/f" },
	{ "the host made what is new", "rename", "echo h > swapped",
	  BACK, "M swapped CONFLICT", "grep -q h swapped" },
	{ "the host added to what goes", "rename", "echo h > gone/h",
	  BACK, "D gone/ CONFLICT", "grep -q h gone/h" },
	{ "the host wrote deep in what goes", "rename", "echo h >> gone/deep/x",
	  BACK, "D gone/ CONFLICT", "grep -q h gone/deep/x" },
	{ "the host added deep in what goes", "rename", "echo h > gone/deep/h",
	  BACK, "D gone/ CONFLICT", "grep -q h gone/deep/h" },
	{ "the host wrote in what is replaced", "rename",
	  "echo h >> replaced/old", BACK, "replaced/ CONFLICT",
	  "grep -q h replaced/old" },
	{ "the host had open what was deleted", "sync",
	  "echo h >> $(find .. -path '*/deep/x')", BACK, "D gone/ CONFLICT",
	  "grep -q h gone/deep/x" },
	{ "the host had open what was replaced", "sync",
	  "echo h >> $(find .. -path '*/upper/d/f')", BACK, "M d/f CONFLICT",
	  "grep -q h d/f" },
	{ "the host replaced what was published", "sync",
	  "echo h > t.new; mv t.new d/f", FORWARD, NULL, "grep -q h d/f" },
	{ "the host removed what was published", "sync", "rm d/f", FORWARD,
	  NULL, "test ! -e d/f" },
	{ "the host removed what was new", "sync", "rm swapped", FORWARD,
	  NULL, "test ! -e swapped" },
	{ "the host made anew what was deleted", "sync", "echo h > gone",
	  FORWARD, NULL, "grep -q h gone" },
};
/* clang-format on */

static const char *kill_at;

static void kill_there(const char *step)
{
	if (strcmp(step, kill_at) == 0)
		_exit(KILLED);
}

/* A branch whose commit was killed at step @at. */
static void open_killed(struct fixture *f, const char *at)
{
	struct error err = ERROR_INIT;
	pid_t pid;

	free(open_fixture(f, false));
	assert_int_equal(branch_find(f->store, "b", &f->branch, NULL), 0);
	kill_at = at;
	pid = fork();
	if (pid == 0) {
		branch_step_hook = kill_there;
		_exit(run_verb(f->branch, COMMIT, &err) < 0);
	}
	assert_true(was_killed(pid));
}

static void host_goes_on(void **state)
{
	const struct meanwhile *m = *state;
	enum verb refused = m->possible == BACK ? FORWARD : BACK;
	struct error err = ERROR_INIT;
	struct fixture f;
	char *diff;

	open_killed(&f, m->killed_at);
	shell(f.lower, m->host);
	if (strcmp(m->host, "rm swapped") != 0) {
		assert_true(run_verb(f.branch, refused, &err) < 0);
		assert_int_equal(err.kind, ERR_CONFLICT);
		assert_non_null(strstr(err.hint, "sandlock recover"));
	}
	if (run_verb(f.branch, m->possible, &err) < 0)
		fail_msg("%s", err.msg);
	if (m->diff) {
		diff = diff_lines(&f, CHANGE_WANT_CONFLICTS);
		if (!strstr(diff, m->diff))
			fail_msg("%s", diff);
		free(diff);
		assert_true(run_verb(f.branch, COMMIT, &err) < 0);
		assert_int_equal(err.kind, ERR_CONFLICT);
	}
	shell(f.lower, m->lower);
	fixture_close(&f);
}

/* Modes and owners of directories that the host changes meanwhile stand. */
static void host_changes_dirs(void **state)
{
	const enum verb *verb = *state;
	struct error err = ERROR_INIT;
	struct fixture f;
	char *diff;

	open_killed(&f, "sync");
	shell(f.lower, "chmod 711 d/e; chmod 700 t; chown 9:9 ro");
	if (run_verb(f.branch, *verb, &err) < 0)
		fail_msg("%s", err.msg);
	shell(f.lower, "test $(stat -c %a%u d/e)$(stat -c %a%u t) = 71107000; "
		       "test $(stat -c %a%u ro) = 5559");
	if (*verb == BACK) {
		diff = diff_lines(&f, CHANGE_WANT_CONFLICTS);
		if (!strstr(diff, "m t/ +user.is -user.was CONFLICT"))
			fail_msg("%s", diff);
		free(diff);
	}
	fixture_close(&f);
}

/* What a rollback put back is no more known once the host has moved it. */
static void host_moves_what_is_back(void **state)
{
	struct error err = ERROR_INIT;
	struct fixture f;
	char *diff;

	(void)state;
	open_killed(&f, "sync");
	assert_int_equal(run_verb(f.branch, BACK, &err), 0);
	shell(f.lower, "mv meta gone/deep/");
	diff = diff_lines(&f, CHANGE_WANT_CONFLICTS);
	if (!strstr(diff, "D gone/ CONFLICT"))
		fail_msg("%s", diff);
	free(diff);
	fixture_close(&f);
}

/* So does the time that it gives one. */
static void host_touches_dirs(void **state)
{
	const enum verb *verb = *state;
	static const char *const when[] = { "plain rename", "sync" };
	struct error err = ERROR_INIT;
	struct fixture f;

	for (size_t i = 0; i < ARRAY_LEN(when); i++) {
		move_without_flags = i == 0 ? RENAME_EXCHANGE : 0;
		open_killed(&f, when[i]);
		usleep(50000);
		shell(f.lower, "echo h > d/e/h; touch -r d/e ../t");
		if (run_verb(f.branch, *verb, &err) < 0)
			fail_msg("%s", err.msg);
		shell(f.lower,
		      "test -f d/e/h; test d -ot ../t; "
		      "test \"$(stat -c %y d/e)\" = \"$(stat -c %y ../t)\"");
		fixture_close(&f);
	}
}

/* What it puts in the place of one that was published keeps its time. */
static void host_replaces_dir(void **state)
{
	struct error err = ERROR_INIT;
	struct fixture f;
	pid_t pid;

	(void)state;
	free(open_fixture(&f, false));
	assert_int_equal(branch_find(f.store, "b", &f.branch, NULL), 0);
	kill_at = "sync";
	move_touches = true;
	pid = fork();
	if (pid == 0) {
		branch_step_hook = kill_there;
		_exit(run_verb(f.branch, COMMIT, &err) < 0);
	}
	assert_true(was_killed(pid));
	shell(f.lower, "mv tree was; mkdir tree; touch -d @5 tree");
	if (run_verb(f.branch, FORWARD, &err) < 0)
		fail_msg("%s", err.msg);
	shell(f.lower, "test $(stat -c %Y tree) = 5");
	fixture_close(&f);
}

/* A damaged intent is refused as a whole. */
static void torn_intent(void **state)
{
	struct fixture f;
	char *before = open_fixture(&f, false);
	struct error err = ERROR_INIT;
	enum recover_action action;

	(void)state;
	shell(f.store_dir, "head -c 700 /dev/zero > branches/b/intent");
	assert_int_equal(branch_find(f.store, "b", &f.branch, &err), 0);
	assert_int_equal(branch_recover(f.branch, false, &action, &err),
			 -EBADMSG);
	assert_int_equal(err.kind, ERR_TORN);
	assert_tree(&f, before);
	free(before);
	fixture_close(&f);
}

static void nothing_to_recover(void **state)
{
	struct fixture f;
	char *before = open_fixture(&f, false);
	enum recover_action action;

	(void)state;
	assert_int_equal(branch_find(f.store, "b", &f.branch, NULL), 0);
	assert_int_equal(branch_recover(f.branch, false, &action, NULL), 0);
	assert_int_equal(action, RECOVER_NOTHING);
	free(before);
	fixture_close(&f);
}

int main(void)
{
	/* What XFS does comes on top of what others do. */
	static struct how here = { .touches = true }, staged = { true };
	static struct how steps = { true, ~0U, false };
	static enum verb on = FORWARD, back = BACK;
	static struct how no_exchange = { true, RENAME_EXCHANGE, false };
	const struct CMUnitTest tests[] = {
		{ "kill_and_go_on", kill_and_go_on, NULL, reset, &here },
		{ "kill_and_go_back", kill_and_go_back, NULL, reset, &here },
		{ "kill_and_go_on, from another file system", kill_and_go_on,
		  NULL, NULL, &staged },
		{ "kill_and_go_back, to another file system", kill_and_go_back,
		  NULL, NULL, &staged },
		{ "kill_and_go_on, from another, without flags", kill_and_go_on,
		  NULL, reset, &steps },
		{ "kill_and_go_back, to another, without flags",
		  kill_and_go_back, NULL, reset, &steps },
		{ "kill_and_go_on, from another, without exchanges",
		  kill_and_go_on, NULL, reset, &no_exchange },
		{ "kill_and_go_back, to another, without exchanges",
		  kill_and_go_back, NULL, reset, &no_exchange },
		{ "host_moves_what_is_back", host_moves_what_is_back, NULL,
		  NULL, NULL },
		{ "host_changes_dirs, and on", host_changes_dirs, NULL, NULL,
		  &on },
		{ "host_changes_dirs, and back", host_changes_dirs, NULL, NULL,
		  &back },
		{ "host_touches_dirs, and on", host_touches_dirs, NULL, reset,
		  &on },
		{ "host_touches_dirs, and back", host_touches_dirs, NULL, reset,
		  &back },
		{ "host_replaces_dir", host_replaces_dir, NULL, reset, NULL },
		cmocka_unit_test(torn_intent),
		cmocka_unit_test(nothing_to_recover),
	};

	struct CMUnitTest more[ARRAY_LEN(meanwhiles)];
	int failed;

	if (geteuid() != 0)
		return unit_needs_root();
	for (size_t i = 0; i < ARRAY_LEN(meanwhiles); i++)
		more[i] = (struct CMUnitTest){
			.name = meanwhiles[i].name,
			.test_func = host_goes_on,
			.initial_state = (void *)&meanwhiles[i],
		};
	failed = RUN_TESTS(more);
	return failed + RUN_TESTS(tests);
}
