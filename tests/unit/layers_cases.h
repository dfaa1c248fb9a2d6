/*
 * Savepoints, as root and as an ordinary user. The oracle for a branch in
 * layers is what the last stage saw, as for any other: every row of the table
 * is cut at its semicolons, and each part is a stage.
 */
#ifndef SANDLOCK_TESTS_LAYERS_CASES_H
#define SANDLOCK_TESTS_LAYERS_CASES_H

#include "branch_fixture.h"
#include "branch_rows.h"

#include "branch/change.h"
#include "branch/internal.h"
#include "branch/layers.h"
#include "branch/publish.h"

enum { STAGES_MAX = 64 };

#define OK(call)                                                \
	do {                                                    \
		if ((call) < 0)                                 \
			fail_msg("%s (%s)", err.msg, err.hint); \
	} while (0)

static void run_stage(struct fixture *f, const char *script)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(sandbox_main(f, script, NULL));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(branch_remove_marker(f->branch), 0);
	free(f->seen);
	f->seen = read_text(open(f->shot, O_RDONLY | O_CLOEXEC));
}

static void make_branch(struct fixture *f)
{
	const struct branch_options o = {
		.name = "b",
		.lower = f->lower,
		.storage = f->storage,
		.on_exit = DISPOSE_DEFER,
		.on_error = DISPOSE_DEFER,
		.idmap = fixture_map,
	};

	OK(branch_create(f->store, &o, &f->branch, &err));
}

static void run_next(struct fixture *f, size_t n, const char *script)
{
	OK(branch_save_stage(f->branch, n, &err));
	assert_int_equal(f->branch->n_layers, n);
	run_stage(f, script);
}

static void settle(struct fixture *f)
{
	const struct exit_status ok = { .kind = EXIT_CODE, .value = 0 };
	struct branch_settled settled;

	OK(branch_settle(f->branch, &ok, true, &settled, &err));
	if (settled.gone) {
		branch_close(f->branch);
		f->branch = NULL;
	}
}

/* ------------------------------------------------------ what is changed -- */

struct telling {
	struct branch *branch;
	struct buf text;
};

static void tell_side(struct telling *t, const char *path,
		      enum change_content which, const struct change_side *s)
{
	char digest[65] = "-";

	if (S_ISREG(s->mode))
		OK(branch_digest(t->branch, path, which, digest, &err));
	buf_printf(&t->text, " [%o %u:%u %ju %ju.%09ld %s %s]", s->mode, s->uid,
		   s->gid, (uintmax_t)s->size, (uintmax_t)s->mtime.tv_sec,
		   s->mtime.tv_nsec, s->link_target ? s->link_target : "-",
		   digest);
}

static int tell_change(void *data, const struct change *c)
{
	struct telling *t = data;

	buf_printf(&t->text, "%c %x %s", change_letter(c->kind), c->flags,
		   c->path);
	tell_side(t, c->path, CONTENT_BEFORE, &c->before);
	tell_side(t, c->path, CONTENT_AFTER, &c->after);
	buf_printf(&t->text, " %s %s %s\n", c->link_to ? c->link_to : "-",
		   c->xattrs ? c->xattrs : "-",
		   c->conflict ? c->conflict : "-");
	return 0;
}

static char *tell_changes(struct fixture *f)
{
	const unsigned int all = CHANGE_WANT_UNCHANGED | CHANGE_WANT_CHILDREN |
				 CHANGE_WANT_CONFLICTS | CHANGE_WANT_META;
	struct telling t = { .branch = f->branch, .text = BUF_INIT };
	char *text;

	OK(branch_changes(f->branch, all, NULL, 0, tell_change, &t, &err));
	text = strdup(buf_str(&t.text));
	buf_done(&t.text);
	return text;
}

/* Of layers the same is told as of the one upper that they become. */
static void settle_and_compare(struct fixture *f)
{
	char *before = tell_changes(f), *after;

	settle(f);
	if (f->branch) {
		after = tell_changes(f);
		assert_string_equal(before, after);
		free(after);
	}
	free(before);
}

static void commit(struct fixture *f)
{
	const struct commit_options o = { .conflicts = CONFLICT_REFUSE,
					  .lock_timeout_ms = 5000 };
	struct commit_result result = { .gone = false };

	if (!f->branch)
		return;
	OK(branch_commit(f->branch, &o, &result, &err));
	assert_true(result.gone);
}

static void assert_lower_is(struct fixture *f, const char *want)
{
	char *got = snapshot(f->lower);

	assert_string_equal(got, want);
	free(got);
}

/* Parts that mean something by themselves. */
static bool can_be_cut(const char *script)
{
	static const char *const whole[] = { "for ",  "while ", "if ", "cd ",
					     "umask", "python", "$",   "{" };

	for (size_t i = 0; i < ARRAY_LEN(whole); i++)
		if (strstr(script, whole[i]))
			return false;
	return true;
}

static size_t cut(char *script, char *parts[STAGES_MAX])
{
	size_t n = 0;
	char *save = NULL;

	if (!can_be_cut(script)) {
		parts[0] = script;
		return 1;
	}
	for (char *p = strtok_r(script, ";", &save); p;
	     p = strtok_r(NULL, ";", &save)) {
		assert_true(n < STAGES_MAX);
		parts[n++] = p;
	}
	return n;
}

