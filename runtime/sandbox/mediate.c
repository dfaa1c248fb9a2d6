#include "sandbox/mediate.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "kernel/pidfd.h"
#include "kernel/pidns.h"
#include "kernel/tree.h"
#include "policy/syscalls.h"
#include "sandbox/check.h"
#include "sandbox/create.h"
#include "sandbox/host.h"
#include "sandbox/live_limits.h"
#include "supervise/approvals.h"
#include "supervise/denials.h"
#include "supervise/supervisor.h"

/* In the order of chains. */
static const struct mediate_feature *const features[] = {
	&mediate_refusals,
	&mediate_explain,
	&mediate_processes,
	&mediate_memory,
	&mediate_rename,
	&mediate_hosts,
	&mediate_ask,
	/* Handlers answer before what acts on behalf, and before what is to be
	 * on record only if the kernel refuses it. */
	&mediate_handlers,
	&mediate_cow,
	&mediate_network,
	&mediate_metadata,
	&mediate_unreached,
};

enum {
	EXTERNAL_WORKERS = 1024,
	/* A socket and the most descriptors of a message for each. More would
	 * stall programs that are run from here and close all they could have.
	 */
	FILES_ENOUGH = EXTERNAL_WORKERS * 256,
};

struct owned {
	void *p;
	void (*free_fn)(void *);
};

struct mediation {
	struct create *create;
	struct net *net; /* owned as others are, and so are these */
	struct memory *memory;
	struct processes *processes;
	const struct asker *asker;
	const struct object_finder *finder;
	struct handler *rows;
	size_t n_rows;
	struct owned *owned;
	size_t n_owned;
	void *states[ARRAY_LEN(features)];
	size_t feature;	      /* that is begun */
	pthread_mutex_t lock; /* of what follows */
	bool is_met, is_awake;
	int idle_fd;	     /* the first listener; -1 */
	struct pidns *pidns; /* constant once there is a listener */
	struct supervisor *supervisor;
};

static int refuse_without_listener(const struct mediate_feature *f, int why,
				   struct error *err)
{
	(void)error_set(err, ERR_UNSUPPORTED, why,
			"%s needs a supervisor here, which cannot be told of "
			"system calls",
			f->flag);
	return error_hint(err, why == EBUSY
				       ? "we are inside another supervised "
					 "sandbox: leave it"
				       : "it takes Linux 5.19 or newer");
}

static int refuse_no_supervisor(const struct mediate_feature *f,
				struct error *err)
{
	(void)error_say(err, ERR_USAGE, EINVAL,
			"%s needs a supervisor here, and --no-supervisor "
			"forbids one",
			f->flag);
	return error_hint(err, "leave one of the two out");
}

int mediate_check(const struct host_context *h, struct error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(features); i++)
		if (h->request->no_supervisor && features[i]->is_asked_for &&
		    features[i]->traps(h))
			return refuse_no_supervisor(features[i], err);
	return 0;
}

int mediate_decide(const struct host_context *h, uint32_t *ret_features,
		   unsigned int *ret_traps, struct error *err)
{
	uint32_t mask = 0;
	unsigned int traps = 0;
	int why = 0;

	if (!h->request->no_supervisor)
		why = probe_listener();
	for (size_t i = 0; i < ARRAY_LEN(features); i++) {
		const struct mediate_feature *f = features[i];
		unsigned int wanted = f->traps(h);

		if (!wanted)
			continue;
		if (!h->request->no_supervisor && !why) {
			mask |= UINT32_C(1) << i;
			traps |= wanted;
		} else if (!f->optional && why) {
			return refuse_without_listener(f, why, err);
		} else if (!f->optional) {
			return refuse_no_supervisor(f, err);
		}
	}
	*ret_features = mask;
	*ret_traps = traps;
	return 0;
}

static bool has_agent(const struct spec_seccomp *s)
{
	for (size_t i = 0; s && i < s->n_rules; i++)
		if (s->rules[i].action == SECCOMP_RET_USER_NOTIF)
			return true;
	return false;
}

static void want_bundle(struct plan *p, const struct request *q)
{
	for (size_t i = 0; i < ARRAY_LEN(features); i++) {
		unsigned int wanted = features[i]->bundle_traps
					      ? features[i]->bundle_traps(p, q)
					      : 0;

		if (!wanted)
			continue;
		p->mediated |= UINT32_C(1) << i;
		p->traps |= wanted;
		p->judged |= !features[i]->optional;
	}
}

