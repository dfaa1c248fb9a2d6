/* What the verbs on branches share. */
#include "cmd.h"

#include <string.h>
#include <sys/stat.h>

#include "base/path.h"

void cmd_paths_done(struct cmd_paths *p)
{
	for (size_t i = 0; i < p->n; i++)
		free((char *)p->v[i]);
	free(p->v);
	*p = (struct cmd_paths){ 0 };
}

/* Changes are named relative to the lower: "/etc/./motd" is "etc/motd". */
int cmd_branch_paths(const struct args *args, struct cmd_paths *ret,
		     struct sandlock_error *err)
{
	auto_(cmd_paths) struct cmd_paths p = { 0 };

	if (args->n_operands < 2)
		return 0;
	p.v = calloc(args->n_operands, sizeof(*p.v));
	for (size_t i = 1; p.v && i < args->n_operands; i++) {
		auto_free char *whole = path_join("/", args->operands[i]);
		auto_free char *norm = whole ? path_normalize(whole) : NULL;

		/* The library finds the workdir that an absolute one is in. */
		p.v[p.n] = norm ? strdup(norm + (args->operands[i][0] != '/'))
				: NULL;
		if (!p.v[p.n++])
			break;
		if (!norm[1])
			return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
					 "'%s' names no path in the branch",
					 args->operands[i]);
	}
	if (p.n != args->n_operands - 1 || !p.v[p.n - 1])
		return cmd_error(err, SANDLOCK_ERR_SYSTEM, ENOMEM,
				 "out of memory");
	*ret = p;
	p = (struct cmd_paths){ 0 };
	return 0;
}

/* The operand, or the only branch that waits. */
int cmd_branch_name(const struct ctx *ctx, const struct args *args, char **ret,
		    struct sandlock_error *err)
{
	struct sandlock_branch_info *v = NULL;
	const char *name = args->operands[0];
	size_t n = 0, n_pending = 0;
	int r = 0;

	if (!name) {
		r = sandlock_branches(&ctx->env, &v, &n, err);
		if (r < 0)
			return r;
		for (size_t i = 0; i < n; i++) {
			if (strcmp(v[i].state, "pending"))
				continue;
			name = v[i].name;
			n_pending++;
		}
		if (!n_pending)
			r = cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				      "no branch is pending");
		else if (n_pending > 1)
			r = cmd_error(err, SANDLOCK_ERR_USAGE, 0,
				      "%zu branches are pending: which one?",
				      n_pending);
		if (r < 0)
			(void)cmd_hint(err, n_pending
						    ? "'sandlock branches' "
						      "lists them"
						    : "say which NAME: "
						      "'sandlock ps -a' lists "
						      "them");
	}
	if (!r) {
		*ret = strdup(name);
		if (!*ret)
			r = cmd_error(err, SANDLOCK_ERR_SYSTEM, ENOMEM,
				      "out of memory");
	}
	sandlock_branches_free(v, n);
	return r;
}

void cmd_note_pending(const struct ctx *ctx, const char *name, size_t n,
		      const char *why)
{
	char what[64];

	if (!n && !why[0]) {
		cmd_note(ctx,
			 "only times changed, which waits as '%s': "
			 "sandlock diff -v %s, then commit or abort",
			 name, name);
		return;
	}
	if (n)
		(void)snprintf(what, sizeof(what), "%zu change%s wait%s", n,
			       n == 1 ? "" : "s", n == 1 ? "s" : "");
	else /* They could not be counted. */
		(void)snprintf(what, sizeof(what), "what it wrote waits");
	if (why[0])
		cmd_note(ctx, "%s; %s as '%s': sandlock diff %s", why, what,
			 name, name);
	else
		cmd_note(ctx,
			 "%s as '%s': sandlock diff %s, then commit or abort",
			 what, name, name);
}

/* "10M", "10.4M" */
static const char *size_text(uint64_t n, char ret[32])
{
	static const char units[] = "KMGT";
	unsigned int i = 0;

	if (n < 1024) {
		(void)snprintf(ret, 32, "%llu bytes", (unsigned long long)n);
		return ret;
	}
	for (; units[i + 1] && n >= 1024 * 1024; i++)
		n /= 1024;
	if (n % 1024 * 10 / 1024)
		(void)snprintf(
			ret, 32, "%llu.%llu%c", (unsigned long long)n / 1024,
			(unsigned long long)(n % 1024 * 10 / 1024), units[i]);
	else
		(void)snprintf(ret, 32, "%llu%c", (unsigned long long)n / 1024,
			       units[i]);
	return ret;
}

void cmd_note_quota(struct ctx *ctx, const struct args *args,
		    const struct sandlock_result *r)
{
	const char *option = args_as(args, "quota");
	char used[32], quota[32], text[512];

	if (r->exit_kind != SANDLOCK_EXIT_QUOTA)
		return;
	(void)size_text(r->quota_bytes, quota);
	if (r->quota_used)
		(void)snprintf(text, sizeof(text),
			       "the branch of '%s' took %s or more, its quota "
			       "is %s: all of it was killed; raise %s",
			       r->name, size_text(r->quota_used, used), quota,
			       option ? option : "--quota");
	else
		(void)snprintf(text, sizeof(text),
			       "how much the branch of '%s' took cannot be "
			       "counted, its quota is %s: all of it was killed",
			       r->name, quota);
	/* An engine reads warnings only. */
	if (ctx->engine)
		cmd_log(ctx, SANDLOCK_LOG_WARNING, text);
	else
		cmd_note(ctx, "%s", text);
}

static int count_one(void *data, const struct sandlock_change *c)
{
	++*(size_t *)data;
	return 0;
}

void cmd_note_left(const struct ctx *ctx, const char *name)
{
	struct sandlock_error ignored = { 0 };
	size_t n = 0;

	if (!ctx->engine && sandlock_diff(&ctx->env, name, 0, NULL, 0,
					  count_one, &n, &ignored) >= 0)
		cmd_note_pending(ctx, name, n, "");
}

bool change_is_dir(const struct sandlock_change *c)
{
	return S_ISDIR(c->before.mode ? c->before.mode : c->after.mode);
}

void change_path(struct buf *b, const struct sandlock_change *c)
{
	if (c->root) {
		buf_add_str(b, c->root);
		if (c->path[0])
			buf_add_char(b, '/');
	}
	buf_add_str(b, c->path);
}

void print_path(struct buf *b, const struct sandlock_change *c)
{
	auto_(buf) struct buf path = BUF_INIT;

	change_path(&path, c);
	if (change_is_dir(c))
		buf_add_char(&path, '/');
	path_quote(b, buf_str(&path), path.len);
}
