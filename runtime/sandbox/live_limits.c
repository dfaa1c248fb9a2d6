#include "sandbox/live_limits.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "kernel/cgroup.h"
#include "kernel/pidfd.h"
#include "sandbox/create.h"
#include "sandbox/host.h"
#include "sandbox/mediate.h"
#include "supervise/memory.h"
#include "supervise/processes.h"

/* Who forks faster than we look is a fork bomb. */
enum { ROUNDS_MAX = 1000 };

struct live_limits {
	const struct create *create;
	pthread_mutex_t lock; /* of what follows, and of what sets it */
	uint64_t memory;      /* 0: none */
	uint32_t processes;
};

bool live_limits_wanted(const struct host_context *h)
{
	return request_asks_callback(h->request);
}

struct live_limits *live_limits_new(const struct create *c)
{
	struct live_limits *l = calloc(1, sizeof(*l));

	if (l && pthread_mutex_init(&l->lock, NULL)) {
		free(l);
		return NULL;
	}
	if (l)
		l->create = c;
	return l;
}

void live_limits_free(struct live_limits *l)
{
	if (!l)
		return;
	(void)pthread_mutex_destroy(&l->lock);
	free(l);
}

/* 1 lowered, 0 it was no higher or has gone. */
static int lower(pid_t pid, enum __rlimit_resource what, rlim_t most)
{
	struct rlimit now;

	if (prlimit(pid, what, NULL, &now) < 0)
		return errno == ESRCH ? 0 : -errno;
	if (now.rlim_max <= most)
		return 0;
	now.rlim_max = most;
	now.rlim_cur = now.rlim_cur < most ? now.rlim_cur : most;
	if (prlimit(pid, what, &now, NULL) < 0)
		return errno == ESRCH ? 0 : -errno;
	return 1;
}

/* Until all that are there had it already: then no parent gives more on. */
static int lower_all(const struct live_limits *l, enum __rlimit_resource what,
		     rlim_t most)
{
	for (int round = 0; round < ROUNDS_MAX; round++) {
		auto_free pid_t *pids = NULL;
		size_t n = 0;
		int r = mediation_list((void *)(uintptr_t)l->create, &pids, &n);
		int lowered = 0;

		for (size_t i = 0; r >= 0 && i < n; i++) {
			r = lower(pids[i], what, most);
			lowered += r > 0;
		}
		if (r < 0)
			return r;
		if (!lowered)
			return 0;
	}
	return -EAGAIN;
}

static int set_cgroup(const struct live_limits *l,
		      const struct spec_resources *what, struct error *err)
{
	const struct create *c = l->create;
	int r;

	if (!c->state->cgroup)
		return error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
				 "the sandbox has no cgroup to limit");
	r = cgroup_update(c->state->cgroup, what, err);
	/* So that whoever removes the sandbox knows of it. */
	return r == 0 && c->slot ? state_write(c->slot, c->state, err) : r;
}

static void give_up(const struct live_limits *l, const char *what, int r,
		    const struct error *err)
{
	log_write(l->create->env->log, LOG_LEVEL_ERROR,
		  "cannot limit %s, so the sandbox ends: %s", what,
		  *err->msg ? err->msg : strerror(-r));
	(void)pidfd_signal(l->create->pidfd, SIGKILL);
}

static int set_memory(const struct live_limits *l, uint64_t bytes,
		      struct error *err)
{
	struct memory *m = mediation_memory(l->create->mediation);
	const struct spec_resources what = { .has_mem_limit = true,
					     .mem_limit = (int64_t)bytes };
	int r;

	if (!m)
		return set_cgroup(l, &what, err);
	r = memory_restrict(m, bytes);
	return r < 0 ? r : lower_all(l, RLIMIT_DATA, bytes);
}

/* A pid 1 of ours counts, but is not the command's. */
static uint32_t ours(const struct live_limits *l)
{
	return l->create->plan->host ? 1 : 0;
}

/*
 * In a user namespace its tasks alone count, each user's by themselves; root
 * of the host is spared. A bundle may have him, and several users.
 */
static bool has_own_count(const struct live_limits *l)
{
	const struct plan *p = l->create->plan;

	return p->host && p->spec->ns[SPEC_NS_USER].want != SPEC_NS_INHERIT;
}

static int set_processes(const struct live_limits *l, uint32_t n,
			 struct error *err)
{
	struct processes *p = mediation_processes(l->create->mediation);
	const struct spec_resources what = { .has_pids_limit = true,
					     .pids_limit =
						     (int64_t)n + ours(l) };

	if (p)
		return processes_restrict(p, n);
	if (!has_own_count(l))
		return set_cgroup(l, &what, err);
	return lower_all(l, RLIMIT_NPROC, (rlim_t)n + ours(l));
}

/* What was asked for before it began, of a command or in config.json; 0:
 * nothing. */
static uint64_t fixed_limit(const struct live_limits *l, uint64_t asked,
			    bool has, int64_t said)
{
	if (l->create->plan->host)
		return asked;
	return has && said > 0 ? (uint64_t)said : 0;
}

static uint64_t fixed_memory(const struct live_limits *l)
{
	const struct spec_resources *s = &l->create->plan->spec->resources;

	return fixed_limit(l, l->create->command->request->memory_bytes,
			   s->has_mem_limit, s->mem_limit);
}

static uint64_t fixed_processes(const struct live_limits *l)
{
	const struct spec_resources *s = &l->create->plan->spec->resources;

	return fixed_limit(l, l->create->command->request->processes,
			   s->has_pids_limit, s->pids_limit);
}

void live_limits_memory(struct live_limits *l, uint64_t bytes)
{
	uint64_t fixed = fixed_memory(l);
	struct error err = ERROR_INIT;
	int r = 0;

	(void)pthread_mutex_lock(&l->lock);
	if ((!fixed || bytes < fixed) && (!l->memory || bytes < l->memory)) {
		r = set_memory(l, bytes, &err);
		l->memory = bytes;
	}
	(void)pthread_mutex_unlock(&l->lock);
	if (r < 0)
		give_up(l, "memory", r, &err);
}

void live_limits_processes(struct live_limits *l, uint32_t n)
{
	uint64_t fixed = fixed_processes(l);
	struct error err = ERROR_INIT;
	int r = 0;

	(void)pthread_mutex_lock(&l->lock);
	if ((!fixed || n < fixed) && (!l->processes || n < l->processes)) {
		r = set_processes(l, n, &err);
		l->processes = n;
	}
	(void)pthread_mutex_unlock(&l->lock);
	if (r < 0)
		give_up(l, "processes", r, &err);
}

void live_limits_meet(struct live_limits *l, pid_t pid)
{
	(void)pthread_mutex_lock(&l->lock);
	if (l->memory && mediation_memory(l->create->mediation))
		(void)lower(pid, RLIMIT_DATA, l->memory);
	if (l->processes && has_own_count(l))
		(void)lower(pid, RLIMIT_NPROC, (rlim_t)l->processes + ours(l));
	(void)pthread_mutex_unlock(&l->lock);
}

void live_limits_json(struct live_limits *l, struct json_out *o)
{
	(void)pthread_mutex_lock(&l->lock);
	if (l->memory)
		json_out_uint_member(o, "max_memory", l->memory);
	if (l->processes)
		json_out_uint_member(o, "max_processes", l->processes);
	(void)pthread_mutex_unlock(&l->lock);
}