void mediate_want_bundle(struct plan *p)
{
	want_bundle(p, NULL);
}

static const char *why_untrapped(const struct plan *p)
{
	/* The kernel takes one listener. */
	if (has_agent(p->spec->seccomp))
		return "linux.seccomp has a listener of its own";
	switch (probe_listener()) {
	case 0:
		return NULL;
	case EBUSY:
		return "it is inside another supervised sandbox";
	default:
		return "it takes Linux 5.19 or newer";
	}
}

/*
 * What is asked about is told of as it is inside, by a process that sees all
 * of it, and holds for all that it makes.
 */
static const char *why_not_judged(const struct spec *s)
{
	if (!s->has_process)
		return "process is missing";
	if (!s->process.no_new_privileges)
		return "process.noNewPrivileges is not true";
	if (s->ns[SPEC_NS_MOUNT].want != SPEC_NS_NEW)
		return "it has no mount namespace of its own";
	if (s->ns[SPEC_NS_PID].want != SPEC_NS_NEW)
		return "it has no pid namespace of its own";
	return NULL;
}

static int check_judged(const struct plan *p, struct error *err)
{
	const char *config = why_not_judged(p->spec);
	const char *why = p->untrapped ? p->untrapped : config;

	if (!why)
		return 0;
	(void)error_say(err, ERR_UNSUPPORTED, EOPNOTSUPP,
			"nobody can decide about the system calls of this "
			"bundle: %s",
			why);
	return why == config ? error_hint(err, "say so in config.json")
			     : error_code(err);
}

int mediate_decide_bundle(struct plan *p, const struct request *q,
			  struct error *err)
{
	int r;

	want_bundle(p, q);
	if (!p->traps)
		return 0;
	r = p->traps & TRAP_NETWORK ? mediate_network_of_bundle(p, q, err) : 0;
	if (r < 0)
		return r;
	if (!p->untrapped)
		p->untrapped = why_untrapped(p);
	if (p->judged)
		return check_judged(p, err);
	if (p->untrapped) {
		p->mediated = 0;
		p->traps = 0;
	}
	return 0;
}

unsigned int mediate_shared(const struct plan *p)
{
	unsigned int shared = p->notify ? SYSCALL_SHARED_ALL : 0;

	if (p->spec->ns[SPEC_NS_NETWORK].want == SPEC_NS_INHERIT)
		shared |= SYSCALL_SHARED_NETWORK;
	if (p->judged && p->traps & TRAP_NETWORK)
		shared |= SYSCALL_JUDGED_NETWORK;
	return shared;
}

const struct create *mediation_create(const struct mediation *m)
{
	return m->create;
}

int mediation_add_row(struct mediation *m, const struct handler *h,
		      struct error *err)
{
	struct handler *v = realloc(m->rows, (m->n_rows + 1) * sizeof(*v));

	if (!v)
		return error_set(err, ERR_SYSTEM, ENOMEM, "handlers");
	m->rows = v;
	v[m->n_rows++] = *h;
	return 0;
}

int mediation_add_rows(struct mediation *m, const struct handler *rows,
		       size_t n, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = mediation_add_row(m, &rows[i], err);
	return r;
}

int mediation_own(struct mediation *m, void *p, void (*free_fn)(void *),
		  struct error *err)
{
	struct owned *v =
		p ? realloc(m->owned, (m->n_owned + 1) * sizeof(*v)) : NULL;

	if (!v) {
		if (p)
			free_fn(p);
		return error_set(err, ERR_SYSTEM, ENOMEM, "handlers");
	}
	m->owned = v;
	v[m->n_owned++] = (struct owned){ p, free_fn };
	return 0;
}

void mediation_set_state(struct mediation *m, void *state)
{
	m->states[m->feature] = state;
}

void mediation_set_net(struct mediation *m, struct net *net)
{
	m->net = net;
}

void mediation_set_memory(struct mediation *m, struct memory *memory)
{
	m->memory = memory;
}

struct memory *mediation_memory(const struct mediation *m)
{
	return m->memory;
}

void mediation_set_processes(struct mediation *m, struct processes *p)
{
	m->processes = p;
}

struct processes *mediation_processes(const struct mediation *m)
{
	return m->processes;
}

void mediation_set_asker(struct mediation *m, const struct asker *a)
{
	m->asker = a;
}

