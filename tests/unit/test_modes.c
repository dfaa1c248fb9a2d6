/*
 * An ordinary user without a user namespace, and what modes keep them out of:
 * killed at each step of settling and committing, then forward, or back.
 */
#include "branch_fixture.h"

#include "killed.h"

#include "unit_user.h"

static const char lower_script[] = "mkdir -p d/ro/sub keep; echo 1 > d/f; echo "
				   "2 > d/ro/f; echo 3 > keep/k; "
				   "chmod 555 d/ro";
/* What a sandbox would have left in upper. */
static const char upper_script[] =
	"echo x > f0; mkdir -p m/n d/ro/sub; echo y > m/n/f; echo z > d/f; "
	"echo w > d/ro/new; echo v > d/ro/sub/s; mkdir e; ln m/n/f m/l; "
	"setfattr -n user.overlay.origin d d/f; mkfifo p; chmod 0 f0 m/n/f m/n "
	"m p e; chmod 200 d/f; chmod 4111 d/ro; "
	"chmod 0 d";
static const char root_script[] = "chmod 300 .";

/* Names, types, modes and contents, as root of a user namespace sees them. */
static char *modes_in(struct fixture *f)
{
	char *script;

	assert_true(asprintf(&script,
			     "(find . -printf '%%P %%y %%m %%n\\n' | sort; "
			     "find . -type f | sort | xargs cat) > '%s'",
			     f->shot) > 0);
	shell(f->lower, script);
	free(script);
	return read_text(open(f->shot, O_RDONLY | O_CLOEXEC));
}

static void assert_modes(struct fixture *f, const char *expected)
{
	char *got = modes_in(f);

	assert_string_equal(got, expected);
	free(got);
}

/* As the caller, who is nobody's root. */
static void plain_shell(const char *dir, const char *script)
{
	struct idmap map = fixture_map;

	fixture_map = (struct idmap)IDMAP_INIT;
	shell(dir, script);
	fixture_map = map;
}

/*
 * A stage beside the lower that was killed changes the root's ctime, and what
 * the branch changes of the root is a conflict then.
 */
static void write_as_sandbox(const char *dir, bool staged)
{
	plain_shell(dir, upper_script);
	if (!staged)
		plain_shell(dir, root_script);
}

struct how {
	bool staged;
	int stride;
};

/* Returns what was there before; @ret_after what is to come. */
static char *open_fixture(struct fixture *f, bool staged, char **ret_after)
{
	const struct branch_options o = { .name = "b",
					  .lower = f->lower,
					  .storage =
						  staged ? f->store_dir : NULL,
					  .on_exit = DISPOSE_DEFER,
					  .on_error = DISPOSE_DEFER,
					  .notify = true };
	const struct proc_id nobody = { .pid = 0 };
	char *before;

	fixture_open_empty(f);
	if (staged) {
		strcpy(f->lower, "/dev/shm/sandlock-unit.XXXXXX");
		assert_non_null(mkdtemp(f->lower));
		assert_int_equal(chmod(f->lower, 0755), 0);
	}
	fixture_fill(f, lower_script);
	if (ret_after) {
		shell(f->lower, "chmod 755 d/ro");
		write_as_sandbox(f->lower, staged);
		*ret_after = modes_in(f);
		shell(f->lower, "rm -rf f0 m e p d keep; chmod 755 .");
		fixture_fill(f, lower_script);
	}
	before = modes_in(f);
	if (branch_create(f->store, &o, &f->branch, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(branch_set_running(f->branch, NULL, 0, &nobody, &err),
			 0);
	write_as_sandbox(branch_upper(f->branch), staged);
	branch_close(f->branch);
	f->branch = NULL;
	return before;
}

static void close_fixture(struct fixture *f, bool staged)
{
	if (staged) {
		shell(f->lower, "find . -mindepth 1 -delete");
		assert_int_equal(rmdir(f->lower), 0);
	}
	fixture_close(f);
}

enum verb { COMMIT, FORWARD, BACK };

static int run_verb(enum verb verb, struct branch *b)
{
	const struct commit_options o = { .lock_timeout_ms = 5000 };
	const struct exit_status ok = { .kind = EXIT_CODE, .value = 0 };
	struct branch_settled settled;
	struct commit_result result;
	enum recover_action action;
	int r;

	if (verb != COMMIT)
		return branch_recover(b, verb == BACK, &action, &err);
	r = branch_settle(b, &ok, true, &settled, &err);
	return r < 0 ? r : branch_commit(b, &o, &result, &err);
}

static bool run_killed(struct fixture *f, enum verb verb, int step)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct branch *b;
		int r = branch_find(f->store, "b", &b, &err);

		steps_left = step;
		branch_step_hook = count_down;
		if (r == 0)
			r = run_verb(verb, b);
		if (r < 0)
			print_error("%s (%s)\n", err.msg, err.hint);
		_exit(r < 0);
	}
	return was_killed(pid);
}

/* BRANCH_COMMITTED where it is gone. */
static enum branch_state state_of(struct fixture *f)
{
	enum branch_state state;
	struct branch *b;

