#include "embed/spawn.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"

extern char **environ;

/* What the child will have as fd 0 and on, as it is here. */
struct given {
	int *fds;
	size_t n;
	int first_free; /* above all numbers that the child will have */
};

static void given_done(struct given *g)
{
	for (size_t i = 0; i < g->n; i++)
		(void)close(g->fds[i]);
	free(g->fds);
}

/*
 * A copy with a number that no copy in the child overwrites before it is
 * copied itself.
 */
static int give(struct given *g, int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, g->first_free);

	if (copy < 0)
		return -errno;
	g->fds[g->n++] = copy;
	return 0;
}

static int give_null(struct given *g)
{
	auto_close int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : give(g, fd);
}

static int give_pipe(struct given *g, bool input, int *ours)
{
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	*ours = fds[input ? 1 : 0];
	r = give(g, fds[input ? 0 : 1]);
	(void)close(fds[input ? 0 : 1]);
	return r;
}

static int give_stream(struct given *g, const struct sandlock_stdio *s,
		       int number, int *ours)
{
	int r;

	switch (s->kind) {
	case SANDLOCK_STDIO_INHERIT:
		r = give(g, number);
		return r == -EBADF ? give_null(g) : r;
	case SANDLOCK_STDIO_NULL:
		return give_null(g);
	case SANDLOCK_STDIO_FD:
		return give(g, s->fd);
	case SANDLOCK_STDIO_PIPE:
		return give_pipe(g, number == 0, ours);
	case SANDLOCK_STDIO_CAPTURE:
		if (number == 0)
			return -EINVAL;
		r = give_pipe(g, false, ours);
		/* Somebody else may hold the other end for ever. */
		if (r == 0 && fcntl(*ours, F_SETFL, O_NONBLOCK) < 0)
			r = -errno;
		return r;
	}
	return -EINVAL;
}

static int give_all(struct given *g, const struct sandlock_launch *l,
		    struct spawned *s, struct error *err)
{
	static const char *const names[] = { "in", "out", "err" };
	const struct sandlock_stdio *streams[] = { &l->in, &l->out, &l->err };
	int r = 0;

	for (int i = 0; i < 3; i++) {
		r = give_stream(g, streams[i], i, &s->stdio[i]);
		if (r < 0)
			return error_set(err, ERR_USAGE, -r, "stream '%s'",
					 names[i]);
	}
	for (size_t i = 0; i < l->n_fds; i++) {
		r = give(g, l->fds[i]);
		if (r < 0)
			return error_set(err, ERR_USAGE, -r, "fd %d",
					 l->fds[i]);
	}
	return 0;
}

/* Behind the fds that are passed on: the channel, and then who is called back.
 */
struct words {
	char preserve[16], sock[16], guests[GUESTS][16];
};

static void write_words(struct words *w, size_t n_fds, unsigned int guests)
{
	int fd = 3 + (int)n_fds;

	(void)snprintf(w->preserve, sizeof(w->preserve), "%zu", n_fds);
	(void)snprintf(w->sock, sizeof(w->sock), "%d", fd);
	for (int i = 0; i < GUESTS; i++)
		(void)snprintf(w->guests[i], sizeof(w->guests[i]), "%d",
			       guests & 1U << i ? ++fd : -1);
}

static int execute(const char *program, const struct given *g, size_t n_fds,
		   unsigned int guests, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	struct words w = { .preserve = "" };
	char *const argv[] = {
		(char *)SUPERVISOR_NAME,
		w.preserve,
		w.sock,
		w.guests[GUEST_POLICY],
		w.guests[GUEST_HANDLERS],
		NULL,
	};
	sigset_t none, all;
	int r;

	write_words(&w, n_fds, guests);
	r = posix_spawn_file_actions_init(&actions);
	if (r)
		return -r;
	r = posix_spawnattr_init(&attr);
	if (r) {
		(void)posix_spawn_file_actions_destroy(&actions);
		return -r;
	}
	for (size_t i = 0; r == 0 && i < g->n; i++)
		r = posix_spawn_file_actions_adddup2(&actions, g->fds[i],
						     (int)i);
	/* What the caller ignores or blocks is no affair of the command's. */
	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	(void)posix_spawnattr_setsigmask(&attr, &none);
	(void)posix_spawnattr_setsigdefault(&attr, &all);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK |
						      POSIX_SPAWN_SETSIGDEF);
	if (r == 0)
		r = posix_spawn(ret, program, &actions, &attr, argv, environ);
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&actions);
	return -r;
}

