#include "diff.h"

#include <string.h>
#include <sys/stat.h>

#include "base/path.h"

static int no_memory(struct diff *d)
{
	return cmd_error(d->err, SANDLOCK_ERR_SYSTEM, ENOMEM, "out of memory");
}

/* Prints what has to come first at once and keeps the rest for the end. */
static int emit(struct diff *d, char letter, const struct buf *text)
{
	if (buf_failed(text))
		return no_memory(d);
	if (letter == 'D' || letter == 'T') {
		(void)fwrite(text->data, 1, text->len, stdout);
		return 0;
	}
	buf_add(&d->rest, text->data, text->len);
	return buf_failed(&d->rest) ? no_memory(d) : 0;
}

int diff_list(void *data, const struct sandlock_change *c)
{
	auto_(buf) struct buf line = BUF_INIT;
	struct diff *d = data;

	d->n_changes++;
	diff_line(&line, c, d->colour);
	buf_add_char(&line, '\n');
	return emit(d, c->letter, &line);
}

static int end_summary(struct diff *d)
{
	struct buf *line = &d->whole.line;
	int r;

	if (!d->whole.path.len)
		return 0;
	if (d->whole.n)
		buf_printf(line, " (%zu in it, %llu bytes)", d->whole.n,
			   (unsigned long long)d->whole.bytes);
	buf_add_char(line, '\n');
	r = emit(d, d->whole.letter, line);
	buf_clear(&d->whole.path);
	buf_clear(line);
	d->whole.n = d->whole.bytes = 0;
	return r;
}

/* Entries of a directory follow it; there is no conflict below a new one. */
int diff_summary(void *data, const struct sandlock_change *c)
{
	auto_(buf) struct buf path = BUF_INIT;
	struct diff *d = data;
	struct buf *top = &d->whole.path;
	int r;

	change_path(&path, c);
	if (top->len && path.len > top->len &&
	    memcmp(path.data, top->data, top->len) == 0) {
		d->n_changes++;
		d->whole.n++;
		d->whole.bytes += S_ISREG(c->after.mode) ? c->after.size : 0;
		return 0;
	}
	r = end_summary(d);
	if (r < 0)
		return r;
	if ((c->letter != 'A' && c->letter != 'T') || !S_ISDIR(c->after.mode))
		return diff_list(d, c);
	d->n_changes++;
	d->whole.letter = c->letter;
	buf_add(top, path.data, path.len);
	buf_add_char(top, '/');
	diff_line(&d->whole.line, c, d->colour);
	return buf_failed(top) ? no_memory(d) : 0;
}

int diff_name_status(void *data, const struct sandlock_change *c)
{
	auto_(buf) struct buf line = BUF_INIT;
	struct diff *d = data;

	d->n_changes++;
	buf_add_char(&line, c->letter);
	if (d->null) {
		buf_add_char(&line, 0);
		change_path(&line, c);
		if (change_is_dir(c))
			buf_add_char(&line, '/');
		buf_add_char(&line, 0);
	} else {
		buf_add_char(&line, '\t');
		print_path(&line, c);
		buf_add_char(&line, '\n');
	}
	return emit(d, c->letter, &line);
}

static void count(struct diff *d, const struct sandlock_change *c)
{
	uint64_t was = S_ISREG(c->before.mode) ? c->before.size : 0;
	uint64_t is = S_ISREG(c->after.mode) ? c->after.size : 0;

	if (is > was)
		d->sum.plus += is - was;
	else
		d->sum.minus += was - is;
	d->sum.added += c->letter == 'A';
	d->sum.modified += c->letter == 'M';
	d->sum.meta += c->letter == 'm';
	d->sum.deleted += c->letter == 'D';
	d->sum.replaced += c->letter == 'T';
	d->sum.conflicts += !!(c->flags & SANDLOCK_CHANGE_CONFLICT);
}

int diff_stat(void *data, const struct sandlock_change *c)
{
	struct diff *d = data;

	count(d, c);
	return diff_list(data, c);
}

static void print_sum(const struct diff *d)
{
	/* clang-format off */
	const struct { size_t n; const char *word; } parts[] = {
		{ d->sum.added, "added" },
		{ d->sum.modified, "modified" },
		{ d->sum.meta, "with other metadata" },
		{ d->sum.deleted, "deleted" },
		{ d->sum.replaced, "replaced" },
		{ d->sum.conflicts, "in conflict" },
	};
	/* clang-format on */
	const char *between = ": ";

	printf("%zu change%s", d->n_changes, d->n_changes == 1 ? "" : "s");
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		if (!parts[i].n)
			continue;
		printf("%s%zu %s", between, parts[i].n, parts[i].word);
		between = ", ";
	}
	printf("; +%llu -%llu bytes\n", (unsigned long long)d->sum.plus,
	       (unsigned long long)d->sum.minus);
}