	if (branch_find(f->store, "b", &b, &err) < 0)
		return BRANCH_COMMITTED;
	assert_int_equal(branch_get_state(b, &state, &err), 0);
	branch_close(b);
	return state;
}

static void kill_and_go_on(void **state)
{
	const struct how *how = *state;
	char *after = NULL;
	bool killed = true;

	for (int step = 1; killed; step += how->stride) {
		struct fixture f;
		char *before =
			open_fixture(&f, how->staged, after ? NULL : &after);

		killed = run_killed(&f, COMMIT, step);
		if (killed && state_of(&f) == BRANCH_COMMITTING)
			(void)run_killed(&f, FORWARD, 1 + step * 7 % 40);
		if (state_of(&f) == BRANCH_COMMITTING)
			assert_false(run_killed(&f, FORWARD, 0));
		if (state_of(&f) != BRANCH_COMMITTED)
			assert_false(run_killed(&f, COMMIT, 0));
		assert_modes(&f, after);
		free(before);
		close_fixture(&f, how->staged);
	}
	free(after);
}

static void kill_and_go_back(void **state)
{
	const struct how *how = *state;
	char *after = NULL, *before;
	struct fixture f;

	before = open_fixture(&f, how->staged, &after);
	for (int step = 1; run_killed(&f, COMMIT, step); step += how->stride) {
		if (state_of(&f) == BRANCH_COMMITTED)
			break;
		if (state_of(&f) == BRANCH_COMMITTING) {
			(void)run_killed(&f, BACK, 1 + step * 7 % 40);
			if (state_of(&f) == BRANCH_COMMITTING)
				assert_false(run_killed(&f, BACK, 0));
		}
		/* What a commit made beside the lower before its intent. */
		assert_false(run_killed(&f, BACK, 0));
		assert_modes(&f, before);
	}
	if (state_of(&f) != BRANCH_COMMITTED)
		assert_false(run_killed(&f, COMMIT, 0));
	assert_modes(&f, after);
	free(before);
	free(after);
	close_fixture(&f, how->staged);
}

static int add_modes(void *data, const struct change *c)
{
	buf_printf(data, "%c %s %o %o\n", change_letter(c->kind), c->path,
		   c->before.mode & 07777, c->after.mode & 07777);
	return 0;
}

/* The list of changes knows nothing of it, nor does a commit of a part. */
static void modes_are_told(void **state)
{
	const char *const part[] = { "d/ro/new", "f0" };
	const char *const within[] = { "m/n/f" };
	struct commit_options o = { .lock_timeout_ms = 5000,
				    .paths = part,
				    .n_paths = 2 };
	const struct exit_status ok = { .kind = EXIT_CODE, .value = 0 };
	struct branch_settled settled;
	struct commit_result result;
	struct buf b = BUF_INIT;
	struct fixture f;
	char *before = open_fixture(&f, false, NULL);

	(void)state;
	assert_int_equal(branch_find(f.store, "b", &f.branch, &err), 0);
	assert_int_equal(branch_settle(f.branch, &ok, true, &settled, &err), 0);
	assert_int_equal(
		branch_changes(f.branch, 0, NULL, 0, add_modes, &b, &err), 0);
	assert_string_equal(buf_str(&b),
			    "m  755 300\nm d 755 0\n"
			    "M d/f 644 200\nm d/ro 555 4111\n"
			    "A d/ro/new 0 644\nA d/ro/sub/s 0 644\n"
			    "A e 0 0\nA f0 0 0\nA m 0 0\nA m/l 0 0\n"
			    "A m/n 0 0\nA m/n/f 0 0\nA p 0 0\n");
	buf_done(&b);
	if (branch_commit(f.branch, &o, &result, &err) < 0)
		fail_msg("%s", err.msg);
	shell(f.lower, "test \"$(stat -c %a f0 d d/ro d/ro/new | "
		       "tr '\\n' ' ')\" = '0 755 555 644 '");
	o.paths = within;
	o.n_paths = 1;
	assert_int_equal(branch_commit(f.branch, &o, &result, &err), -EACCES);
	assert_string_equal(err.msg, "'m' keeps its owner out, so it is "
				     "committed as a whole: Permission denied");
	if (branch_abort(f.branch, NULL, 0, &err) < 0)
		fail_msg("%s", err.msg);
	free(before);
	close_fixture(&f, false);
}

int main(void)
{
	static struct how here = { false, 7 }, staged = { true, 11 };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modes_are_told),
		{ "kill_and_go_on", kill_and_go_on, NULL, NULL, &here },
		{ "kill_and_go_back", kill_and_go_back, NULL, NULL, &here },
		{ "kill_and_go_on, from another file system", kill_and_go_on,
		  NULL, NULL, &staged },
		{ "kill_and_go_back, to another file system", kill_and_go_back,
		  NULL, NULL, &staged },
	};

	if (geteuid() != 0)
		return unit_needs_root();
	if (become_user(false) != 0 ||
	    idmap_add(&fixture_map.uids, 0, USER, 1) < 0 ||
	    idmap_add(&fixture_map.gids, 0, USER, 1) < 0)
		return 1;
	return RUN_TESTS(tests);
}
