#include "supervise/memory.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "supervise/denials.h"
#include "supervise/internal.h"
#include "supervise/memory_use.h"

enum {
	WATCH_NS = 50 * 1000 * 1000,	  /* near the limit */
	WATCH_IDLE_NS = 200 * 1000 * 1000 /* far from it */
};

struct memory {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_stopping, is_watched;
	/* Constant while the watcher runs. */
	_Atomic uint64_t limit; /* 0: none, and nobody watches */
	int proc_fd, tmpfs_fds[MEMORY_TMPFS_MAX];
	size_t n_tmpfs_fds;
	pid_t below; /* see memory_start */
	struct denials *denials;
	pthread_t watcher;
};

static struct outcome refuse(struct call *c, void *data)
{
	struct memory *m = data;

	return atomic_load(&m->limit) ? OUTCOME_FAIL(ENOSYS) : OUTCOME_GO;
}

size_t memory_rows(struct memory *m, struct handler ret[MEMORY_ROWS])
{
	static const struct {
		const char *name;
		int nr;
	} calls[MEMORY_ROWS] = {
		{ "memfd_create", SYS_memfd_create },
		{ "shmget", SYS_shmget },
		{ "msgget", SYS_msgget },
		{ "semget", SYS_semget },
	};

	for (size_t i = 0; i < MEMORY_ROWS; i++)
		ret[i] = (struct handler){ .name = calls[i].name,
					   .nr = calls[i].nr,
					   .lane = LANE_INLINE,
					   .fn = refuse,
					   .data = m };
	return MEMORY_ROWS;
}

/* A file that is mapped is in both. */
static uint64_t add_files(const struct memory *m, const struct memory_use *use)
{
	uint64_t n = 0;

	for (size_t i = 0; i < m->n_tmpfs_fds; i++)
		n += memory_use_of_files(m->tmpfs_fds[i]);
	return use->used + (n > use->shared ? n : use->shared);
}

/* More is in use than may be, it seems: if so the largest goes. */
static void end_largest(struct memory *m)
{
	struct memory_use use;
	struct denial_of_limit x;
	auto_close int fd = -1;

	if (memory_use_count(m->proc_fd, m->below, &use) < 0)
		return;
	fd = use.largest_fd;
	if (fd < 0 || add_files(m, &use) <= m->limit)
		return;
	if (syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) < 0)
		return;
	denial_of_memory(&x, m->limit);
	denials_add(m->denials, 0, &x.what);
}

/* How long nothing has to be looked at. */
static uint64_t look(struct memory *m)
{
	uint64_t begin = clock_now_ns(), nap, used;
	struct memory_use use;

	if (memory_use_guess(m->proc_fd, m->below, &use) < 0)
		return WATCH_NS;
	used = add_files(m, &use);
	if (used > m->limit)
		end_largest(m);
	/* Never more than a twentieth of a processor. */
	nap = (clock_now_ns() - begin) * 20;
	if (used <= m->limit / 2)
		return WATCH_IDLE_NS;
	return nap > WATCH_NS ? nap : WATCH_NS;
}

static void *watch(void *arg)
{
	struct memory *m = arg;

	(void)pthread_mutex_lock(&m->lock);
	while (!m->is_stopping) {
		uint64_t nap;

		(void)pthread_mutex_unlock(&m->lock);
		nap = look(m);
		(void)pthread_mutex_lock(&m->lock);
		if (!m->is_stopping)
			(void)cond_wait_until(&m->changed, &m->lock,
					      clock_now_ns() + nap);
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

int memory_new(uint64_t limit, struct denials *d, struct memory **ret,
	       struct error *err)
{
	struct memory *m = calloc(1, sizeof(*m));

	if (!m || pthread_mutex_init(&m->lock, NULL) ||
	    cond_init_monotonic(&m->changed) < 0) {
		free(m);
		return error_set(err, ERR_SYSTEM, ENOMEM, "--max-memory");
	}
	atomic_init(&m->limit, limit);
	m->proc_fd = -1;
	m->denials = d;
	*ret = m;
	return 0;
}

int memory_start(struct memory *m, int proc_fd, pid_t below,
		 const int *tmpfs_fds, size_t n, struct error *err)
{
	int r;

	m->proc_fd = proc_fd;
	m->below = below;
	for (; m->n_tmpfs_fds < n; m->n_tmpfs_fds++)
		m->tmpfs_fds[m->n_tmpfs_fds] = tmpfs_fds[m->n_tmpfs_fds];
	r = atomic_load(&m->limit) ? start_watcher(m) : 0;
	return r < 0 ? error_set(err, ERR_SYSTEM, -r,
				 "cannot watch the memory that is used")
		     : 0;
}

int memory_restrict(struct memory *m, uint64_t limit)
{
	uint64_t now;
	int r = 0;

	(void)pthread_mutex_lock(&m->lock);
	now = atomic_load(&m->limit);
	if (!now || limit < now)
		atomic_store(&m->limit, limit);
	if (!m->is_watched)
		r = start_watcher(m);
	(void)pthread_cond_broadcast(&m->changed);
	(void)pthread_mutex_unlock(&m->lock);
	return r;
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
