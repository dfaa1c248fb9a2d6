/* The process limit, where the kernel cannot keep it: supervise/processes.h. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kernel/cgroup.h"
#include "policy/syscalls.h"
#include "sandbox/create.h"
#include "sandbox/host.h"
#include "sandbox/mediate.h"
#include "supervise/processes.h"

enum { PIDS_STEP = 64 };

/* RLIMIT_NPROC spares the host's root. */
static unsigned int traps(const struct host_context *h)
{
	return h->request->processes && h->privileged &&
			       !cgroup_can_limit("pids", false)
		       ? TRAP_FORK
		       : 0;
}

struct pids {
	pid_t *v;
	size_t n;
};

static int add_pid(struct pids *l, pid_t pid)
{
	pid_t *v = l->v;

	if (l->n % PIDS_STEP == 0)
		v = realloc(v, (l->n + PIDS_STEP) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	l->v = v;
	v[l->n++] = pid;
	return 0;
}

int mediation_list(void *data, pid_t **ret, size_t *ret_n)
{
	const struct create *c = data;
	auto_dir DIR *d = opendir("/proc");
	struct pids l = { NULL, 0 };
	struct stat ours, theirs;
	struct dirent *e;
	char path[64];
	int r = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/pid",
		       (int)c->state->init.pid);
	if (!d || stat(path, &ours) < 0)
		return -errno;
	while (r == 0 && (e = readdir(d))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (pid <= 0 || pid == c->state->init.pid)
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
		/* A zombie has no namespaces, and does not count. */
		if (stat(path, &theirs) == 0 && theirs.st_ino == ours.st_ino)
			r = add_pid(&l, pid);
	}
	if (r < 0) {
		free(l.v);
		return r;
	}
	*ret = l.v;
	*ret_n = l.n;
	return 0;
}

static void free_processes(void *p)
{
	processes_free(p);
}

static int begin(struct mediation *m, struct error *err)
{
	const struct create *c = mediation_create(m);
	struct handler rows[PROCESSES_ROWS];
	struct processes *p =
		processes_new(c->command->request->processes, mediation_list,
			      (void *)c, c->denials);
	size_t n;
	int r;

	if (!p)
		return error_set(err, ERR_SYSTEM, ENOMEM, "--max-processes");
	r = mediation_own(m, p, free_processes, err);
	n = r == 0 ? processes_rows(p, rows) : 0;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = mediation_add_row(m, &rows[i], err);
	return r;
}

const struct mediate_feature mediate_processes = {
	.flag = "--max-processes",
	.traps = traps,
	.begin = begin,
};
