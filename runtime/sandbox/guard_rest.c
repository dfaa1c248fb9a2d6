/*
 * What is left of a sandbox without a pid namespace when its guard has ended:
 * processes that become our children, beside those that we have had before.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "sandbox/create.h"

enum {
	REST_MS = 10000,
	NAP_NS = 5 * 1000 * 1000,
	CHILDREN_BYTES_MAX = 1024 * 1024,
};

/* Of all our threads, as text: "12 34 ". */
static int read_children(struct buf *ret)
{
	auto_dir DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	char path[64];
	int r = d ? 0 : -errno;

	while (r == 0 && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		(void)snprintf(path, sizeof(path),
			       "/proc/self/task/%.20s/children", e->d_name);
		r = fd_read_file(AT_FDCWD, path, CHILDREN_BYTES_MAX, ret);
		if (r == -ENOENT) /* It has ended. */
			r = 0;
	}
	return r;
}

/* CONFIG_PROC_CHILDREN */
static bool can_read_children(void)
{
	return access("/proc/thread-self/children", R_OK) == 0;
}

static pid_t next_child(const char **at)
{
	char *end;
	long pid = strtol(*at, &end, 10);

	*at = end;
	return (pid_t)pid;
}

int guard_adopt(struct strangers *ret)
{
	auto_(buf) struct buf text = BUF_INIT;
	const char *at;
	pid_t pid;
	int r = read_children(&text);

	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	*ret = (struct strangers){ .n = 0 };
	if (r < 0)
		return r;
	at = buf_str(&text);
	while ((pid = next_child(&at)) > 0) {
		pid_t *v = reallocarray(ret->v, ret->n + 1, sizeof(*v));

		if (!v)
			return -ENOMEM;
		ret->v = v;
		v[ret->n++] = pid;
	}
	return 0;
}

void guard_disown(struct strangers *s)
{
	(void)prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
	free(s->v);
	*s = (struct strangers){ .n = 0 };
}

static bool is_stranger(const struct strangers *s, pid_t pid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i] == pid)
			return true;
	return false;
}

/* 1: somebody lives, 0: nobody, or a negative errno. */
static int reap_rest(const struct strangers *s)
{
	auto_(buf) struct buf text = BUF_INIT;
	const char *at;
	pid_t pid;
	int r;

	if (!can_read_children()) {
		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			;
		return pid == 0;
	}
	r = read_children(&text);
	if (r < 0)
		return r;
	at = buf_str(&text);
	while ((pid = next_child(&at)) > 0)
		/* Whoever it leaves behind is seen next time. */
		if (!is_stranger(s, pid)) {
			(void)waitpid(pid, NULL, WNOHANG);
			r = 1;
		}
	return r;
}

int guard_wait_rest(const struct strangers *s, const char *name,
		    struct error *err)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	int r = 1;

	for (int64_t ms = 0; ms < REST_MS; ms += NAP_NS / 1000000) {
		r = reap_rest(s);
		/* What died just now has no children any more. */
		if (r == 1)
			r = reap_rest(s);
		if (r <= 0)
			break;
		(void)nanosleep(&nap, NULL);
	}
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot tell what '%s' left behind", name);
	return r == 0 ? 0
		      : error_say(err, ERR_TIMEOUT, ETIMEDOUT,
				  "what '%s' started did not die within %d ms",
				  name, REST_MS);
}
