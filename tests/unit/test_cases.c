/*
 * The cases that the C, Python and Go suites share, tests/sdk/cases.json, over
 * the public header alone. Its "about" says what they mean.
 */
#include "unit.h"

#include <ftw.h>
#include <libgen.h>
#include <limits.h>
#include <sandlock.h>

#include "base/fd.h"
#include "base/json.h"

static const char cases_file[] = "tests/sdk/cases.json";
static const char bundle_file[] = "tests/sdk/bundle.json";

/* A NUL cannot be in a string of ours; this one of Unicode's private characters
 * stands for it. */
#define NUL_TEXT "\\u0000"
#define NUL_STAND_IN "\\uE000"
#define NUL_BYTES "\xee\x80\x80"

struct world {
	char dir[64];
	char work[128], root[128], store[128], program[PATH_MAX];
	struct sandlock_env env;
	struct sandlock_sandbox *sandbox;
	struct sandlock_error err;
	const struct json *test;
	const char *argv[32];
	struct sandlock_launch launch;
};

/* ---------------------------------------------------------------- files -- */

static void make_parents(const char *path, size_t base)
{
	char part[PATH_MAX];

	for (const char *p = strchr(path + base, '/'); p; p = strchr(p, '/')) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(p - path),
			       path);
		if (mkdir(part, 0755) < 0)
			assert_int_equal(errno, EEXIST);
		p++;
	}
}

static const char *text_of(const struct json *v)
{
	return v->type == JSON_STRING ? v->text : json_str_or(v, "text", "");
}

static void write_file(const struct world *w, const char *name,
		       const struct json *v)
{
	const char *link = json_str_or(v, "link", NULL);
	const char *mode = json_str_or(v, "mode", "0644");
	char path[PATH_MAX];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", w->work, name);
	make_parents(path, strlen(w->work) + 1);
	if (path[strlen(path) - 1] == '/')
		return;
	if (link) {
		assert_int_equal(symlink(link, path), 0);
		return;
	}
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text_of(v), f) >= 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, (mode_t)strtol(mode, NULL, 8)), 0);
}

static void write_files(const struct world *w, const struct json *files)
{
	for (size_t i = 0; files && i < files->n; i++)
		write_file(w, files->keys[i], &files->items[i]);
}

static void check_file(const struct world *w, const char *name,
		       const struct json *v)
{
	const char *link = json_str_or(v, "link", NULL);
	auto_(buf) struct buf b = BUF_INIT;
	char path[PATH_MAX], target[PATH_MAX] = "";
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/%s", w->work, name);
	if (name[strlen(name) - 1] == '/') {
		assert_int_equal(stat(path, &st), 0);
		assert_true(S_ISDIR(st.st_mode));
	} else if (link) {
		assert_true(readlink(path, target, sizeof(target) - 1) > 0);
		assert_string_equal(target, link);
	} else {
		assert_int_equal(fd_read_file(AT_FDCWD, path, 1 << 20, &b), 0);
		assert_string_equal(buf_str(&b), text_of(v));
	}
}

/* nftw(3) hands nothing on. */
static const struct json *walk_files;
static size_t walk_base;

/* It is named, or a directory with something in it that is. */
static int check_known(const char *path, const struct stat *st, int type,
		       struct FTW *at)
{
	const char *name = path + walk_base;
	size_t n = strlen(name);

	if (at->level == 0)
		return 0;
	for (size_t i = 0; i < walk_files->n; i++) {
		const char *key = walk_files->keys[i];

		if (strncmp(key, name, n) == 0 &&
		    (!key[n] || (key[n] == '/' && type == FTW_D)))
			return 0;
	}
	print_error("'%s' should not be there\n", path);
	return 1;
}

static void check_files(const struct world *w, const struct json *files)
{
	if (!files)
		return;
	for (size_t i = 0; i < files->n; i++)
		check_file(w, files->keys[i], &files->items[i]);
	walk_files = files;
	walk_base = strlen(w->work) + 1;
	assert_int_equal(nftw(w->work, check_known, 8, FTW_PHYS), 0);
}

