#include "cmd.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/utc.h"

int cmd_error(struct sandlock_error *err, enum sandlock_error_kind kind,
	      int sys, const char *fmt, ...)
{
	va_list ap;
	int n;

	err->kind = kind;
	err->sys = sys;
	err->hint[0] = 0;
	va_start(ap, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	if (sys && n >= 0 && (size_t)n < sizeof(err->msg))
		(void)snprintf(err->msg + n, sizeof(err->msg) - n, ": %s",
			       strerror(sys));
	return sys ? -sys : -EINVAL;
}

int cmd_hint(struct sandlock_error *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(err->hint, sizeof(err->hint), fmt, ap);
	va_end(ap);
	return err->sys ? -err->sys : -EINVAL;
}

void cmd_error_from(struct sandlock_error *err, const struct error *e)
{
	/* Both enums list the same kinds in the same order. */
	_Static_assert((int)SANDLOCK_ERR_TIMEOUT == (int)ERR_TIMEOUT,
		       "error kinds of the API and of base/ differ");
	err->kind = (enum sandlock_error_kind)e->kind;
	err->sys = e->sys;
	(void)snprintf(err->msg, sizeof(err->msg), "%s", e->msg);
	(void)snprintf(err->hint, sizeof(err->hint), "%s", e->hint);
}

static int run_status(const struct sandlock_error *err)
{
	switch (err->kind) {
	case SANDLOCK_ERR_EXEC_MISSING:
		return STATUS_EXEC_MISSING;
	case SANDLOCK_ERR_EXEC_DENIED:
		return STATUS_EXEC_DENIED;
	case SANDLOCK_ERR_TIMEOUT:
		return STATUS_TIMEOUT;
	case SANDLOCK_ERR_NONE:
	case SANDLOCK_ERR_USAGE:
	case SANDLOCK_ERR_SYSTEM:
	case SANDLOCK_ERR_BUNDLE:
	case SANDLOCK_ERR_NAME:
	case SANDLOCK_ERR_EXISTS:
	case SANDLOCK_ERR_NOT_FOUND:
	case SANDLOCK_ERR_STATE:
	case SANDLOCK_ERR_UNSUPPORTED:
	case SANDLOCK_ERR_CONFLICT:
	case SANDLOCK_ERR_LOCKED:
	case SANDLOCK_ERR_TORN:
	case SANDLOCK_ERR_HOOK:
		break;
	}
	return STATUS_RUN_FAILURE;
}

/* Which exit status @err means for the verb of @ctx. */
static int exit_status(const struct ctx *ctx, const struct sandlock_error *err)
{
	bool is_exec = ctx->verb && ctx->verb->id == VERB_EXEC;

	if (ctx->engine)
		return is_exec && err->kind != SANDLOCK_ERR_USAGE
			       ? STATUS_ENGINE_EXEC
			       : STATUS_FAILURE;
	if (ctx->verb && (ctx->verb->flags & VERB_RUNS))
		return run_status(err);
	if (err->kind == SANDLOCK_ERR_USAGE)
		return STATUS_USAGE;
	if (err->kind == SANDLOCK_ERR_CONFLICT)
		return STATUS_CONFLICT;
	if (err->kind == SANDLOCK_ERR_LOCKED)
		return STATUS_LOCKED;
	return STATUS_FAILURE;
}

static const char *level_name(enum sandlock_log_level level)
{
	switch (level) {
	case SANDLOCK_LOG_ERROR:
		return "error";
	case SANDLOCK_LOG_WARNING:
		return "warning";
	case SANDLOCK_LOG_INFO:
		return "info";
	case SANDLOCK_LOG_DEBUG:
		return "debug";
	}
	return "error";
}

static void format_line(const struct ctx *ctx, struct buf *line,
			enum sandlock_log_level level, const char *msg)
{
	auto_ptr(json_out_free) struct json_out *o = NULL;
	struct timespec now = { 0 };
	char when[UTC_MAX];

	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)utc_text(&now, 0, when);
	o = json_out_new(false);
	if (!o)
		return;
	if (ctx->log_json) {
		json_out_object(o);
		json_out_str_member(o, "level", level_name(level));
		json_out_str_member(o, "msg", msg);
		json_out_str_member(o, "time", when);
		json_out_object_end(o);
	} else {
		buf_printf(line, "time=\"%s\" level=%s msg=", when,
			   level_name(level));
		json_out_str(o, msg);
	}
	(void)json_out_end(o, line);
}