void mediation_set_finder(struct mediation *m, const struct object_finder *f)
{
	m->finder = f;
}

const struct object_finder *mediation_finder(const struct mediation *m)
{
	return m->finder;
}

const struct asker *mediation_asker(const struct mediation *m)
{
	return m->asker;
}

struct net *mediation_net(const struct mediation *m)
{
	return m->net;
}

/* No program expects EINTR of these. */
static const unsigned int never_interrupted = TRAP_FORK | TRAP_EXEC |
					      TRAP_OPEN | TRAP_RENAME |
					      TRAP_HANDLED | TRAP_COW;

/* Every call that waits has a descriptor here: as many as we may have. Init
 * exists by now, so that the sandbox keeps its own limit. */
static void raise_files(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur >= FILES_ENOUGH)
		return;
	l.rlim_cur = l.rlim_max < FILES_ENOUGH ? l.rlim_max : FILES_ENOUGH;
	(void)setrlimit(RLIMIT_NOFILE, &l);
}

static int begin_features(struct mediation *m, struct error *err)
{
	uint32_t mask = m->create->plan->mediated;
	/* NULL of a bundle. */
	const struct request *q =
		m->create->command ? m->create->command->request : NULL;
	struct supervisor_options o = { .log = m->create->env->log };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(features); i++) {
		m->feature = i;
		if (mask & UINT32_C(1) << i)
			r = features[i]->begin(m, err);
	}
	if (r < 0)
		return r;
	o.handlers = m->rows;
	/* Peers, or an embedder, that do not answer take a worker each, and
	 * nobody else's. */
	if (m->net || (q && q->handled.n)) {
		o.external_workers = EXTERNAL_WORKERS;
		raise_files();
	}
	o.n_handlers = m->n_rows;
	o.park_timeout_ms = q ? (uint32_t)q->handled_timeout_ms : 0;
	o.is_prompt = m->create->plan->traps & never_interrupted;
	return supervisor_new(&o, &m->supervisor, err);
}

int mediation_begin(struct create *c, struct error *err)
{
	struct mediation *m;
	int r;

	if (!c->plan->mediated)
		return 0;
	m = calloc(1, sizeof(*m));
	if (!m || pthread_mutex_init(&m->lock, NULL)) {
		free(m);
		return error_set(err, ERR_SYSTEM, ENOMEM, "supervisor");
	}
	m->create = c;
	m->idle_fd = -1;
	c->denials = denials_new();
	if (!c->denials) {
		mediation_end(m);
		return error_set(err, ERR_SYSTEM, ENOMEM, "supervisor");
	}
	r = begin_features(m, err);
	if (r < 0) {
		mediation_end(m);
		return r;
	}
	c->mediation = m;
	return 0;
}

static bool is_inside(const struct create *c, pid_t pid)
{
	pid_t init = c->state->init.pid;
	char path[40];
	struct stat theirs, ours;

	if (c->plan->notify)
		return tree_has(init, pid);
	if (c->mediation && c->mediation->pidns)
		return pidns_has(c->mediation->pidns, pid);
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	if (stat(path, &theirs) < 0)
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)init);
	return stat(path, &ours) == 0 && ours.st_dev == theirs.st_dev &&
	       ours.st_ino == theirs.st_ino;
}

void mediation_signal(const struct mediation *m, int sig)
{
	pid_t *pids = NULL;
	size_t n = 0;

	/* With init its pid namespace dies. */
	if (sig == SIGKILL) {
		(void)pidfd_signal(m->create->pidfd, sig);
		return;
	}
	if (mediation_list(m->create, &pids, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		auto_close int pidfd = pidfd_open_pid(pids[i]);

		/* It may be another's number by now. */
		if (pidfd >= 0 && is_inside(m->create, pids[i]))
			(void)pidfd_signal(pidfd, sig);
	}
	free(pids);
}

int mediation_list(void *data, pid_t **ret, size_t *ret_n)
{
	const struct create *c = data;
	const struct pidns *p = c->mediation->pidns;

	if (c->plan->notify)
		return tree_list(c->state->init.pid, ret, ret_n);
	return p ? pidns_list(p, ret, ret_n) : -ESRCH;
}

/* The pid 1 of a bundle is its own program. */
static int open_pidns(struct mediation *m, pid_t pid, struct error *err)
{
	const struct create *c = m->create;
	int r = m->pidns || c->plan->notify
			? 0
			: pidns_open(pid,
				     c->plan->host ? c->state->init.pid : 0,
				     &m->pidns);

	return r < 0 ? error_set(err, ERR_SYSTEM, -r,
				 "cannot look at process %d", (int)pid)
		     : 0;
}

void mediation_meet_init(struct mediation *m)
{
	(void)open_pidns(m, m->create->state->init.pid, NULL);
}

static int tell_features(struct mediation *m, pid_t pid, struct error *err)
{
	uint32_t mask = m->create->plan->mediated;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(features); i++)
		if ((mask & UINT32_C(1) << i) && features[i]->started)
			r = features[i]->started(m, m->states[i], pid, err);
	return r;
}