/* ---------------------------------------------------------------- world -- */

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *at)
{
	return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

/* What was to be kept is found by its name. */
static void abort_branches(struct world *w)
{
	struct sandlock_branch_info *v;
	size_t n;

	assert_int_equal(sandlock_branches(&w->env, &v, &n, &w->err), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(
			sandlock_abort(&w->env, v[i].name, NULL, 0, &w->err),
			0);
	sandlock_branches_free(v, n);
}

static int end_world(void **state)
{
	struct world *w = *state;
	bool gone = false;

	sandlock_sandbox_free(w->sandbox);
	/* What was discarded is removed by who looks next, or a child of his:
	 * an overlay leaves directories of mode 0. */
	for (int i = 0; i < 3000 && !gone; i++) {
		abort_branches(w);
		gone = nftw(w->dir, remove_one, 8, FTW_PHYS | FTW_DEPTH) == 0 ||
		       errno == ENOENT;
		if (!gone)
			(void)usleep(10000);
	}
	free(w);
	return gone ? 0 : -1;
}

static void find_program(char ret[PATH_MAX])
{
	char self[PATH_MAX] = "";

	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	(void)snprintf(ret, PATH_MAX, "%s/../sandlock", dirname(self));
	assert_int_equal(access(ret, X_OK), 0);
}

static int begin_world(void **state)
{
	struct world *w = malloc(sizeof(*w));

	assert_non_null(w);
	*w = (struct world){ .dir = "/var/tmp/sluc.XXXXXX", .test = *state };
	*state = w;
	assert_non_null(mkdtemp(w->dir));
	assert_int_equal(chmod(w->dir, 0755), 0);
	(void)snprintf(w->work, sizeof(w->work), "%s/work", w->dir);
	(void)snprintf(w->root, sizeof(w->root), "%s/run", w->dir);
	(void)snprintf(w->store, sizeof(w->store), "%s/store", w->dir);
	assert_int_equal(mkdir(w->work, 0755), 0);
	find_program(w->program);
	w->env = (struct sandlock_env){
		.root = w->root,
		.store = w->store,
		.program = w->program,
	};
	write_files(w, json_get(w->test, "files"));
	return 0;
}

/* ------------------------------------------------------------- requests -- */

/* Every @word in it. */
static void replace(struct buf *text, const char *word, const char *value)
{
	auto_(buf) struct buf from = *text;
	const char *p = buf_str(&from), *at;

	*text = (struct buf)BUF_INIT;
	for (; (at = strstr(p, word)); p = at + strlen(word)) {
		buf_add(text, p, (size_t)(at - p));
		buf_add_str(text, value);
	}
	buf_add_str(text, p);
}

static int set_one(struct world *w, struct sandlock_request *q, const char *key,
		   const char *value)
{
	auto_(buf) struct buf text = BUF_INIT;

	buf_add_str(&text, value);
	replace(&text, "@WORKDIR@", w->work);
	return sandlock_request_set(q, key, buf_str(&text), key, &w->err);
}

/* One whose root file system is the workdir. */
static int set_bundle(struct world *w, struct sandlock_request *q)
{
	auto_(buf) struct buf text = BUF_INIT;
	char path[PATH_MAX], id[16];
	FILE *f;

	assert_int_equal(fd_read_file(AT_FDCWD, bundle_file, 1 << 20, &text),
			 0);
	replace(&text, "@WORKDIR@", w->work);
	(void)snprintf(id, sizeof(id), "%u", getuid());
	replace(&text, "@UID@", id);
	(void)snprintf(id, sizeof(id), "%u", getgid());
	replace(&text, "@GID@", id);
	(void)snprintf(path, sizeof(path), "%s/config.json", w->dir);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(buf_str(&text), f) >= 0);
	assert_int_equal(fclose(f), 0);
	return sandlock_request_set(q, "program.bundle", w->dir, "test",
				    &w->err);
}

static int set_value(struct world *w, struct sandlock_request *q,
		     const char *key, const struct json *v)
{
	int r = 0;

	if (v->type == JSON_STRING)
		return set_one(w, q, key, v->text);
	for (size_t i = 0; r == 0 && i < v->n; i++)
		r = set_one(w, q, key, v->items[i].text);
	return r;
}

static void make_action(const struct json *h, struct sandlock_action *ret)
{
	const struct json *a = json_get(h, "action");

	if (json_get(a, "continue"))
		ret->kind = SANDLOCK_ACTION_CONTINUE;
	else if (json_get(a, "errno"))
		ret->kind = SANDLOCK_ACTION_ERRNO;
	else if (json_get(a, "return"))
		ret->kind = SANDLOCK_ACTION_RETURN;
	ret->error = (int)json_int_or(a, "errno", 0);
	ret->value = json_int_or(a, "return", 0);
}

static int handle(void *data, struct sandlock_call *c,
		  struct sandlock_action *ret)
{
	const struct json *h = data;
	struct sandlock_action action = { .fd = -1 };

	if (!json_bool_or(h, "later", false)) {
		make_action(h, ret);
		return 0;
	}
	make_action(h, &action);
	if (action.kind != SANDLOCK_ACTION_NONE)
		(void)sandlock_call_answer(c, &action);
	sandlock_call_free(c);
	return SANDLOCK_HANDLER_LATER;
}

static int add_handler(struct world *w, const struct json *test)
{
	static const char *const policies[] = { "kill", "eperm", "continue",
						"eio" };
	const char *policy = json_str_or(test, "on_exception", "kill");
	struct sandlock_handler h = {
		.syscall = json_str_or(test, "syscall", NULL),
		.fn = handle,
		.data = (void *)test,
	};

	for (size_t i = 0; i < ARRAY_LEN(policies); i++)
		if (strcmp(policies[i], policy) == 0)
			h.on_exception = (enum sandlock_exception)i;
	return sandlock_sandbox_add_handler(w->sandbox, &h, &w->err);
}

static int make_sandbox(struct world *w)
{
	const struct json *handlers = json_get(w->test, "handlers");
	struct sandlock_request *q = sandlock_request_new();
	const struct json *keys = json_get(w->test, "request");
	int r = 0;

	assert_non_null(q);
	if (json_bool_or(w->test, "bundle", false))
		r = set_bundle(w, q);
	else if (json_bool_or(w->test, "workdir", true))
		r = set_one(w, q, "config.workdir", w->work);
	for (size_t i = 0; keys && r == 0 && i < keys->n; i++)
		r = set_value(w, q, keys->keys[i], &keys->items[i]);
	if (r == 0)
		r = sandlock_sandbox_new(&w->env, q, &w->sandbox, &w->err);
	for (size_t i = 0; handlers && r == 0 && i < handlers->n; i++)
		r = add_handler(w, &handlers->items[i]);
	sandlock_request_free(q);
	return r;
}

static int run(struct world *w, const struct sandlock_report **ret)
{
	const struct json *command = json_get(w->test, "command");
	size_t n = command->n;

	assert_true(n < ARRAY_LEN(w->argv));
	for (size_t i = 0; i < n; i++)
		w->argv[i] = command->items[i].text;
	w->launch = (struct sandlock_launch){
		.argv = w->argv,
		.in.kind = SANDLOCK_STDIO_NULL,
		.out.kind = SANDLOCK_STDIO_CAPTURE,
		.err.kind = SANDLOCK_STDIO_CAPTURE,
		.timeout_ms = (uint64_t)json_int_or(w->test, "timeout_ms", 0),
	};
	return sandlock_sandbox_run(w->sandbox, &w->launch, ret, &w->err);
}

/* --------------------------------------------------------------- checks -- */

static enum sandlock_error_kind kind_of(const char *name)
{
	static const char *const names[] = {
		[SANDLOCK_ERR_NONE] = "none",
		[SANDLOCK_ERR_USAGE] = "usage",
		[SANDLOCK_ERR_SYSTEM] = "system",
		[SANDLOCK_ERR_BUNDLE] = "bundle",
		[SANDLOCK_ERR_NAME] = "name",
		[SANDLOCK_ERR_EXISTS] = "exists",
		[SANDLOCK_ERR_NOT_FOUND] = "not_found",
		[SANDLOCK_ERR_STATE] = "state",
		[SANDLOCK_ERR_UNSUPPORTED] = "unsupported",
		[SANDLOCK_ERR_CONFLICT] = "conflict",
		[SANDLOCK_ERR_LOCKED] = "locked",
		[SANDLOCK_ERR_TORN] = "torn",
		[SANDLOCK_ERR_EXEC_MISSING] = "exec_missing",
		[SANDLOCK_ERR_EXEC_DENIED] = "exec_denied",
		[SANDLOCK_ERR_HOOK] = "hook",
		[SANDLOCK_ERR_TIMEOUT] = "timeout",
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(names[i], name) == 0)
			return (enum sandlock_error_kind)i;
	fail_msg("there is no kind of error '%s'", name);
	return SANDLOCK_ERR_NONE;
}

/* True if it failed, as it had to. */
static bool failed(const struct world *w, int r, const struct json *want)
{
	const struct sandlock_error *e = &w->err;

	if (!want) {
		if (r < 0)
			fail_msg("%s (%s)", e->msg, e->hint);
		return false;
	}
	assert_true(r < 0);
	if (e->kind != kind_of(json_str_or(want, "kind", "none")))
		fail_msg("kind %d: %s", (int)e->kind, e->msg);
	if (!strstr(e->msg, json_str_or(want, "message", "")))
		fail_msg("another message: %s", e->msg);
	return true;
}

static void check_end(const struct sandlock_result *r, const struct json *want)
{
	static const char *const outcomes[] = { "none", "pending", "committed",
						"aborted", "empty" };
	const char *outcome = json_str_or(want, "outcome", NULL);

	if (json_get(want, "exit_code")) {
		assert_int_equal(r->exit_kind, SANDLOCK_EXIT_CODE);
		assert_int_equal(r->exit_value,
				 json_int_or(want, "exit_code", 0));
	}
	if (json_get(want, "signal")) {
		assert_int_equal(r->exit_kind, SANDLOCK_EXIT_SIGNAL);
		assert_int_equal(r->exit_value, json_int_or(want, "signal", 0));
	}
	if (json_bool_or(want, "timeout", false))
		assert_int_equal(r->exit_kind, SANDLOCK_EXIT_TIMEOUT);
	if (json_bool_or(want, "over_quota", false)) {
		assert_int_equal(r->exit_kind, SANDLOCK_EXIT_QUOTA);
		assert_int_equal(r->exit_value, 9);
		assert_true(r->quota_bytes && r->quota_used > r->quota_bytes);
	}
	if (outcome)
		assert_string_equal(outcomes[r->outcome], outcome);
}

static void check_stream(const char *data, size_t n, const char *want)
{
	static const size_t stand_in = sizeof(NUL_BYTES) - 1;
	size_t i = 0;

	if (!want)
		return;
	for (; *want; i++) {
		bool is_nul = strncmp(want, NUL_BYTES, stand_in) == 0;

		assert_true(i < n);
		assert_int_equal(data[i], is_nul ? '\0' : *want);
		want += is_nul ? stand_in : 1;
	}
	assert_int_equal(i, n);
}

static const char *hex(const unsigned char digest[32], char ret[65])
{
	for (size_t i = 0; i < 32; i++)
		(void)snprintf(ret + 2 * i, 3, "%02x", digest[i]);
	return ret;
}

static void check_entry(const struct sandlock_entry *e, const struct json *want)
{
	static const char *const kinds[] = { "none",	"file", "dir",
					     "symlink", "fifo", "socket",
					     "char",	"block" };
	const char *s;
	char text[65];

	if (!want)
		return;
	if (want->type == JSON_NULL) {
		assert_int_equal(e->kind, SANDLOCK_ENTRY_NONE);
		return;
	}
	if ((s = json_str_or(want, "kind", NULL)))
		assert_string_equal(kinds[e->kind], s);
	if (json_get(want, "size"))
		assert_int_equal(e->size, json_int_or(want, "size", 0));
	if ((s = json_str_or(want, "mode", NULL)))
		assert_int_equal(e->mode, strtol(s, NULL, 8));
	if ((s = json_str_or(want, "target", NULL)))
		assert_string_equal(e->target, s);
	if ((s = json_str_or(want, "sha256", NULL))) {
		assert_true(e->has_digest);
		assert_string_equal(hex(e->digest, text), s);
	}
}

static void check_change(const struct sandlock_changed *c,
			 const struct json *want)
{
	bool same = c->flags & SANDLOCK_CHANGE_CONTENT_SAME;

	assert_string_equal(c->path, json_str_or(want, "path", ""));
	assert_int_equal(c->letter, *json_str_or(want, "letter", ""));
	if (json_get(want, "content_unchanged"))
		assert_int_equal(
			same, json_bool_or(want, "content_unchanged", false));
	check_entry(&c->before, json_get(want, "before"));
	check_entry(&c->after, json_get(want, "after"));
}

static void check_changes(const struct sandlock_report *r,
			  const struct json *want)
{
	assert_int_equal(r->changes_error.kind, SANDLOCK_ERR_NONE);
	if (!want)
		return;
	assert_int_equal(r->n_changes, want->n);
	for (size_t i = 0; i < want->n; i++)
		check_change(&r->changes[i], &want->items[i]);
}

static void check_renames(const struct sandlock_report *r,
			  const struct json *want)
{
	struct sandlock_rename *v;
	struct sandlock_error err;
	size_t n;

	if (!want)
		return;
	assert_int_equal(
		sandlock_renames(r->changes, r->n_changes, &v, &n, &err), 0);
	assert_int_equal(n, want->n);
	for (size_t i = 0; i < n; i++) {
		const struct json *pair = want->items[i].items;

		assert_string_equal(r->changes[v[i].from].path, pair[0].text);
		assert_string_equal(r->changes[v[i].to].path, pair[1].text);
	}
	free(v);
}

static void check_pending(const struct world *w, const struct json *want)
{
	if (json_get(want, "pending"))
		assert_int_equal(sandlock_sandbox_pending(w->sandbox),
				 json_bool_or(want, "pending", false));
}

static void check_report(const struct world *w, const struct sandlock_report *r,
			 const struct json *want)
{
	check_end(&r->result, want);
	check_stream(r->out_data, r->out_len,
		     json_str_or(want, "stdout", NULL));
	check_stream(r->err_data, r->err_len,
		     json_str_or(want, "stderr", NULL));
	check_pending(w, want);
	check_changes(r, json_get(want, "changes"));
	check_renames(r, json_get(want, "renames"));
}

/* ---------------------------------------------------------------- cases -- */

static void then(struct world *w, const struct json *step)
{
	const struct sandlock_report *report;
	const char *call = json_str_or(step, "call", "");
	int r;

	write_files(w, json_get(step, "write"));
	if (strcmp(call, "commit") == 0) {
		r = sandlock_sandbox_commit(w->sandbox, NULL, &w->err);
	} else if (strcmp(call, "abort") == 0) {
		r = sandlock_sandbox_abort(w->sandbox, &w->err);
	} else {
		assert_string_equal(call, "run");
		r = run(w, &report);
	}
	(void)failed(w, r, json_get(step, "error"));
	check_pending(w, step);
	check_files(w, json_get(step, "files"));
}

static void test_case(void **state)
{
	struct world *w = *state;
	const struct json *want = json_get(w->test, "expect");
	const struct json *steps = json_get(w->test, "then");
	const struct sandlock_report *report;
	int r;

	r = make_sandbox(w);
	if (r == 0)
		r = run(w, &report);
	if (!failed(w, r, json_get(want, "error")))
		check_report(w, report, want);
	check_files(w, json_get(w->test, "files_after"));
	for (size_t i = 0; steps && i < steps->n; i++)
		then(w, &steps->items[i]);
}

static struct json *read_cases(void)
{
	static const struct json_limits limits = { 1 << 20, 16, 10000 };
	auto_(buf) struct buf b = BUF_INIT;
	struct error err = ERROR_INIT;
	struct json *root = NULL;
	char *at;

	if (fd_read_file(AT_FDCWD, cases_file, limits.bytes, &b) < 0)
		return NULL;
	for (at = b.data; (at = strstr(at, NUL_TEXT)); at++)
		memcpy(at, NUL_STAND_IN, strlen(NUL_STAND_IN));
	if (json_parse(b.data, b.len, &limits, cases_file, &root, &err) < 0)
		print_error("%s\n", err.msg);
	return root;
}

int main(void)
{
	struct json *root = read_cases();
	const struct json *cases = json_get(root, "cases");
	struct CMUnitTest *tests = NULL;
	int r = 1;

	if (cases && cases->n)
		tests = calloc(cases->n, sizeof(*tests));
	if (!tests) {
		print_error("no cases in '%s'\n", cases_file);
		json_free(root);
		return 1;
	}
	for (size_t i = 0; i < cases->n; i++)
		tests[i] = (struct CMUnitTest){
			.name = json_str_or(&cases->items[i], "name", ""),
			.test_func = test_case,
			.setup_func = begin_world,
			.teardown_func = end_world,
			.initial_state = (void *)&cases->items[i],
		};
	r = _cmocka_run_group_tests("cases", tests, cases->n, NULL, NULL);
	free(tests);
	json_free(root);
	return r;
}
