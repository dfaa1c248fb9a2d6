/*
 * Runs a command for which one file is not what it is: whoever opens FILE gets
 * the bytes of TEXT instead, and every file that is opened is counted.
 *
 *	cc virtual.c -o virtual $(pkg-config --cflags --libs libsandlock)
 *	./virtual /etc/hostname "not your host" cat /etc/hostname
 */
#include <limits.h>
#include <sandlock.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct virtual
{
	const char *file, *text;
	atomic_int opened; /* handlers run on several threads at once */
};

static int fail(const struct sandlock_error *err)
{
	fprintf(stderr, "virtual: %s\n", err->msg);
	if (err->hint[0])
		fprintf(stderr, "virtual: %s\n", err->hint);
	return 125;
}

/* openat(DIRFD, PATH, ...) */
static int on_openat(void *data, struct sandlock_call *c,
		     struct sandlock_action *ret)
{
	struct virtual *v = data;
	char path[PATH_MAX];

	v->opened++;
	ret->kind = SANDLOCK_ACTION_CONTINUE;
	/* What cannot be read the kernel refuses, with the errno for it. */
	if (sandlock_call_read_string(c, sandlock_call_get_info(c)->args[1],
				      path, sizeof(path)) < 0 ||
	    strcmp(path, v->file) != 0)
		return 0;
	return sandlock_action_bytes(v->text, strlen(v->text), ret, NULL);
}

static int run(struct sandlock_sandbox *s, const char *const *argv,
	       struct sandlock_error *err)
{
	struct sandlock_launch launch = { .argv = argv };
	const struct sandlock_report *report;
	int r = sandlock_sandbox_run(s, &launch, &report, err);

	if (r < 0)
		return r;
	return report->result.exit_kind == SANDLOCK_EXIT_CODE
		       ? report->result.exit_value
		       : 1;
}

int main(int argc, char **argv)
{
	struct sandlock_request *q = sandlock_request_new();
	struct sandlock_sandbox *s = NULL;
	struct sandlock_error err = { 0 };
	struct virtual v = { .text = "" };
	struct sandlock_handler handler = {
		.syscall = "openat",
		.fn = on_openat,
		.data = &v,
		.on_exception = SANDLOCK_EXCEPTION_EIO,
	};
	int r;

	if (argc < 4 || !q)
		return 2;
	v.file = argv[1];
	v.text = argv[2];
	r = sandlock_sandbox_new(NULL, q, &s, &err);
	if (r == 0)
		r = sandlock_sandbox_add_handler(s, &handler, &err);
	if (r == 0)
		r = run(s, (const char *const *)argv + 3, &err);
	if (r < 0)
		r = fail(&err);
	else
		fprintf(stderr, "%d opened\n", v.opened);
	sandlock_sandbox_free(s);
	sandlock_request_free(q);
	return r;
}