static int print_uncovered(void *data, const struct sandlock_change *c)
{
	auto_(buf) struct buf path = BUF_INIT;
	struct diff *d = data;
	auto_(buf) struct buf whole = BUF_INIT;

	d->n_uncovered++;
	buf_add_str(&path, "# not covered: ");
	if (!c->root)
		buf_add_char(&whole, '/');
	change_path(&whole, c);
	path_quote(&path, buf_str(&whole), whole.len);
	if (buf_failed(&path))
		return no_memory(d);
	printf("%s\n", path.data);
	return 0;
}

static bool wants_colour(const struct args *args)
{
	const char *when = args_str(args, "color");
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	if (when && strcmp(when, "auto"))
		return !strcmp(when, "always");
	return isatty(STDOUT_FILENO) && !(no && *no) && term &&
	       strcmp(term, "dumb");
}

/* The format that was asked for, and what the walk has to tell for it. */
static int choose_format(const struct args *args, sandlock_change_fn **ret_fn,
			 unsigned int *ret_want, struct sandlock_error *err)
{
	/* clang-format off */
	const struct { const char *name; bool given; sandlock_change_fn *fn; }
	formats[] = {
		{ "--name-status", args_has(args, "name-status"),
		  diff_name_status },
		{ "--stat", args_has(args, "stat"), diff_stat },
		{ "--summary", args_has(args, "summary"), diff_summary },
		{ "--patch", args_has(args, "patch"), diff_patch },
		{ "--format=json", args_json(args), diff_json },
	};
	/* clang-format on */
	const char *chosen = NULL;

	*ret_fn = diff_list;
	*ret_want = SANDLOCK_WANT_CONFLICTS;
	for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
		if (!formats[i].given)
			continue;
		if (chosen)
			return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
					 "%s and %s exclude each other", chosen,
					 formats[i].name);
		chosen = formats[i].name;
		*ret_fn = formats[i].fn;
	}
	if (args_has(args, "null") && *ret_fn != diff_name_status)
		return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				 "-z needs --name-status");
	if (args_has(args, "digest") && *ret_fn != diff_json)
		return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				 "--digest needs --format=json");
	if (args_has(args, "verbose"))
		*ret_want |= SANDLOCK_WANT_CHILDREN | SANDLOCK_WANT_META;
	/* A patch that removes a directory removes each file in it. */
	if (*ret_fn == diff_patch)
		*ret_want |= SANDLOCK_WANT_CHILDREN;
	return 0;
}

static int show(struct diff *d, sandlock_change_fn *fn, unsigned int want,
		const struct cmd_paths *paths)
{
	const struct sandlock_env *env = &d->ctx->env;
	int r;

	r = sandlock_diff(env, d->name, want, paths->v, paths->n, fn, d,
			  d->err);
	if (r == 0)
		r = end_summary(d);
	if (r < 0)
		return r;
	if (d->rest.len)
		(void)fwrite(d->rest.data, 1, d->rest.len, stdout);
	if (fn == diff_stat && d->n_changes)
		print_sum(d);
	if (fn == diff_list || fn == diff_stat || fn == diff_summary)
		r = sandlock_uncovered(env, d->name, print_uncovered, d,
				       d->err);
	if (fn == diff_json) {
		diff_json_changes_end(d);
		r = sandlock_uncovered(env, d->name, diff_json_uncovered, d,
				       d->err);
		diff_json_end();
	}
	return r;
}

/* With --exit-code 1 says that there are changes, and nothing else. */
static int status_of(int status, bool exit_code)
{
	return status && exit_code ? STATUS_USAGE : status;
}

int cmd_diff(struct ctx *ctx, struct args *args)
{
	auto_(cmd_paths) struct cmd_paths paths = { 0 };
	auto_free char *name = NULL;
	struct sandlock_error err = { 0 };
	struct diff d = {
		.ctx = ctx,
		.colour = wants_colour(args),
		.null = args_has(args, "null"),
		.digest = args_has(args, "digest"),
		.err = &err,
	};
	bool exit_code = args_has(args, "exit-code");
	sandlock_change_fn *fn;
	unsigned int want;
	int r, status;

	if (choose_format(args, &fn, &want, &err) < 0 ||
	    cmd_branch_name(ctx, args, &name, &err) < 0 ||
	    cmd_branch_paths(args, &paths, &err) < 0)
		return status_of(cmd_fail(ctx, &err), exit_code);
	d.shown = d.colour || isatty(STDOUT_FILENO);
	d.name = name;
	if (fn != diff_json && !d.null)
		pager_start();
	r = show(&d, fn, want, &paths);
	buf_done(&d.rest);
	buf_done(&d.whole.path);
	buf_done(&d.whole.line);
	if (r < 0) {
		(void)fflush(stdout);
		pager_finish();
		return status_of(cmd_fail(ctx, &err), exit_code);
	}
	status = cmd_flush(ctx);
	pager_finish();
	if (status)
		return status_of(status, exit_code);
	return exit_code && d.n_changes ? 1 : 0;
}
