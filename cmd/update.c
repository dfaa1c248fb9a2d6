#include "cmd.h"

#include <string.h>
#include <strings.h>
#include <sys/mman.h>

#include "base/fd.h"

/* Which member of the resources object an option sets. */
/* clang-format off */
static const struct {
	const char *option, *object, *member;
	enum { NUMBER, SIZE, TEXT } kind;
} members[] = {
	{ "blkio-weight",       "blockIO", "weight",          NUMBER },
	{ "cpu-burst",          "cpu",     "burst",           NUMBER },
	{ "cpu-idle",           "cpu",     "idle",            NUMBER },
	{ "cpu-period",         "cpu",     "period",          NUMBER },
	{ "cpu-quota",          "cpu",     "quota",           NUMBER },
	{ "cpu-rt-period",      "cpu",     "realtimePeriod",  NUMBER },
	{ "cpu-rt-runtime",     "cpu",     "realtimeRuntime", NUMBER },
	{ "cpu-share",          "cpu",     "shares",          NUMBER },
	{ "cpuset-cpus",        "cpu",     "cpus",            TEXT },
	{ "cpuset-mems",        "cpu",     "mems",            TEXT },
	{ "kernel-memory",      "memory",  "kernel",          SIZE },
	{ "kernel-memory-tcp",  "memory",  "kernelTCP",       SIZE },
	{ "memory",             "memory",  "limit",           SIZE },
	{ "memory-reservation", "memory",  "reservation",     SIZE },
	{ "memory-swap",        "memory",  "swap",            SIZE },
	{ "pids-limit",         "pids",    "limit",           NUMBER },
};
/* clang-format on */

/* "512m", "1GiB", "-1", in bytes. */
static int parse_size(const char *text, int64_t *ret)
{
	static const char units[] = "kmgt";
	const char *unit;
	int64_t n, factor = 1;
	char *end;

	errno = 0;
	n = strtoll(text, &end, 10);
	if (end == text || errno || n < -1)
		return -EINVAL;
	unit = *end ? strchr(units, *end | 0x20) : NULL;
	if (unit) {
		factor = INT64_C(1) << (10 * (unit - units + 1));
		end++;
		if (!strncasecmp(end, "ib", 2))
			end++;
	}
	if (*end == 'b' || *end == 'B')
		end++;
	if (*end || (n < 0 && factor > 1) ||
	    __builtin_mul_overflow(n, factor, &n))
		return -EINVAL;
	*ret = n;
	return 0;
}

static int add_member(struct json_out *o, const struct args *args, size_t i,
		      struct sandlock_error *err)
{
	const char *text = args_str(args, members[i].option);
	int64_t n = 0;

	switch (members[i].kind) {
	case TEXT:
		json_out_str_member(o, members[i].member, text);
		return 0;
	case NUMBER:
		n = args_number(args, members[i].option, 0);
		break;
	case SIZE:
		if (parse_size(text, &n) < 0)
			return cmd_error(err, SANDLOCK_ERR_USAGE, 0,
					 "'%s' for '--%s' is no size", text,
					 members[i].option);
		break;
	}
	json_out_int_member(o, members[i].member, n);
	return 0;
}

/* Returns how many options there were. */
static int add_members(struct json_out *o, const struct args *args,
		       struct sandlock_error *err)
{
	const char *open = NULL;
	int n = 0;

	json_out_object(o);
	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		if (!args_has_value(args, members[i].option))
			continue;
		if (open && strcmp(open, members[i].object)) {
			json_out_object_end(o);
			open = NULL;
		}
		if (!open) {
			open = members[i].object;
			json_out_key(o, open);
			json_out_object(o);
		}
		if (add_member(o, args, i, err) < 0)
			return -EINVAL;
		n++;
	}
	if (open)
		json_out_object_end(o);
	json_out_object_end(o);
	return n;
}

static int make_memfd(const struct buf *text, int *ret_fd,
		      struct sandlock_error *err)
{
	auto_close int fd = memfd_create("resources", MFD_CLOEXEC);

	if (fd < 0 || fd_write_full(fd, text->data, text->len) < 0 ||
	    lseek(fd, 0, SEEK_SET) < 0)
		return cmd_error(err, SANDLOCK_ERR_SYSTEM, errno,
				 "cannot hold the resources");
	*ret_fd = take_fd(&fd);
	return 0;
}

/* What is wrong with @path, or the limits in it. */
static void say_where(const char *path, struct sandlock_error *err)
{
	struct sandlock_error inner = *err;

	if (err->kind != SANDLOCK_ERR_BUNDLE &&
	    err->kind != SANDLOCK_ERR_SYSTEM &&
	    err->kind != SANDLOCK_ERR_UNSUPPORTED)
		return;
	if (!strstr(inner.msg, path))
		(void)cmd_error(err, inner.kind, 0, "'%s': %s", path,
				inner.msg);
	err->sys = inner.sys;
	(void)cmd_hint(err, "%s",
		       *inner.hint ? inner.hint
				   : "nothing has changed: correct it, and "
				     "update again");
}

int cmd_update(struct ctx *ctx, struct args *args)
{
	const char *path = args_str(args, "resources");
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);
	auto_(buf) struct buf text = BUF_INIT;
	struct sandlock_error err = { 0 };
	char fd_path[FD_PATH_MAX];
	auto_close int fd = -1;
	int n;

	if (!o)
		return cmd_fail_memory(ctx);
	n = add_members(o, args, &err);
	if (n < 0)
		return cmd_fail(ctx, &err);
	if (!n && !path) {
		(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0,
				"'update' was told no limit");
		(void)cmd_hint(&err, "sandlock update --help lists them");
		return cmd_fail(ctx, &err);
	}
	if (n && path) {
		(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0,
				"--resources and single limits exclude each "
				"other");
		return cmd_fail(ctx, &err);
	}
	if (!path) {
		if (json_out_end(o, &text) < 0 || buf_failed(&text))
			return cmd_fail_memory(ctx);
		if (make_memfd(&text, &fd, &err) < 0)
			return cmd_fail(ctx, &err);
		path = fd_proc_path(fd, fd_path);
	}
	if (sandlock_update(&ctx->env, args->operands[0], path, &err) < 0) {
		if (fd < 0)
			say_where(strcmp(path, "-") ? path : "standard input",
				  &err);
		return cmd_fail(ctx, &err);
	}
	return 0;
}
