#include "supervise/memory.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "supervise/account.h"
#include "supervise/denials.h"
#include "supervise/internal.h"
#include "supervise/memory_use.h"

enum {
	SLOTS = 64,
	SLOT_NS = 20 * 1000 * 1000,
	LATELY = 64, /* threads */
	/* What was granted that lately may not have been done yet. */
	UNDER_WAY_NS = 40 * 1000 * 1000,
	NAP_NS = 1000 * 1000,
	NAPS = 60,
	FRESH_NS = 20 * 1000 * 1000,
	/*
	 * Large requests will be used, and are told apart from the stacks of
	 * threads, of which little ever is.
	 */
	STACK_BYTES = 8 << 20,
	LARGE = 16, /* more than that part of the limit */
	SMALL = 64, /* that part of the limit is not worth to be counted for */
	WATCH_NS = 50 * 1000 * 1000,	  /* near the limit */
	WATCH_IDLE_NS = 200 * 1000 * 1000 /* far from it */
};

/* The last call of a thread that was let go on. */
struct grant {
	pid_t tid;
	uint64_t n, ns;
};

struct memory {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_stopping, is_watched;
	uint64_t limit;
	int proc_fd, tmpfs_fds[MEMORY_TMPFS_MAX];
	size_t n_tmpfs_fds;
	struct denials *denials;
	const struct log_sink *log;
	pthread_t watcher;

	uint64_t taken; /* used, and granted since */
	uint64_t counted_ns;
	uint64_t shared; /* mapped shared, for good */
	/* What was granted, by time: slot now % SLOTS is of @slot. */
	uint64_t granted[SLOTS];
	uint64_t slot;
	struct grant lately[LATELY];
	unsigned int next_grant;
};

/* ------------------------------------------------------------- counting -- */

static void forget_old(struct memory *m)
{
	uint64_t now = now_ns() / SLOT_NS;

	for (uint64_t i = 0; i < SLOTS && m->slot < now; i++)
		m->granted[++m->slot % SLOTS] = 0;
	m->slot = now;
}

static uint64_t used_by_files(const struct memory *m)
{
	uint64_t n = 0;

	for (size_t i = 0; i < m->n_tmpfs_fds; i++)
		n += memory_use_of_files(m->tmpfs_fds[i]);
	return n;
}

/* What may not be there to be counted yet: calls of other threads. */
static uint64_t under_way(const struct memory *m, pid_t tid)
{
	uint64_t now = now_ns(), n = 0;

	for (size_t i = 0; i < LATELY; i++)
		if (m->lately[i].tid != tid &&
		    now - m->lately[i].ns < UNDER_WAY_NS)
			n += m->lately[i].n;
	return n;
}

/* Counts for a call of @tid, whose earlier ones are over. With the lock. */
static int count(struct memory *m, pid_t tid, bool exactly)
{
	uint64_t now, later = 0, unused;
	struct memory_use use;
	int r = memory_use_guess(m->proc_fd, &use);

	unused = use.unused;
	if (r == 0 && exactly) {
		r = memory_use_count(m->proc_fd, &use);
		if (r == 0)
			cleanup_close(&use.largest_fd);
	}
	if (r < 0)
		return r;
	forget_old(m);
	m->counted_ns = now_ns();
	for (size_t i = 0; i < SLOTS; i++)
		later += m->granted[i];
	now = under_way(m, tid);
	later = later > now ? later - now : 0;
	m->taken = use.used + used_by_files(m) + m->shared + now +
		   (later < unused ? later : unused);
	return 0;
}

static bool has_room(const struct memory *m, uint64_t n)
{
	return m->taken <= m->limit && n <= m->limit - m->taken;
}

/* With the lock held: counts only if it has to, and exactly at last. */
static bool find_room(struct memory *m, pid_t tid, uint64_t n)
{
	/* Files, and what was granted long ago, grow unseen. */
	bool is_known =
		n < m->limit / SMALL || now_ns() - m->counted_ns < FRESH_NS;

	if (is_known && has_room(m, n))
		return true;
	/* Too much whatever is in use. */
	if (n > m->limit || count(m, tid, false) < 0)
		return false;
	if (has_room(m, n))
		return true;
	return count(m, tid, true) == 0 && has_room(m, n);
}

/* There is no room, but only because others' calls may be under way. */
static bool is_unsure(struct memory *m, pid_t tid, uint64_t n)
{
	bool unsure;

	(void)pthread_mutex_lock(&m->lock);
	unsure = n <= m->limit && !find_room(m, tid, n) &&
		 m->taken - under_way(m, tid) <= m->limit - n;
	(void)pthread_mutex_unlock(&m->lock);
	return unsure;
}

