/* The memory limit, where no controller keeps it: supervise/memory.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "kernel/cgroup.h"
#include "policy/syscalls.h"
#include "sandbox/create.h"
#include "sandbox/host.h"
#include "sandbox/live_limits.h"
#include "sandbox/mediate.h"
#include "supervise/memory.h"

static unsigned int traps(const struct host_context *h)
{
	return (h->request->memory_bytes || live_limits_wanted(h)) &&
			       !cgroup_can_limit("memory", !h->privileged)
		       ? TRAP_MEMORY
		       : 0;
}

/* What the sandbox sees at @path, which it cannot change. */
static int open_inside(pid_t pid, const char *path, struct error *err)
{
	char root[32];
	auto_close int root_fd = -1;
	int fd;

	(void)snprintf(root, sizeof(root), "/proc/%d/root", (int)pid);
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = root_fd < 0 ? -errno
			 : fd_open_in_root(root_fd, path,
					   O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return error_set(err, ERR_SYSTEM, -fd,
				 "cannot open '%s' of the sandbox", path);
	return fd;
}

static int open_tmpfs(const struct spec *s, pid_t pid,
		      int fds[MEMORY_TMPFS_MAX], size_t *n, struct error *err)
{
	for (size_t i = 0; i < s->n_mounts && *n < MEMORY_TMPFS_MAX; i++) {
		int fd;

		if (!s->mounts[i].type ||
		    strcmp(s->mounts[i].type, "tmpfs") != 0)
			continue;
		fd = open_inside(pid, s->mounts[i].destination, err);
		if (fd < 0)
			return fd;
		fds[(*n)++] = fd;
	}
	return 0;
}

static void free_memory(void *p)
{
	memory_free(p);
}

static int add_rows(struct mediation *m, struct memory *memory,
		    struct error *err)
{
	struct handler rows[MEMORY_ROWS];
	size_t n = memory_rows(memory, rows);
	int r = mediation_own(m, memory, free_memory, err);

	return r == 0 ? mediation_add_rows(m, rows, n, err) : r;
}

static int begin(struct mediation *m, struct error *err)
{
	const struct create *c = mediation_create(m);
	struct memory *memory;
	int r = memory_new(c->command->request->memory_bytes, c->denials,
			   &memory, err);

	if (r < 0)
		return r;
	mediation_set_state(m, memory);
	mediation_set_memory(m, memory);
	return add_rows(m, memory, err);
}

static int started(struct mediation *m, void *state, pid_t pid,
		   struct error *err)
{
	const struct create *c = mediation_create(m);
	const struct spec *s = c->plan->spec;
	int tmpfs[MEMORY_TMPFS_MAX];
	auto_close int proc_fd = open_inside(pid, "/proc", err);
	size_t n = 0;
	int r = proc_fd < 0 ? proc_fd : open_tmpfs(s, pid, tmpfs, &n, err);

	if (r == 0)
		return memory_start(state, take_fd(&proc_fd),
				    c->plan->notify ? c->state->init.pid : 0,
				    tmpfs, n, err);
	while (n)
		cleanup_close(&tmpfs[--n]);
	return r;
}

const struct mediate_feature mediate_memory = {
	.flag = "--max-memory",
	.traps = traps,
	.begin = begin,
	.started = started,
};