static void run_cut(struct fixture *f, const char *script)
{
	char *copy = strdup(script), *parts[STAGES_MAX];
	size_t n = cut(copy, parts);

	make_branch(f);
	for (size_t i = 0; i < n; i++)
		run_next(f, i, parts[i]);
	free(copy);
}

static void check_row(void **state)
{
	const struct row *row = *state;
	struct fixture f;

	fixture_open(&f, row->lower);
	run_cut(&f, row->inside);
	settle_and_compare(&f);
	commit(&f);
	if (!row->differs &&
	    !(row->user_sees_no_link && !idmap_is_empty(&fixture_map)))
		assert_lower_is(&f, f.seen);
	fixture_close(&f);
}

/* ----------------------------------------------------------- going back -- */

static const char old_tree[] =
	"mkdir -p a/b c/d; echo 1 > a/f; echo 2 > a/b/g; ln a/f h; "
	"echo 3 > c/d/i; ln -s a l";

static const char *const stages[] = {
	"echo s1 >> a/f; rm -r c; mkdir c; echo n > c/n; ln a/f k; mkdir m; "
	"touch -d @1000000000 a/b",
	"echo s2 >> a/f; rm c/n; echo o > c/o; rm -r m; echo f > m; rm l; "
	"mkdir l; echo x > l/x; setfattr -n user.k -v v a/b",
	"rm m; mkdir m; echo y > m/y; rm -r a/b; chmod 700 c; rm k; rm -r l",
};

static void going_back_is_exact(void **state)
{
	for (size_t back = 0; back <= ARRAY_LEN(stages); back++) {
		char *seen[ARRAY_LEN(stages) + 1];
		struct fixture f;

		fixture_open(&f, old_tree);
		seen[0] = snapshot(f.lower);
		make_branch(&f);
		for (size_t i = 0; i < ARRAY_LEN(stages); i++) {
			run_next(&f, i, stages[i]);
			seen[i + 1] = strdup(f.seen);
		}
		OK(branch_roll_back(f.branch, back, &err));
		/* What is there now is what the next stage would see. */
		run_next(&f, back, ":");
		assert_string_equal(f.seen, seen[back]);
		settle(&f);
		assert_true(back > 0 || !f.branch);
		commit(&f);
		assert_lower_is(&f, seen[back]);
		for (size_t i = 0; i <= ARRAY_LEN(stages); i++)
			free(seen[i]);
		fixture_close(&f);
	}
}

static void a_stage_is_run_again(void **state)
{
	struct fixture f;

	fixture_open(&f, old_tree);
	make_branch(&f);
	run_next(&f, 0, stages[0]);
	for (int i = 0; i < 3; i++) {
		run_next(&f, 1, "rm -r a; echo half > h");
		OK(branch_roll_back(f.branch, 1, &err));
	}
	run_next(&f, 1, stages[1]);
	run_next(&f, 2, stages[2]);
	settle(&f);
	commit(&f);
	assert_lower_is(&f, f.seen);
	fixture_close(&f);
}

/* After each of them, and over what they make of each other. */
static void changes_are_told_of_every_stage(void **state)
{
	for (size_t n = 1; n <= ARRAY_LEN(stages); n++) {
		struct fixture f;

		fixture_open(&f, old_tree);
		make_branch(&f);
		for (size_t i = 0; i < n; i++)
			run_next(&f, i, stages[i]);
		settle_and_compare(&f);
		commit(&f);
		assert_lower_is(&f, f.seen);
		fixture_close(&f);
	}
}

static const char *const deep[] = {
	"p=$(printf 'a/%.0s' $(seq 90)); "
	"mkdir -p b/$p; echo 1 > b/${p}new; echo 1 > $p/f; echo x > b/z",
	"p=$(printf 'a/%.0s' $(seq 90)); echo 2 > $p/f; rm b/${p}new; "
	"echo 2 > b/${p}other; rm a/y; mkdir a/z; echo 2 > b/z",
	"p=$(printf 'a/%.0s' $(seq 70)); rm -r b/$p; echo 3 > b/${p%/}; "
	"echo 3 > a/x; mkdir a/y",
};

/* Where not all directories on the way down can be kept open. */
static void deep_trees_are_told(void **state)
{
	struct fixture f;

	fixture_open(&f, "p=$(printf 'a/%.0s' $(seq 90)); mkdir -p $p; "
			 "echo 0 > $p/f; echo 0 > a/x; echo 0 > a/y; "
			 "mkdir -p b/a/a; echo 0 > b/z");
	make_branch(&f);
	for (size_t i = 0; i < ARRAY_LEN(deep); i++)
		run_next(&f, i, deep[i]);
	settle_and_compare(&f);
	commit(&f);
	assert_lower_is(&f, f.seen);
	fixture_close(&f);
}

static int steps_left;
static char *told_before;
static struct fixture *told_of;