/* @fd is the listener of @pid; the first shows which sandbox this is. */
static int add_listener(struct mediation *m, pid_t pid, int fd,
			struct error *err)
{
	int r = supervisor_add_listener(m->supervisor, fd, err);

	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&m->lock);
	if (!m->is_met) {
		r = open_pidns(m, pid, err);
		if (r == 0)
			r = tell_features(m, pid, err);
		m->is_met = r == 0;
		m->idle_fd = m->is_awake ? -1 : fd;
	}
	(void)pthread_mutex_unlock(&m->lock);
	return r;
}

int mediation_idle_fd(struct mediation *m)
{
	int fd;

	(void)pthread_mutex_lock(&m->lock);
	fd = m->idle_fd;
	(void)pthread_mutex_unlock(&m->lock);
	return fd;
}

int mediation_wake(struct mediation *m, struct error *err)
{
	int r = 0;

	(void)pthread_mutex_lock(&m->lock);
	if (!m->is_awake)
		r = supervisor_start(m->supervisor, err);
	m->is_awake = m->is_awake || r == 0;
	/* The supervisor may close it from here on. */
	m->idle_fd = -1;
	(void)pthread_mutex_unlock(&m->lock);
	return r;
}

int mediation_take(struct mediation *m, pid_t pid, int remote_fd,
		   struct error *err)
{
	auto_close int pidfd = pidfd_open_pid(pid);
	int fd;

	if (pidfd < 0)
		return error_set(err, ERR_SYSTEM, -pidfd,
				 "cannot open process %d", (int)pid);
	/* The pidfd holds the process: it is still the one that is named, or
	 * pidfd_getfd fails. */
	if (!is_inside(m->create, pid))
		return error_say(err, ERR_STATE, EPERM,
				 "process %d is not in '%s'", (int)pid,
				 m->create->state->name);
	fd = (int)syscall(SYS_pidfd_getfd, pidfd, remote_fd, 0);
	if (fd < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot take the seccomp listener");
	if (m->create->limits)
		live_limits_meet(m->create->limits, pid);
	return add_listener(m, pid, fd, err);
}

int mediation_take_passed(struct mediation *m, pid_t pid, int fd,
			  struct error *err)
{
	if (m->create->limits && is_inside(m->create, pid))
		live_limits_meet(m->create->limits, pid);
	return add_listener(m, pid, fd, err);
}

static bool is_first_of_chain(const struct mediation *m, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (m->rows[j].nr == m->rows[i].nr)
			return false;
	return true;
}

void mediation_calls(const struct mediation *m, struct json_out *o)
{
	json_out_object(o);
	for (size_t i = 0; i < m->n_rows; i++) {
		uint64_t n = supervisor_received(m->supervisor, m->rows[i].nr);

		if (n && is_first_of_chain(m, i))
			json_out_uint_member(o, m->rows[i].name, n);
	}
	json_out_object_end(o);
}

static void stop_features(struct mediation *m)
{
	for (size_t i = 0; i < ARRAY_LEN(features); i++)
		if (m->states[i] && features[i]->stop)
			features[i]->stop(m->states[i]);
}

void mediation_end(struct mediation *m)
{
	if (!m)
		return;
	stop_features(m);
	/* Who waits for an answer is denied. */
	if (m->create->approvals)
		approvals_close(m->create->approvals);
	supervisor_free(m->supervisor);
	while (m->n_owned) {
		struct owned *o = &m->owned[--m->n_owned];

		o->free_fn(o->p);
	}
	(void)pthread_mutex_destroy(&m->lock);
	pidns_free(m->pidns);
	/* Not before: its threads have come by it. */
	if (m->create->mediation == m)
		m->create->mediation = NULL;
	free(m->owned);
	free(m->rows);
	free(m);
}
