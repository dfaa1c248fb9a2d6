#include "cmd.h"

#include <string.h>
#include <time.h>

/* "500ms", "5s", "1m", "2h"; a bare number is seconds. */
static int parse_interval(const char *text, struct timespec *ret)
{
	/* clang-format off */
	static const struct { const char *unit; int64_t ms; } units[] = {
		{ "ms", 1 }, { "s", 1000 }, { "", 1000 },
		{ "m", 60 * 1000 }, { "h", 3600 * 1000 },
	};
	/* clang-format on */
	int64_t n;
	char *end;

	errno = 0;
	n = strtoll(text, &end, 10);
	if (end == text || errno || n <= 0 || n > INT32_MAX)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (strcmp(end, units[i].unit))
			continue;
		n *= units[i].ms;
		*ret = (struct timespec){ n / 1000, n % 1000 * 1000000 };
		return 0;
	}
	return -EINVAL;
}

static int print_stats(struct ctx *ctx, const char *name,
		       struct sandlock_error *err)
{
	auto_free char *json = NULL;
	int r = sandlock_stats(&ctx->env, name, &json, err);

	if (r < 0)
		return r;
	(void)fputs(json, stdout);
	if (*json && json[strlen(json) - 1] != '\n')
		(void)putchar('\n');
	return 0;
}

/* What the kernel killed since the last look: an event for each, as runc has
 * it. */
static int print_ooms(struct ctx *ctx, const char *name, uint64_t *seen,
		      bool *ret_gone)
{
	uint64_t now = *seen;

	*ret_gone = sandlock_oom_kills(&ctx->env, name, &now, NULL) < 0;
	if (*ret_gone || now <= *seen)
		return 0;
	/* The name has been found: no character of it needs an escape. */
	for (; *seen < now; ++*seen)
		printf("{\"type\":\"oom\",\"id\":\"%s\"}\n", name);
	return cmd_flush(ctx);
}

/* Waits until the next line of statistics is due, or it is gone. */
static int wait_interval(struct ctx *ctx, const char *name,
			 const struct timespec *interval, uint64_t *seen)
{
	enum { LOOK_MS = 200 };
	int64_t left =
		(int64_t)interval->tv_sec * 1000 + interval->tv_nsec / 1000000;
	bool gone = false;
	int r = 0;

	for (; r == 0 && !gone && left > 0; left -= LOOK_MS) {
		int64_t ms = left < LOOK_MS ? left : LOOK_MS;
		struct timespec pause = { .tv_nsec = ms * 1000000 };

		(void)nanosleep(&pause, NULL);
		r = print_ooms(ctx, name, seen, &gone);
	}
	return r;
}

int cmd_events(struct ctx *ctx, struct args *args)
{
	const char *interval = args_str(args, "interval");
	const char *name = args->operands[0];
	struct sandlock_error err = { 0 };
	struct timespec pause = { .tv_sec = 5 };
	uint64_t ooms = 0;
	bool told = false;
	int r;

	if (interval && parse_interval(interval, &pause) < 0) {
		(void)cmd_error(&err, SANDLOCK_ERR_USAGE, 0,
				"'%s' for '--interval' is no time", interval);
		(void)cmd_hint(&err, "such as 500ms, 5s or 1m");
		return cmd_fail(ctx, &err);
	}
	/* What was before is not told again. */
	(void)sandlock_oom_kills(&ctx->env, name, &ooms, NULL);
	for (;;) {
		if (print_stats(ctx, name, &err) < 0)
			break;
		told = true;
		r = cmd_flush(ctx);
		if (r == 0 && !args_has(args, "stats"))
			r = wait_interval(ctx, name, &pause, &ooms);
		if (r || args_has(args, "stats"))
			return r;
	}
	/* The end of the sandbox is the end of its events. */
	if (told && (err.kind == SANDLOCK_ERR_STATE ||
		     err.kind == SANDLOCK_ERR_NOT_FOUND))
		return 0;
	return cmd_fail(ctx, &err);
}
