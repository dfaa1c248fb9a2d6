/*
 * A pipeline whose parts trust each other with nothing but their bytes: one
 * reads a file that the other one cannot see, and neither has a network.
 *
 *	./pipeline FILE		prints how many words are in it
 */
#include <sandlock.h>
#include <stdio.h>

enum { PARTS = 2 };

/* Without a workdir; it sees the system and, if there is one, the file. */
static int make(const char *file, struct sandlock_sandbox **ret,
		struct sandlock_error *err)
{
	struct sandlock_request *q = sandlock_request_new();
	int r = -1;

	if (q)
		r = sandlock_request_set(q, "config.branch", "false",
					 "pipeline", err);
	if (r == 0)
		r = sandlock_request_set(q, "program.cwd", "/", "pipeline",
					 err);
	for (const char *const *p =
		     (const char *const[]){ "/usr", "/bin", "/lib", "/lib64",
					    NULL };
	     r == 0 && *p; p++)
		r = sandlock_request_set(q, "filesystem.read", *p, "pipeline",
					 err);
	if (r == 0 && file)
		r = sandlock_request_set(q, "filesystem.read", file, "pipeline",
					 err);
	if (r == 0)
		r = sandlock_sandbox_new(NULL, q, ret, err);
	sandlock_request_free(q);
	return r;
}

static int count(struct sandlock_sandbox **v, const char *file,
		 struct sandlock_error *err)
{
	const char *const cat[] = { "cat", file, NULL };
	const char *const wc[] = { "wc", "-w", NULL };
	struct sandlock_launch l[PARTS] = {
		{ .argv = cat, .in.kind = SANDLOCK_STDIO_NULL },
		{ .argv = wc, .out.kind = SANDLOCK_STDIO_CAPTURE },
	};
	const struct sandlock_report *r;

	if (make(file, &v[0], err) < 0 || make(NULL, &v[1], err) < 0 ||
	    sandlock_pipeline_start(v, l, PARTS, err) < 0 ||
	    sandlock_wait_all(v, PARTS, -1, err) < 0 ||
	    sandlock_sandbox_wait(v[1], 0, &r, err) < 0)
		return -1;
	printf("%s", r->out_data);
	return r->result.exit_value;
}

int main(int argc, char **argv)
{
	struct sandlock_sandbox *v[PARTS] = { NULL };
	struct sandlock_error err = { 0 };
	int r;

	if (argc != 2 || argv[1][0] != '/') {
		fprintf(stderr, "usage: pipeline /PATH\n");
		return 2;
	}
	r = count(v, argv[1], &err);
	if (r < 0) {
		fprintf(stderr, "pipeline: %s\n", err.msg);
		r = 125;
	}
	for (int i = 0; i < PARTS; i++)
		sandlock_sandbox_free(v[i]);
	return r;
}
