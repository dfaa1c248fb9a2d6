/*
 * FIFOs of a branch. They are opened here, and an open that waits for the
 * other end must not take a thread meanwhile: nobody could come to the other
 * end once all threads wait.
 *
 * So both ends are opened without waiting, which makes them count as they do
 * in the kernel's own open, and the call is held until somebody opens the
 * other one. All who do that come by here.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/cow_internal.h"

struct fifo_wait;

/* The lock is taken by whoever wakes a call, and by the end of that call,
 * which may be one and the same thread. */
struct cow_fifos {
	pthread_mutex_t lock; /* recursive */
	struct fifo_wait *first;
	int probe[2]; /* a pipe to look with */
};

/* An open that waits: kept with its call, and in the list. */
struct fifo_wait {
	struct cow_fifos *all;
	struct fifo_wait *next;
	struct call *call;
	dev_t dev;
	ino_t ino;
	int path_fd, fd; /* -1: a writer that does not count before it is met */
	int flags;
	bool is_met;
};

struct cow_fifos *cow_fifos_new(void)
{
	struct cow_fifos *f = calloc(1, sizeof(*f));
	pthread_mutexattr_t attr;
	int r;

	if (!f || pthread_mutexattr_init(&attr)) {
		free(f);
		return NULL;
	}
	(void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	r = pthread_mutex_init(&f->lock, &attr);
	(void)pthread_mutexattr_destroy(&attr);
	if (r || pipe2(f->probe, O_CLOEXEC | O_NONBLOCK) < 0) {
		if (!r)
			(void)pthread_mutex_destroy(&f->lock);
		free(f);
		return NULL;
	}
	return f;
}

void cow_fifos_free(struct cow_fifos *f)
{
	if (!f)
		return;
	(void)close(f->probe[0]);
	(void)close(f->probe[1]);
	(void)pthread_mutex_destroy(&f->lock);
	free(f);
}

static void wait_free(void *p)
{
	struct fifo_wait *x = p, **at;

	(void)pthread_mutex_lock(&x->all->lock);
	for (at = &x->all->first; *at && *at != x; at = &(*at)->next)
		;
	if (*at)
		*at = x->next;
	cleanup_close(&x->fd);
	cleanup_close(&x->path_fd);
	(void)pthread_mutex_unlock(&x->all->lock);
	free(x);
}

static bool reads(int flags)
{
	return (flags & O_ACCMODE) == O_RDONLY;
}

/* Somebody has opened an end, or both: who waits for it may go on. */
static void meet(struct cow_fifos *f, const struct stat *st, int flags)
{
	bool both = (flags & O_ACCMODE) == O_RDWR;
	struct fifo_wait *next;

	for (struct fifo_wait *x = f->first; x; x = next) {
		next = x->next;
		if (x->is_met || x->dev != st->st_dev || x->ino != st->st_ino ||
		    (!both && reads(x->flags) == reads(flags)))
			continue;
		x->is_met = true;
		call_resume(x->call);
	}
}

/*
 * A writer without a reader: while somebody has both ends it can be opened.
 * Who may not read is no writer before there is a reader: -ENXIO.
 */
static int open_lone_writer(int path_fd, int flags)
{
	auto_close int both =
		fd_reopen(path_fd, O_RDWR | O_NONBLOCK | O_NOCTTY);

	return both < 0 ? -ENXIO : fd_reopen(path_fd, flags | O_NONBLOCK);
}

/* A look that takes nothing. Data without a writer are as good as one. */
static bool has_writer(struct cow_fifos *f, int fd)
{
	ssize_t n = tee(fd, f->probe[1], 1, SPLICE_F_NONBLOCK);
	char c;

	if (n > 0)
		(void)!read(f->probe[0], &c, sizeof(c));
	return n != 0;
}

static int hold(struct cow_fifos *f, struct call *c, const struct stat *st,
		int path_fd, int flags, int *fd)
{
	struct fifo_wait *x = calloc(1, sizeof(*x));

	if (!x)
		return -ENOMEM;
	*x = (struct fifo_wait){
		.all = f,
		.next = f->first,
		.call = c,
		.dev = st->st_dev,
		.ino = st->st_ino,
		.path_fd = fcntl(path_fd, F_DUPFD_CLOEXEC, 3),
		.fd = take_fd(fd),
		.flags = flags,
	};
	f->first = x;
	call_keep(c, x, wait_free);
	/* For as long as it takes. */
	call_set_deadline(c, UINT64_MAX, EIO);
	return x->path_fd < 0 ? -EMFILE : -EINPROGRESS;
}

static int open_end(struct cow_fifos *f, struct call *c, int path_fd, int flags)
{
	auto_close int fd = -1;
	struct stat st;
	int r;

	if (fstat(path_fd, &st) < 0)
		return -errno;
	if (!S_ISFIFO(st.st_mode))
		return -ESTALE;
	r = fd = fd_reopen(path_fd, flags | O_NONBLOCK);
	if (fd >= 0)
		meet(f, &st, flags);
	if ((flags & O_NONBLOCK) || (flags & O_ACCMODE) == O_RDWR)
		return fd < 0 ? fd : take_fd(&fd);
	if (r == -ENXIO) {
		r = fd = open_lone_writer(path_fd, flags);
		if (fd < 0 && r != -ENXIO)
			return r;
		return hold(f, c, &st, path_fd, flags, &fd);
	}
	if (r < 0)
		return r;
	if (reads(flags) && !has_writer(f, fd))
		return hold(f, c, &st, path_fd, flags, &fd);
	return take_fd(&fd);
}

/* It was resumed. */
static int go_on(struct cow_fifos *f, struct fifo_wait *x)
{
	struct stat st = { .st_dev = x->dev, .st_ino = x->ino };

	if (x->is_met && x->fd < 0) {
		x->fd = fd_reopen(x->path_fd, x->flags | O_NONBLOCK);
		/* The reader has gone again. */
		x->is_met = x->fd != -ENXIO;
		if (x->fd >= 0)
			meet(f, &st, x->flags);
		else if (x->is_met)
			return x->fd;
	}
	return x->is_met ? take_fd(&x->fd) : -EINPROGRESS;
}

/*
 * What is passed on with the answer is closed here a moment after it, and would
 * still count then: so it is passed on before.
 */
static struct outcome give(struct call *c, int r, int flags)
{
	auto_close int fd = r;
	int had;