/* Somebody looks while a helper puts the layers together. */
static void look_meanwhile(const char *step)
{
	struct branch *mine = told_of->branch;
	char *now;

	if (++steps_left % 3)
		return;
	OK(branch_find(told_of->store, "b", &told_of->branch, &err));
	now = tell_changes(told_of);
	assert_string_equal(now, told_before);
	free(now);
	branch_close(told_of->branch);
	told_of->branch = mine;
}

static void the_same_is_told_while_they_become_one(void **state)
{
	struct fixture f;

	fixture_open(&f, old_tree);
	make_branch(&f);
	for (size_t i = 0; i < ARRAY_LEN(stages); i++)
		run_next(&f, i, stages[i]);
	OK(branch_save(f.branch, false, &err));
	told_of = &f;
	told_before = tell_changes(&f);
	branch_step_hook = look_meanwhile;
	OK(root_collapse(f.branch, &err));
	branch_step_hook = NULL;
	free(told_before);
	settle(&f);
	commit(&f);
	assert_lower_is(&f, f.seen);
	fixture_close(&f);
}

/* ------------------------------------------------------- killed anywhere -- */

static void count_down(const char *step)
{
	if (--steps_left == 0)
		_exit(99);
}

typedef int child_fn(struct branch *b);

/* In a child that is killed at the n-th step: false once there is none. */
static bool is_killed_at(struct fixture *f, int n, child_fn *fn)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		struct branch *b;

		steps_left = n;
		branch_step_hook = count_down;
		if (branch_find(f->store, "b", &b, NULL) < 0 ||
		    branch_lock(b, 5000, NULL) < 0)
			_exit(1);
		_exit(fn(b) < 0 ? 2 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	/* As a user it is the helper in the namespace that dies. */
	assert_true(
		WEXITSTATUS(status) == 99 || status == 0 ||
		(WEXITSTATUS(status) == 2 && !idmap_is_empty(&fixture_map)));
	return status != 0;
}

static void reopen(struct fixture *f)
{
	branch_close(f->branch);
	OK(branch_find(f->store, "b", &f->branch, &err));
}

static int collapse(struct branch *b)
{
	return root_collapse(b, NULL);
}

static void collapsing_may_be_cut_off(void **state)
{
	bool killed = true;

	for (int n = 1; killed; n++) {
		struct fixture f;

		fixture_open(&f, old_tree);
		make_branch(&f);
		for (size_t i = 0; i < ARRAY_LEN(stages); i++)
			run_next(&f, i, stages[i]);
		OK(branch_save(f.branch, false, &err));
		branch_unlock(f.branch);
		killed = is_killed_at(&f, n, collapse);
		/* And again, at the next step. */
		if (killed)
			(void)is_killed_at(&f, 2, collapse);
		reopen(&f);
		settle(&f);
		commit(&f);
		assert_lower_is(&f, f.seen);
		fixture_close(&f);
		assert_true(n < 200);
	}
}

static int push(struct branch *b)
{
	return branch_save_stage(b, 2, NULL);
}

static int go_back(struct branch *b)
{
	return branch_roll_back(b, 1, NULL);
}

/* Whatever was cut off, the state after a stage is there. */
static void savepoints_may_be_cut_off(void **state)
{
	bool killed = true;

	for (int n = 1; killed; n++) {
		struct fixture f;
		char *first;

		fixture_open(&f, old_tree);
		make_branch(&f);
		run_next(&f, 0, stages[0]);
		first = strdup(f.seen);
		run_next(&f, 1, stages[1]);
		OK(branch_save(f.branch, false, &err));
		branch_unlock(f.branch);
		killed = is_killed_at(&f, n, push);
		reopen(&f);
		OK(branch_lock(f.branch, 5000, &err));
		run_next(&f, 2, stages[2]);
		branch_unlock(f.branch);
		(void)is_killed_at(&f, n, go_back);
		reopen(&f);
		OK(branch_lock(f.branch, 5000, &err));
		OK(branch_roll_back(f.branch, 1, &err));
		run_next(&f, 1, ":");
		assert_string_equal(f.seen, first);
		free(first);
		settle(&f);
		commit(&f);
		assert_lower_is(&f, f.seen);
		fixture_close(&f);
	}
}

static int run_cases(bool root)
{
	struct CMUnitTest tests[ARRAY_LEN(rows) + 7] = {
		cmocka_unit_test(going_back_is_exact),
		cmocka_unit_test(a_stage_is_run_again),
		cmocka_unit_test(changes_are_told_of_every_stage),
		cmocka_unit_test(deep_trees_are_told),
		cmocka_unit_test(collapsing_may_be_cut_off),
		cmocka_unit_test(savepoints_may_be_cut_off),
	};
	size_t n = 6;

	/* Not while a helper in a namespace does it: ids are others there. */
	if (root)
		tests[n++] = (struct CMUnitTest)cmocka_unit_test(
			the_same_is_told_while_they_become_one);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].root_only && !root)
			continue;
		tests[n++] = (struct CMUnitTest){
			.name = rows[i].name,
			.test_func = check_row,
			.initial_state = (void *)&rows[i],
		};
	}
	return _cmocka_run_group_tests("layers", tests, n, NULL, NULL);
}

#endif