static void grant(struct memory *m, pid_t tid, uint64_t n, bool shared)
{
	struct grant *g = NULL;

	m->taken += n;
	if (shared) {
		m->shared += n;
		return;
	}
	forget_old(m);
	if (n > STACK_BYTES && n > m->limit / LARGE)
		m->granted[m->slot % SLOTS] += n;
	for (size_t i = 0; !g && i < LATELY; i++)
		if (m->lately[i].tid == tid)
			g = &m->lately[i];
	if (!g)
		g = &m->lately[m->next_grant++ % LATELY];
	*g = (struct grant){ tid, n, now_ns() };
}

/* ------------------------------------------------------------- the calls -- */

static uint64_t growth_of_mmap(struct call *c, bool *ret_shared)
{
	uint64_t flags = call_arg(c, 3);
	bool shared = (flags & MAP_TYPE) != MAP_PRIVATE;

	if (!(call_arg(c, 2) & PROT_WRITE))
		return 0;
	/* A file's pages are the file's. */
	if (shared && !(flags & MAP_ANONYMOUS))
		return 0;
	*ret_shared = shared;
	return call_arg(c, 1);
}

static uint64_t growth_of_mremap(struct call *c)
{
	uint64_t old = call_arg(c, 1), new = call_arg(c, 2);

	if (call_arg(c, 3) & MREMAP_DONTUNMAP)
		return new;
	return new > old ? new - old : 0;
}

static uint64_t growth_of_brk(struct call *c)
{
	uint64_t end = call_arg(c, 0), now;

	if (end == 0)
		return 0;
	now = memory_heap_end(call_tid(c));
	return end > now ? end - now : 0;
}

/* How much more the call lets its caller write. */
static uint64_t growth_of(struct call *c, bool *ret_shared)
{
	*ret_shared = false;
	switch (call_nr(c)) {
	case SYS_mmap:
		return growth_of_mmap(c, ret_shared);
	case SYS_mremap:
		return growth_of_mremap(c);
	case SYS_brk:
		return growth_of_brk(c);
	case SYS_shmget:
		*ret_shared = true;
		return call_arg(c, 1);
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		return call_arg(c, 2) & PROT_WRITE ? call_arg(c, 1) : 0;
	}
	return 0;
}

/* clang-format off */
static const struct grower { const char *name; int nr; } growers[] = {
	{ "mmap",          SYS_mmap          },
	{ "mremap",        SYS_mremap        },
	{ "mprotect",      SYS_mprotect      },
	{ "pkey_mprotect", SYS_pkey_mprotect },
	{ "shmget",        SYS_shmget        },
	{ "brk",           SYS_brk           },
};
/* clang-format on */

static void record(struct memory *m, struct call *c)
{
	struct denial d = { .code = "limits.memory",
			    .error = ENOMEM,
			    .rule = "limits.memory",
			    .remedy = "--max-memory" };

	for (size_t i = 0; i < ARRAY_LEN(growers); i++)
		if (growers[i].nr == call_nr(c))
			d.call = growers[i].name;
	denials_add_call(m->denials, c, &d);
}

/* 0, or ENOMEM. */
static int settle_growth(struct call *c, void *data)
{
	struct memory *m = data;
	bool shared, fits;
	uint64_t n = growth_of(c, &shared);

	if (n == 0)
		return 0;
	(void)pthread_mutex_lock(&m->lock);
	fits = find_room(m, call_tid(c), n);
	if (fits)
		grant(m, call_tid(c), n, shared);
	(void)pthread_mutex_unlock(&m->lock);
	if (fits)
		return 0;
	record(m, c);
	return ENOMEM;
}

/* The next count sees that it is not there; but for what is shared. */
static void undo_growth(struct call *c, void *data)
{
	struct memory *m = data;
	bool shared;
	uint64_t n = growth_of(c, &shared);

	(void)pthread_mutex_lock(&m->lock);
	if (shared && m->shared >= n)
		m->shared -= n;
	(void)pthread_mutex_unlock(&m->lock);
}

static const struct account growth_account = { settle_growth, NULL,
					       undo_growth };

/* Gives others the time to end what they are at. */
static struct outcome before_growth(struct call *c, void *data)
{
	bool shared;
	uint64_t n = growth_of(c, &shared);

	for (int i = 0; n && i < NAPS && is_unsure(data, call_tid(c), n); i++) {
		if (!call_is_valid(c))
			break;
		sleep_until_ns(now_ns() + NAP_NS);
	}
	return OUTCOME_GO;
}