static bool is_executable(const char *path)
{
	return access(path, X_OK) == 0;
}

static bool read_self(char ret[PATH_MAX])
{
	return fd_read_link(AT_FDCWD, "/proc/self/exe", ret) == 0;
}

/*
 * In the directory of the object that this function is in. A relative name is
 * how it was found once, and leads to whatever the current directory is now:
 * the program that we are has another one.
 */
static bool find_beside(char ret[PATH_MAX])
{
	static const char *const at[] = { "sandlock", "../bin/sandlock",
					  "../sandlock" };
	char self[PATH_MAX];
	const char *slash, *path;
	Dl_info info;

	if (!dladdr((void *)spawn_supervisor, &info) || !info.dli_fname)
		return false;
	path = info.dli_fname;
	if (path[0] != '/') {
		if (!read_self(self))
			return false;
		path = self;
	}
	slash = strrchr(path, '/');
	if (!slash)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		int n = snprintf(ret, PATH_MAX, "%.*s/%s", (int)(slash - path),
				 path, at[i]);

		if (n < PATH_MAX && is_executable(ret))
			return true;
	}
	return false;
}

static bool is_self(char ret[PATH_MAX])
{
	const char *slash = read_self(ret) ? strrchr(ret, '/') : NULL;

	return slash && strcmp(slash, "/sandlock") == 0;
}

/* What was asked for, else what belongs to the library, else what is there. */
static int find_program(const char *given, char ret[PATH_MAX],
			struct error *err)
{
	static const char *const installed[] = { "/usr/local/bin/sandlock",
						 "/usr/bin/sandlock" };

	if (!given)
		given = getenv("SANDLOCK_PROGRAM");
	if (given) {
		(void)snprintf(ret, PATH_MAX, "%s", given);
		return 0;
	}
	if (is_self(ret) || find_beside(ret))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(installed); i++)
		if (is_executable(installed[i])) {
			(void)snprintf(ret, PATH_MAX, "%s", installed[i]);
			return 0;
		}
	(void)error_say(err, ERR_SYSTEM, ENOENT,
			"the program 'sandlock' was not found");
	return error_hint(err, "name it in the environment, as "
			       "SANDLOCK_PROGRAM, or in env.program");
}

static int give_socket(struct given *g, int *ours)
{
	int fds[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	*ours = fds[0];
	r = give(g, fds[1]);
	(void)close(fds[1]);
	return r;
}

static int spawn_with(const char *program, struct given *g,
		      const struct sandlock_launch *l, unsigned int guests,
		      struct spawned *s, struct error *err)
{
	int r = give_all(g, l, s, err);

	if (r < 0)
		return r;
	r = give_socket(g, &s->sock);
	for (int i = 0; r == 0 && i < GUESTS; i++)
		if (guests & 1U << i)
			r = give_socket(g, &s->guests[i]);
	if (r == 0)
		r = execute(program, g, l->n_fds, guests, &s->pid);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot execute '%s' as a supervisor",
				 program);
	return 0;
}

int spawn_supervisor(const char *program, const struct sandlock_launch *l,
		     unsigned int guests, struct spawned *ret,
		     struct error *err)
{
	struct spawned s = SPAWNED_INIT;
	struct given g = { .first_free = 3 + (int)l->n_fds + 1 + GUESTS };
	char path[PATH_MAX];
	int r;

	if (l->n_fds > LIMIT_PRESERVE_FDS)
		return error_say(err, ERR_USAGE, EINVAL,
				 "more than %d fds are to be passed",
				 LIMIT_PRESERVE_FDS);
	r = find_program(program, path, err);
	if (r < 0)
		return r;
	g.fds = calloc((size_t)g.first_free, sizeof(*g.fds));
	r = g.fds ? spawn_with(path, &g, l, guests, &s, err)
		  : error_set(err, ERR_SYSTEM, ENOMEM, "supervisor");
	given_done(&g);
	if (r < 0)
		spawned_done(&s);
	else
		*ret = s;
	return r;
}

void spawned_done(struct spawned *s)
{
	cleanup_close(&s->sock);
	for (int i = 0; i < GUESTS; i++)
		cleanup_close(&s->guests[i]);
	for (int i = 0; i < 3; i++)
		cleanup_close(&s->stdio[i]);
	*s = (struct spawned)SPAWNED_INIT;
}
