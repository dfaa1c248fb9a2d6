#include <string.h>

#include "base/utc.h"
#include "denials.h"

struct logs {
	struct ctx *ctx;
	bool json, follow;
	bool is_some;
	struct json_out *out; /* of the whole list */
	int status;
};

static int print_line(struct logs *l, const struct sandlock_denial *d)
{
	auto_(buf) struct buf b = BUF_INIT;
	char when[UTC_MAX];

	buf_printf(&b, "%s ", utc_text(&d->last, 0, when));
	denial_headline(&b, d);
	(void)puts(buf_str(&b));
	return 0;
}

/* One object a line, as it happens. */
static int print_json_line(struct logs *l, const struct sandlock_denial *d)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);

	denial_json(o, d);
	l->status = print_json(l->ctx, o);
	return l->status;
}

static int print_one(void *data, const struct sandlock_denial *d)
{
	struct logs *l = data;

	l->is_some = true;
	if (l->json && !l->follow) {
		denial_json(l->out, d);
		return 0;
	}
	if (l->json)
		return print_json_line(l, d);
	(void)print_line(l, d);
	if (l->follow)
		l->status = cmd_flush(l->ctx);
	return l->status;
}

int cmd_logs(struct ctx *ctx, struct args *args)
{
	auto_free char *name = NULL;
	auto_ptr(json_out_free) struct json_out *o = json_out_new(true);
	struct sandlock_error err = { 0 };
	struct logs l = {
		.ctx = ctx,
		.json = args_json(args),
		.follow = args_has(args, "follow"),
		.out = o,
	};
	int r = cmd_branch_name(ctx, args, &name, &err);

	if (r < 0)
		return cmd_fail(ctx, &err);
	json_out_object(o);
	json_out_str_member(o, "schema", "sandlock.logs/1");
	json_out_str_member(o, "name", name);
	json_out_key(o, "denials");
	json_out_array(o);
	r = l.follow ? sandlock_watch_denials(&ctx->env, name, print_one, &l,
					      &err)
		     : sandlock_denials(&ctx->env, name, print_one, &l, &err);
	if (r < 0)
		return cmd_fail(ctx, &err);
	if (!l.is_some && !l.json && !l.follow)
		cmd_note(ctx,
			 "nothing is on record of '%s': without a supervisor "
			 "only limits are, files out of reach only with "
			 "'run --explain'",
			 name);
	if (l.status || !l.json || l.follow)
		return l.status ? l.status : cmd_flush(ctx);
	json_out_array_end(o);
	json_out_object_end(o);
	return print_json(ctx, o);
}
