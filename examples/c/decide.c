/*
 * Runs a command on a branch over the current directory, shows what it changed,
 * and asks whether that is to be kept.
 *
 *	cc decide.c -o decide $(pkg-config --cflags --libs libsandlock)
 *	./decide make
 */
#include <sandlock.h>
#include <stdio.h>

static int fail(const struct sandlock_error *err)
{
	fprintf(stderr, "decide: %s\n", err->msg);
	if (err->hint[0])
		fprintf(stderr, "decide: %s\n", err->hint);
	return 125;
}

static void show(const struct sandlock_report *r)
{
	for (size_t i = 0; i < r->n_changes; i++) {
		const struct sandlock_changed *c = &r->changes[i];

		/* It was opened for writing, and its bytes are the same. */
		if (c->flags & SANDLOCK_CHANGE_CONTENT_SAME)
			continue;
		printf("%c %s\n", c->letter, c->path);
	}
}

/* Whatever is no clear yes is a no. */
static int is_wanted(void)
{
	char answer[8] = "";

	printf("keep it? [y/N] ");
	(void)fflush(stdout);
	return fgets(answer, sizeof(answer), stdin) && answer[0] == 'y';
}

static int decide(struct sandlock_sandbox *s, const char *const *argv,
		  struct sandlock_error *err)
{
	struct sandlock_launch launch = {
		.argv = argv,
		.in.kind = SANDLOCK_STDIO_NULL, /* the answer is ours */
	};
	const struct sandlock_report *report;
	int r = sandlock_sandbox_run(s, &launch, &report, err);

	if (r < 0)
		return r;
	if (!sandlock_sandbox_pending(s)) {
		printf("the command failed: nothing is kept\n");
		return 1;
	}
	show(report);
	return is_wanted() ? sandlock_sandbox_commit(s, NULL, err)
			   : sandlock_sandbox_abort(s, err);
}

int main(int argc, char **argv)
{
	struct sandlock_request *q = sandlock_request_new();
	struct sandlock_sandbox *s = NULL;
	struct sandlock_error err = { 0 };
	int r;

	if (argc < 2 || !q)
		return 2;
	r = sandlock_request_set(q, "filesystem.on_exit", "defer", "decide",
				 &err);
	if (r == 0)
		r = sandlock_sandbox_new(NULL, q, &s, &err);
	if (r == 0)
		r = decide(s, (const char *const *)argv + 1, &err);
	if (r < 0)
		r = fail(&err);
	/* A branch that is still pending would be kept for later. */
	sandlock_sandbox_free(s);
	sandlock_request_free(q);
	return r;
}