	if (r < 0)
		return OUTCOME_FAIL(-r);
	had = flags & O_NONBLOCK ? 0 : fcntl(fd, F_GETFL);
	if (!(flags & O_NONBLOCK) &&
	    (had < 0 || fcntl(fd, F_SETFL, had & ~O_NONBLOCK) < 0))
		return OUTCOME_FAIL(errno);
	return cow_outcome(call_install_fd(c, fd, flags & O_CLOEXEC));
}

struct outcome cow_fifo_open(struct cow *w, struct call *c, int path_fd,
			     int flags)
{
	int r;

	(void)pthread_mutex_lock(&w->fifos->lock);
	r = open_end(w->fifos, c, path_fd, flags);
	(void)pthread_mutex_unlock(&w->fifos->lock);
	return r == -EINPROGRESS ? OUTCOME_WAIT : give(c, r, flags);
}

bool cow_fifo_is_waiting(struct call *c)
{
	return call_kept_by(c, wait_free);
}

struct outcome cow_fifo_again(struct cow *w, struct call *c)
{
	struct fifo_wait *x = call_kept_by(c, wait_free);
	int r;

	(void)pthread_mutex_lock(&w->fifos->lock);
	r = go_on(w->fifos, x);
	(void)pthread_mutex_unlock(&w->fifos->lock);
	return r == -EINPROGRESS ? OUTCOME_WAIT : give(c, r, x->flags);
}
