#include "cmd.h"

#include <string.h>

/* Where conflicts are told while the commit finds them. */
struct teller {
	struct ctx *ctx;
	struct json_out *json; /* NULL: on standard error */
};

static int tell_conflict(void *data, const struct sandlock_change *c)
{
	struct teller *t = data;
	auto_(buf) struct buf line = BUF_INIT;

	if (t->json) {
		json_out_object(t->json);
		json_out_key(t->json, "path");
		change_path(&line, c);
		json_out_bytes(t->json, buf_str(&line), line.len);
		json_out_key(t->json, "reason");
		print_json_str_or_null(t->json, c->conflict);
		json_out_object_end(t->json);
		return 0;
	}
	buf_add_str(&line, "C ");
	print_path(&line, c);
	buf_printf(&line, "  %s\n", c->conflict ? c->conflict : "changed");
	if (!buf_failed(&line))
		(void)fputs(line.data, stderr);
	return 0;
}

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

static int print_result(struct ctx *ctx, const char *name,
			const struct sandlock_commit *c)
{
	if (c->gone && !c->n_published)
		printf("'%s' is committed: nothing was left to publish\n",
		       name);
	else if (c->n_paths && !c->gone)
		printf("committed %zu change%s of '%s', the rest is pending\n",
		       c->n_published, plural(c->n_published), name);
	else if (!c->gone)
		printf("committed %zu change%s of '%s', %zu stay%s pending\n",
		       c->n_published, plural(c->n_published), name,
		       c->n_skipped, c->n_skipped == 1 ? "s" : "");
	else if (c->n_skipped)
		printf("committed %zu change%s of '%s', left out %zu: sockets, "
		       "or locks of a dead git\n",
		       c->n_published, plural(c->n_published), name,
		       c->n_skipped);
	else
		printf("committed %zu change%s of '%s'\n", c->n_published,
		       plural(c->n_published), name);
	return cmd_flush(ctx);
}

static int print_result_json(struct ctx *ctx, struct json_out *o,
			     const char *name, const struct sandlock_commit *c,
			     bool ok)
{
	json_out_array_end(o);
	json_out_str_member(o, "name", name);
	json_out_bool_member(o, "committed", ok);
	json_out_uint_member(o, "published", ok ? c->n_published : 0);
	json_out_uint_member(o, "skipped", c->n_skipped);
	json_out_bool_member(o, "gone", ok && c->gone);
	json_out_object_end(o);
	return print_json(ctx, o);
}

static struct json_out *start_json(void)
{
	struct json_out *o = json_out_new(true);

	if (!o)
		return NULL;
	json_out_object(o);
	json_out_str_member(o, "schema", "sandlock.commit/1");
	json_out_key(o, "conflicts");
	json_out_array(o);
	return o;
}

int cmd_commit(struct ctx *ctx, struct args *args)
{
	auto_ptr(json_out_free) struct json_out *o = NULL;
	auto_(cmd_paths) struct cmd_paths paths = { 0 };
	struct sandlock_error err = { 0 };
	struct teller teller = { .ctx = ctx };
	struct sandlock_commit c = {
		.force_torn = args_has(args, "force"),
		.allow_special = args_has(args, "special"),
		.on_conflict = tell_conflict,
		.data = &teller,
	};
	auto_free char *name = NULL;
	int r, status;

	if (args_has(args, "force") && args_has(args, "skip-conflicts")) {
		(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0,
				"--force and --skip-conflicts exclude each "
				"other");
		return cmd_fail(ctx, &err);
	}
	if (args_has(args, "force"))
		c.conflicts = SANDLOCK_CONFLICT_FORCE;
	else if (args_has(args, "skip-conflicts"))
		c.conflicts = SANDLOCK_CONFLICT_SKIP;
	if (cmd_branch_name(ctx, args, &name, &err) < 0 ||
	    cmd_branch_paths(args, &paths, &err) < 0)
		return cmd_fail(ctx, &err);
	c.paths = paths.v;
	c.n_paths = paths.n;
	if (args_json(args)) {
		o = start_json();
		if (!o)
			return cmd_fail_memory(ctx);
		teller.json = o;
	}
	r = sandlock_commit(&ctx->env, name, &c, &err);
	if (o) {
		status = print_result_json(ctx, o, name, &c, r >= 0);
		if (status)
			return status;
	}
	if (r < 0)
		return cmd_fail(ctx, &err);
	return o || args_has(args, "quiet") ? 0 : print_result(ctx, name, &c);
}
