#include "cmd.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/limits.h"

static int print_names(struct ctx *ctx, const struct args *args, char **names,
		       size_t n)
{
	static const char *const header[] = { "NAME", "FILE" };
	bool quiet = args_has(args, "quiet");
	auto_(table) struct table t;

	table_init(&t, ARRAY_LEN(header), 0, 2);
	for (size_t i = 0; i < ARRAY_LEN(header); i++)
		table_add(&t, header[i], 0);
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = NULL;

		if (quiet)
			printf("%s\n", names[i]);
		/* One that has gone meanwhile is none. */
		else if (sandlock_profile_path(names[i], &path, NULL) == 0) {
			table_add(&t, names[i], 0);
			table_add(&t, path, 0);
		}
	}
	if (!quiet && table_print(&t, stdout) < 0)
		return cmd_fail_memory(ctx);
	return cmd_flush(ctx);
}

static int print_names_json(struct ctx *ctx, char **names, size_t n)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(true);

	if (!o)
		return cmd_fail_memory(ctx);
	json_out_object(o);
	json_out_str_member(o, "schema", "sandlock.profiles/1");
	json_out_key(o, "profiles");
	json_out_array(o);
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = NULL;

		if (sandlock_profile_path(names[i], &path, NULL) < 0)
			continue;
		json_out_object(o);
		json_out_str_member(o, "name", names[i]);
		json_out_key(o, "file");
		json_out_bytes(o, path, strlen(path));
		json_out_object_end(o);
	}
	json_out_array_end(o);
	json_out_object_end(o);
	return print_json(ctx, o);
}

static int list(struct ctx *ctx, const struct args *args)
{
	struct sandlock_error err = { 0 };
	char **names = NULL;
	size_t n = 0;
	int r;

	if (sandlock_profiles(&names, &n, &err) < 0)
		return cmd_fail(ctx, &err);
	r = args_json(args) ? print_names_json(ctx, names, n)
			    : print_names(ctx, args, names, n);
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
	return r;
}

/* 0 if the file can be used as a profile. */
static int check_file(const char *path, struct sandlock_error *err)
{
	auto_ptr(sandlock_request_free) struct sandlock_request *q =
		sandlock_request_new();
	struct sandlock_error e = { 0 };
	int r;

	if (!q)
		return cmd_error(err, SANDLOCK_ERR_SYSTEM, ENOMEM, "profile");
	r = sandlock_request_load(q, path, true, err);
	if (r < 0)
		return r;
	r = sandlock_request_check(q, &e);
	if (r < 0) {
		(void)cmd_error(err, e.kind, e.sys, "%s: %s", path, e.msg);
		(void)cmd_hint(err, "%s", e.hint);
	}
	return r;
}

/* The text as it is: what can be read as a profile hides no controls. */
static int show(struct ctx *ctx, const char *name)
{
	auto_(buf) struct buf text = BUF_INIT;
	struct sandlock_error err = { 0 };
	auto_free char *path = NULL;
	int r;

	if (sandlock_profile_path(name, &path, &err) < 0 ||
	    check_file(path, &err) < 0)
		return cmd_fail(ctx, &err);
	r = fd_read_file(AT_FDCWD, path, LIMIT_TOML_BYTES, &text);
	if (r < 0) {
		(void)cmd_error(&err, SANDLOCK_ERR_SYSTEM, -r,
				"cannot read the profile '%s'", path);
		return cmd_fail(ctx, &err);
	}
	(void)fwrite(buf_str(&text), 1, text.len, stdout);
	return cmd_flush(ctx);
}

static int check(struct ctx *ctx, const char *const *files)
{
	int status = 0;

	for (; *files; files++) {
		struct sandlock_error err = { 0 };

		/* Told of all, whichever fails. */
		if (check_file(*files, &err) < 0) {
			(void)cmd_fail(ctx, &err);
			status = STATUS_FAILURE;
		}
	}
	return status;
}

int cmd_profile(struct ctx *ctx, struct args *args)
{
	const char *action = args->operands[0];
	struct sandlock_error err = { 0 };

	if (strcmp(action, "list") == 0 && args->n_operands == 1)
		return list(ctx, args);
	if (strcmp(action, "show") == 0 && args->n_operands == 2)
		return show(ctx, args->operands[1]);
	if (strcmp(action, "check") == 0 && args->n_operands > 1)
		return check(ctx, args->operands + 1);
	(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0,
			"'profile %s' is unknown, or not with %zu operand%s",
			action, args->n_operands - 1,
			args->n_operands == 2 ? "" : "s");
	(void)cmd_hint(&err, "profile list, profile show NAME, "
			     "profile check FILE...");
	return cmd_fail(ctx, &err);
}
