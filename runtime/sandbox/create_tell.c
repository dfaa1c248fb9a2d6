/* What create, run and exec tell their caller: --pid-file, --pidfd-socket, and
 * what of a branch he may not expect. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "branch/branch.h"
#include "branch/change.h"
#include "kernel/tty.h"
#include "sandbox/create.h"
#include "spec/request.h"

int create_write_pid_file(const char *path, pid_t pid, struct error *err)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", (int)pid);
	const char *slash = strrchr(path, '/');
	auto_free char *dir =
		slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	auto_close int dir_fd = -1;
	int r = 0;

	if (!dir)
		return error_set(err, ERR_SYSTEM, ENOMEM, "pid file");
	dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		r = -errno;
	else
		r = fd_write_atomic(dir_fd, slash ? slash + 1 : path, text,
				    (size_t)n, 0644, false);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot write pid file '%s'", path);
	return 0;
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
