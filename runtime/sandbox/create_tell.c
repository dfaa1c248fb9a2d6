/* What create, run and exec tell their caller: --pid-file, --pidfd-socket, and
 * what of a branch he may not expect. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/uapi.h"
#include "branch/branch.h"
#include "branch/change.h"
#include "kernel/interrupt.h"
#include "kernel/tty.h"
#include "sandbox/create.h"
#include "spec/request.h"

enum { PID_FILE_WAIT_MS = 10000 };

/*
 * /dev/null, a FIFO, /dev/fd/9 whatever that is: renaming a file over such a
 * name takes from everybody what it stood for, or cannot be done.
 */
static bool is_written_through(int dir_fd, const char *name)
{
	auto_close int fd =
		fd_openat2(dir_fd, name, O_PATH, 0, RESOLVE_NO_MAGICLINKS);
	struct stat st;

	if (fd < 0)
		return fd == -ELOOP;
	return fstat(fd, &st) == 0 && !S_ISREG(st.st_mode);
}

/* Who reads a FIFO may still be about to open it, or may never do so. */
static int open_through(int dir_fd, const char *name,
			struct interrupt *interrupt)
{
	const struct timespec pause = { .tv_nsec = 5 * 1000 * 1000 };
	int64_t end_ms = clock_now_ms() + PID_FILE_WAIT_MS;
	int fd;

	for (;;) {
		fd = openat(dir_fd, name,
			    O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK |
				    O_CLOEXEC);
		if (fd >= 0)
			return fd;
		if (errno != ENXIO || clock_now_ms() >= end_ms)
			return -errno;
		if (interrupt_came(interrupt))
			return -EINTR;
		(void)nanosleep(&pause, NULL);
	}
}

static int write_through(int dir_fd, const char *name, const char *text,
			 size_t len, struct interrupt *interrupt)
{
	auto_close int fd = open_through(dir_fd, name, interrupt);

	return fd < 0 ? take_fd(&fd) : fd_write_full(fd, text, len);
}

static int write_pid(const char *path, const char *text, size_t len,
		     struct interrupt *interrupt)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	auto_free char *dir =
		slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	auto_close int dir_fd = -1;

	if (!dir)
		return -ENOMEM;
	dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	return is_written_through(dir_fd, name)
		       ? write_through(dir_fd, name, text, len, interrupt)
		       : fd_write_atomic(dir_fd, name, text, len, 0644, false);
}

int create_write_pid_file(const char *path, pid_t pid,
			  struct interrupt *interrupt, struct error *err)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", (int)pid);
	int r = write_pid(path, text, (size_t)n, interrupt);

	if (r == 0)
		return 0;
	(void)error_set(err, ERR_SYSTEM, -r, "cannot write pid file '%s'",
			path);
	return r == -ENXIO
		       ? error_hint(err, "has nobody opened it for reading?")
		       : r;
}

int create_send_pidfd(const char *path, int pidfd, struct error *err)
{
	int sock = tty_console_connect(path, err), r;

	if (sock < 0)
		return sock;
	r = fd_send(sock, "pidfd", 5, &pidfd, 1);
	(void)close(sock);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot send the pidfd to '%s'", path);
	return 0;
}

/* Said once, before the command sees what lies under them. */
struct uncovered {
	char first[PATH_MAX];
	size_t n;
};

static int note_uncovered(void *data, const struct change *c)
{
	struct uncovered *u = data;

	if (u->n++ == 0)
		(void)snprintf(u->first, sizeof(u->first), "%s%s%s",
			       c->root ? c->root : "", c->root ? "/" : "",
			       c->path);
	return 0;
}

static void warn_of_uncovered(const struct create *c)
{
	auto_(buf) struct buf b = BUF_INIT;
	struct uncovered u = { .n = 0 };

	if (branch_uncovered(c->branch, note_uncovered, &u, NULL) < 0 || !u.n)
		return;
	path_quote(&b, u.first, strlen(u.first));
	if (u.n == 1)
		log_warn(c->env->log,
			 "a mount in the workdir is not covered: %s",
			 buf_str(&b));
	else
		log_warn(c->env->log,
			 "%zu mounts in the workdir are not covered: %s, …",
			 u.n, buf_str(&b));
}

/* -w has no say within a workdir, which only the branch is written to. */
static void warn_of_written(const struct create *c, const char *written)
{
	auto_free char *real = realpath(written, NULL);
	auto_(buf) struct buf b = BUF_INIT;

	for (size_t i = 0; real && i < branch_n_roots(c->branch); i++) {
		const char *dir = branch_lower(branch_root(c->branch, i));

		if (!path_is_under(real, dir))
			continue;
		path_quote(&b, written, strlen(written));
		log_warn(c->env->log,
			 "-w %s lies in a workdir: what is written there waits "
			 "in the branch, too",
			 buf_str(&b));
		return;
	}
}

static void warn_of_all_written(const struct create *c)
{
	const struct request *r = c->command ? c->command->request : NULL;

	/* Of a chroot it is past the branch. */
	for (size_t i = 0; r && !r->chroot && i < r->write.n; i++)
		warn_of_written(c, r->write.v[i]);
}

void create_warn_of_branch(const struct create *c)
{
	if (!c->branch || !c->plan->host || create_is_later(c))
		return;
	warn_of_uncovered(c);
	warn_of_all_written(c);
}