/*
 * The file is opened for each line: an fd of ours that stays open could be
 * taken for one of those that --preserve-fds passes on.
 */
static void write_log(const struct ctx *ctx, enum sandlock_log_level level,
		      const char *msg)
{
	auto_(buf) struct buf line = BUF_INIT;
	auto_close int fd = open(
		ctx->log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0)
		return;
	format_line(ctx, &line, level, msg);
	if (!buf_failed(&line))
		(void)fd_write_full(fd, line.data, line.len);
}

static void write_stderr(const char *prefix, const char *msg)
{
	auto_(buf) struct buf line = BUF_INIT;

	buf_add_str(&line, prefix);
	text_escape(&line, msg, strlen(msg));
	buf_add_char(&line, '\n');
	if (!buf_failed(&line))
		(void)fd_write_full(STDERR_FILENO, line.data, line.len);
}

static void write_prefixed(const struct ctx *ctx, const char *msg)
{
	char prefix[32];

	(void)snprintf(prefix, sizeof(prefix), "%s: ", ctx->program);
	write_stderr(prefix, msg);
}

int cmd_fail(struct ctx *ctx, const struct sandlock_error *err)
{
	const char *msg = err->msg[0] ? err->msg : "unknown error";

	(void)fflush(stdout);
	if (ctx->log_path && !ctx->error_logged)
		write_log(ctx, SANDLOCK_LOG_ERROR, msg);
	ctx->error_logged = true;
	write_prefixed(ctx, msg);
	/* Engines ask about what is gone all the time; it is no mistake. */
	if (ctx->engine && err->kind == SANDLOCK_ERR_NOT_FOUND)
		return exit_status(ctx, err);
	if (err->hint[0])
		write_stderr("hint: ", err->hint);
	else if (err->sys == ENOSYS)
		write_stderr("hint: ",
			     "this kernel, or a filter above us, lacks a "
			     "system call: Linux 5.12 has all of them");
	else if (err->sys == EMFILE)
		write_stderr("hint: ", "raise the limit: ulimit -n 1024");
	else if (err->sys == EFBIG)
		write_stderr("hint: ", "is the limit on the size of files too "
				       "low? see ulimit -f");
	return exit_status(ctx, err);
}

int cmd_fail_memory(struct ctx *ctx)
{
	struct sandlock_error err = { 0 };

	(void)cmd_error(&err, SANDLOCK_ERR_SYSTEM, ENOMEM, "out of memory");
	return cmd_fail(ctx, &err);
}

void cmd_note(const struct ctx *ctx, const char *fmt, ...)
{
	char msg[1024];
	va_list ap;

	if (ctx->engine)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	(void)fflush(stdout);
	write_prefixed(ctx, msg);
}

void cmd_log(void *data, enum sandlock_log_level level, const char *msg)
{
	const struct ctx *ctx = data;

	if (level > ctx->log_level)
		return;
	if (ctx->log_path)
		write_log(ctx, level, msg);
	else if (level == SANDLOCK_LOG_DEBUG || ctx->engine) {
		auto_(buf) struct buf line = BUF_INIT;

		format_line(ctx, &line, level, msg);
		if (!buf_failed(&line))
			(void)fd_write_full(STDERR_FILENO, line.data, line.len);
	} else {
		write_prefixed(ctx, msg);
	}
}

int cmd_flush(struct ctx *ctx)
{
	struct sandlock_error err = { 0 };

	if (!ferror(stdout) && !fflush(stdout))
		return 0;
	(void)cmd_error(&err, SANDLOCK_ERR_SYSTEM, errno ? errno : EIO,
			"cannot write to standard output");
	return cmd_fail(ctx, &err);
}

int cmd_child_status(const struct sandlock_result *r)
{
	switch (r->exit_kind) {
	case SANDLOCK_EXIT_CODE:
		return r->exit_value;
	case SANDLOCK_EXIT_SIGNAL:
	case SANDLOCK_EXIT_QUOTA:
		return 128 + r->exit_value;
	case SANDLOCK_EXIT_TIMEOUT:
		return STATUS_TIMEOUT;
	case SANDLOCK_EXIT_UNKNOWN:
		break;
	}
	return STATUS_RUN_FAILURE;
}
