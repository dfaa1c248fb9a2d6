#include "cmd.h"

#include "base/user.h"
#include "spec/spec.h"

static void owner_name(uid_t uid, char ret[64])
{
	auto_free char *name = user_name(uid);

	if (name)
		(void)snprintf(ret, 64, "%s", name);
	else
		(void)snprintf(ret, 64, "#%u", uid);
}

/* runc prints an empty list as null, and programs expect the one or other. */
static int print_list_json(struct ctx *ctx, const struct sandlock_info *v,
			   size_t n)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);
	char owner[64];

	if (!o)
		return cmd_fail_memory(ctx);
	if (!n && ctx->engine) {
		json_out_null(o);
		return print_json(ctx, o);
	}
	json_out_array(o);
	for (size_t i = 0; i < n; i++) {
		owner_name(v[i].owner, owner);
		json_out_object(o);
		json_out_str_member(o, "ociVersion", SPEC_OCI_VERSION);
		json_out_str_member(o, "id", v[i].name);
		json_out_int_member(o, "pid", v[i].pid);
		json_out_str_member(o, "status", v[i].status);
		json_out_str_member(o, "bundle", v[i].bundle);
		json_out_str_member(o, "rootfs", v[i].rootfs);
		json_out_str_member(o, "created", v[i].created);
		json_out_str_member(o, "owner", owner);
		json_out_object_end(o);
	}
	json_out_array_end(o);
	return print_json(ctx, o);
}

static int print_list_table(struct ctx *ctx, const struct sandlock_info *v,
			    size_t n)
{
	static const char *const header[] = { "ID",	"PID",	   "STATUS",
					      "BUNDLE", "CREATED", "OWNER" };
	enum { MIN_WIDTH = 12, PADDING = 3 };
	auto_(table) struct table t;
	char text[64];

	table_init(&t, ARRAY_LEN(header), MIN_WIDTH, PADDING);
	for (size_t i = 0; i < ARRAY_LEN(header); i++)
		table_add(&t, header[i], 0);
	for (size_t i = 0; i < n; i++) {
		table_add(&t, v[i].name, 0);
		(void)snprintf(text, sizeof(text), "%d", (int)v[i].pid);
		table_add(&t, text, 0);
		table_add(&t, v[i].status, 0);
		table_add(&t, v[i].bundle, 0);
		table_add(&t, v[i].created, 0);
		owner_name(v[i].owner, text);
		table_add(&t, text, 0);
	}
	if (table_print(&t, stdout) < 0)
		return cmd_fail_memory(ctx);
	return cmd_flush(ctx);
}

int cmd_list(struct ctx *ctx, struct args *args)
{
	struct sandlock_error err = { 0 };
	struct sandlock_info *v = NULL;
	size_t n = 0;
	int r;

	if (sandlock_list(&ctx->env, false, &v, &n, &err) < 0)
		return cmd_fail(ctx, &err);
	if (args_has(args, "quiet")) {
		for (size_t i = 0; i < n; i++)
			printf("%s\n", v[i].name);
		r = cmd_flush(ctx);
	} else if (args_json(args)) {
		r = print_list_json(ctx, v, n);
	} else {
		r = print_list_table(ctx, v, n);
	}
	sandlock_list_free(v, n);
	return r;
}