/* Which fails without an errno: the heap ends where it did. */
static struct outcome grow_heap(struct call *c, void *data)
{
	(void)before_growth(c, data);
	if (settle_growth(c, data) == 0)
		return OUTCOME_GO;
	return OUTCOME_VALUE((int64_t)memory_heap_end(call_tid(c)));
}

static struct outcome refuse_memfd(struct call *c, void *data)
{
	return OUTCOME_FAIL(ENOSYS);
}

size_t memory_rows(struct memory *m, struct handler ret[MEMORY_ROWS])
{
	size_t n = 0;

	for (; n < ARRAY_LEN(growers); n++) {
		const struct grower *g = &growers[n];
		bool is_brk = g->nr == SYS_brk;

		ret[n] = (struct handler){
			g->name,    g->nr,
			LANE_LOCAL, is_brk ? grow_heap : before_growth,
			m,	    is_brk ? NULL : &growth_account,
		};
	}
	ret[n++] = (struct handler){ "memfd_create", SYS_memfd_create,
				     LANE_INLINE,    refuse_memfd,
				     NULL,	     NULL };
	return n;
}

/* ----------------------------------------------------------- the watcher -- */

/* More is in use than may be: the largest goes. Without the lock. */
static void end_largest(struct memory *m)
{
	struct memory_use use;
	auto_close int fd = -1;

	if (memory_use_count(m->proc_fd, &use) < 0)
		return;
	fd = use.largest_fd;
	if (fd < 0 || use.used + used_by_files(m) <= m->limit)
		return;
	if (syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0)
		log_warn(m->log,
			 "out of memory (--max-memory): process %d inside was "
			 "killed",
			 (int)use.largest);
}

static void *watch(void *arg)
{
	struct memory *m = arg;

	(void)pthread_mutex_lock(&m->lock);
	while (!m->is_stopping) {
		bool known = count(m, 0, false) == 0;
		bool is_over = known && m->taken > m->limit;
		bool is_near = known && m->taken > m->limit / 2;

		if (is_over) {
			(void)pthread_mutex_unlock(&m->lock);
			end_largest(m);
			(void)pthread_mutex_lock(&m->lock);
		}
		if (!m->is_stopping)
			(void)cond_wait_until(
				&m->changed, &m->lock,
				now_ns() + (uint64_t)(is_near ? WATCH_NS
							      : WATCH_IDLE_NS));
	}
	(void)pthread_mutex_unlock(&m->lock);
	return NULL;
}

/* Every signal is for the thread that made us. */
static int start_watcher(struct memory *m)
{
	sigset_t all, old;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&m->watcher, NULL, watch, m);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	m->is_watched = r == 0;
	return -r;
}

int memory_new(uint64_t limit, struct denials *d, const struct log_sink *log,
	       struct memory **ret, struct error *err)
{
	struct memory *m = calloc(1, sizeof(*m));

	if (!m || pthread_mutex_init(&m->lock, NULL) ||
	    cond_init_monotonic(&m->changed) < 0) {
		free(m);
		return error_set(err, ERR_SYSTEM, ENOMEM, "--max-memory");
	}
	m->limit = limit;
	m->taken = limit; /* unknown: the first call counts */
	m->proc_fd = -1;
	m->denials = d;
	m->log = log;
	*ret = m;
	return 0;
}

int memory_start(struct memory *m, int proc_fd, const int *tmpfs_fds, size_t n,
		 struct error *err)
{
	int r;

	m->proc_fd = proc_fd;
	for (; m->n_tmpfs_fds < n; m->n_tmpfs_fds++)
		m->tmpfs_fds[m->n_tmpfs_fds] = tmpfs_fds[m->n_tmpfs_fds];
	r = start_watcher(m);
	return r < 0 ? error_set(err, ERR_SYSTEM, -r,
				 "cannot watch the memory that is used")
		     : 0;
}

void memory_free(struct memory *m)
{
	if (!m)
		return;
	(void)pthread_mutex_lock(&m->lock);
	m->is_stopping = true;
	(void)pthread_cond_broadcast(&m->changed);
	(void)pthread_mutex_unlock(&m->lock);
	if (m->is_watched)
		(void)pthread_join(m->watcher, NULL);
	cleanup_close(&m->proc_fd);
	for (size_t i = 0; i < m->n_tmpfs_fds; i++)
		cleanup_close(&m->tmpfs_fds[i]);
	(void)pthread_cond_destroy(&m->changed);
	(void)pthread_mutex_destroy(&m->lock);
	free(m);
}
