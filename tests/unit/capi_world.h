/* Places of their own for sandboxes of an embedder. */
#ifndef SANDLOCK_TESTS_CAPI_WORLD_H
#define SANDLOCK_TESTS_CAPI_WORLD_H

#include "unit.h"

#include <sys/wait.h>

#include "sandlock.h"

struct world {
	char path[256];
	char root[300], store[300], dir[300];
	struct sandlock_env env;
};

static void run_shell(const char *script, const char *arg)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", script, "sh", arg, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int begin(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	const char *build = getenv("BUILD");
	static char program[512];
	int fd = unit_tmpdir(w->path);

	(void)close(fd);
	(void)snprintf(w->root, sizeof(w->root), "%s/run", w->path);
	(void)snprintf(w->store, sizeof(w->store), "%s/store", w->path);
	(void)snprintf(w->dir, sizeof(w->dir), "%s/dir", w->path);
	assert_int_equal(mkdir(w->dir, 0755), 0);
	w->env.root = w->root;
	w->env.store = w->store;
	if (build) {
		(void)snprintf(program, sizeof(program), "%s/sandlock", build);
		w->env.program = program;
	}
	*state = w;
	return 0;
}

static int end(void **state)
{
	struct world *w = *state;

	/* A remover may be at work in it; overlay's own has no rights. */
	run_shell("i=0; until { chmod -R u+rwx \"$1\"; rm -rf \"$1\"; } "
		  "2>/dev/null; do i=$((i + 1)); [ $i -lt 300 ] || exit 1; "
		  "sleep 0.1; done",
		  w->path);
	free(w);
	return 0;
}

static _Thread_local struct sandlock_error err;

#define OK(call)                                                           \
	do {                                                               \
		if ((call) < 0)                                            \
			fail_msg("%s: %s (%s)", #call, err.msg, err.hint); \
	} while (0)

/* On a branch over @dir, or with @on_exit NULL without any. */
static struct sandlock_sandbox *make(const struct world *w, const char *dir,
				     const char *on_exit)
{
	struct sandlock_request *q = sandlock_request_new();
	struct sandlock_sandbox *s = NULL;

	assert_non_null(q);
	if (on_exit) {
		OK(sandlock_request_set(q, "config.workdir", dir, "test",
					&err));
		OK(sandlock_request_set(q, "filesystem.on_exit", on_exit,
					"test", &err));
	} else {
		OK(sandlock_request_set(q, "config.branch", "false", "test",
					&err));
		OK(sandlock_request_set(q, "program.cwd", "/", "test", &err));
	}
	OK(sandlock_sandbox_new(&w->env, q, &s, &err));
	sandlock_request_free(q);
	return s;
}

static struct sandlock_launch captured(const char *const *argv)
{
	return (struct sandlock_launch){
		.argv = argv,
		.in.kind = SANDLOCK_STDIO_NULL,
		.out.kind = SANDLOCK_STDIO_CAPTURE,
		.err.kind = SANDLOCK_STDIO_CAPTURE,
	};
}

#endif
