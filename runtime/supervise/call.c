/* What a handler can ask about its call, and do to its caller. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/uapi.h"
#include "kernel/pidfd.h"
#include "supervise/act.h"
#include "supervise/internal.h"

/* Strings are read in pieces that do not cross a page. */
enum { STRING_PIECE = 256, PAGE = 4096 };

int call_nr(const struct call *c)
{
	return c->req.notif.data.nr;
}

uint64_t call_arg(const struct call *c, unsigned int i)
{
	return i < ARRAY_LEN(c->req.notif.data.args) ? c->req.notif.data.args[i]
						     : 0;
}

const struct seccomp_notif *call_notification(const struct call *c)
{
	return &c->req.notif;
}

pid_t call_tid(const struct call *c)
{
	return (pid_t)c->req.notif.pid;
}

pid_t call_tgid(struct call *c)
{
	struct notify_task task;

	if (c->tgid == 0 && notify_read_task(call_tid(c), &task) == 0 &&
	    call_is_valid(c))
		c->tgid = task.tgid;
	return c->tgid;
}

pid_t call_ppid(struct call *c)
{
	struct proc_stat st;

	if (c->ppid == 0 && proc_read_stat(call_tid(c), &st) == 0 &&
	    call_is_valid(c))
		c->ppid = st.ppid;
	return c->ppid;
}

int call_cpu(const struct call *c)
{
	return c->cpu;
}

uint64_t call_deadline_ns(const struct call *c)
{
	return c->deadline_ns;
}

bool call_is_abandoned(const struct call *c)
{
	return atomic_load(&c->answered) && !atomic_load(&c->is_finishing);
}

bool call_is_valid(const struct call *c)
{
	return !call_is_abandoned(c) &&
	       notify_is_valid(c->l->fd, c->req.notif.id);
}

bool call_is_interrupted(const struct call *c)
{
	struct notify_task task;

	return notify_read_task(call_tid(c), &task) == 0 && task.signalled &&
	       call_is_valid(c);
}

/* ------------------------------------------------------------- memory -- */

/* What was done through a number that may have changed hands: @r, or -ESRCH
 * if the notification has died. */
static ssize_t checked(const struct call *c, ssize_t r)
{
	return call_is_valid(c) ? r : -ESRCH;
}

int call_read(struct call *c, uint64_t addr, void *data, size_t n)
{
	ssize_t r = notify_read_memory(call_tid(c), addr, data, n);

	r = checked(c, r);
	if (r < 0)
		return r == -ESRCH || r == -EPERM ? (int)r : -EFAULT;
	if ((size_t)r != n)
		return -EFAULT;
	captured_show(c->captured, addr, data, n);
	return 0;
}

static size_t piece_at(uint64_t addr, size_t left)
{
	size_t n = PAGE - (size_t)(addr % PAGE);

	if (n > STRING_PIECE)
		n = STRING_PIECE;
	return n < left ? n : left;
}

int call_peek_string(struct call *c, uint64_t addr, char *ret, size_t max)
{
	size_t len = 0;

	while (len < max) {
		ssize_t r =
			notify_read_memory(call_tid(c), addr + len, ret + len,
					   piece_at(addr + len, max - len));

		if (r < 0) {
			r = checked(c, r);
			return r == -ESRCH || r == -EPERM ? (int)r : -EFAULT;
		}
		captured_show(c->captured, addr + len, ret + len, (size_t)r);
		if (memchr(ret + len, '\0', (size_t)r))
			return 0;
		len += (size_t)r;
	}
	return -ENAMETOOLONG;
}

int call_read_string(struct call *c, uint64_t addr, char *ret, size_t max)
{
	int r = call_peek_string(c, addr, ret, max);

	return r == 0 || r == -ENAMETOOLONG ? (int)checked(c, r) : r;
}

int call_write(struct call *c, uint64_t addr, const void *data, size_t n)
{
	int r;

	if (call_is_abandoned(c))
		return -ESRCH;
	gate_enter(&c->s->gate);
	r = notify_write_memory(c->l->fd, c->req.notif.id, call_tid(c), addr,
				data, n);
	gate_leave(&c->s->gate);
	return r == -ENOENT ? -ESRCH : r;
}

/* -------------------------------------------------------- descriptors -- */

int call_open_process(struct call *c)
{
	pid_t tgid = call_tgid(c);
	auto_close int fd = tgid ? pidfd_open_pid(tgid) : -ESRCH;

	if (fd < 0)
		return (int)checked(c, fd);
	return call_is_valid(c) ? take_fd(&fd) : -ESRCH;
}

/* A pidfd of the thread itself: it may have a table of fds of its own. */
static int open_pidfd(struct call *c)
{
	int fd = (int)syscall(SYS_pidfd_open, call_tid(c), PIDFD_THREAD);

	if (fd >= 0 || errno != EINVAL)
		return fd < 0 ? -errno : fd;
	/* Before 6.9 there are pidfds of processes only. */
	return call_open_process(c);
}

static int get_fd_now(struct call *c, int fd)
{
	auto_close int pidfd = open_pidfd(c);
	int got;

	if (pidfd < 0)
		return pidfd;
	got = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	return got < 0 ? -errno : got;
}

static int dup_fd(int fd)
{
	int got = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return got < 0 ? -errno : got;
}

int call_get_fd(struct call *c, int fd)
{
	int captured = captured_fd(c->captured, fd);
	auto_close int got =
		captured < 0 ? get_fd_now(c, fd) : dup_fd(captured);

	if (got < 0)
		return (int)checked(c, got);
	if (!call_is_valid(c))
		return -ESRCH;
	/* The lowest number that is free. */
	return got < c->s->caller_fds_end ? take_fd(&got) : -EMFILE;
}

/* Opens what a link below /proc/TID stands for. */
static int open_link(struct call *c, const char *link, int flags)
{
	char path[64];
	auto_close int fd = -1;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)call_tid(c),
		       link);
	fd = open(path, O_PATH | O_CLOEXEC | flags);
	if (fd < 0)
		return (int)checked(c, -errno);
	if (!call_is_valid(c))
		return -ESRCH;
	return take_fd(&fd);
}

int call_open_cwd(struct call *c)
{
	return open_link(c, "cwd", O_DIRECTORY);
}

int call_open_root(struct call *c)
{
	return open_link(c, "root", O_DIRECTORY);
}

int call_open_dirfd(struct call *c, int dirfd)
{
	char link[32];
	int r;

	if (dirfd == AT_FDCWD)
		return call_open_cwd(c);
	if (dirfd < 0)
		return -EBADF;
	(void)snprintf(link, sizeof(link), "fd/%d", dirfd);
	r = open_link(c, link, 0);
	return r == -ENOENT ? -EBADF : r;
}

int call_install_fd(struct call *c, int fd, bool cloexec)
{
	int r;

	if (call_is_abandoned(c))
		return -ESRCH;
	r = notify_install_fd(c->l->fd, c->req.notif.id, fd, cloexec);
	return r == -ENOENT ? -ESRCH : r;
}

int call_replace_fd(struct call *c, int number, int fd, bool cloexec)
{
	int r;

	if (call_is_abandoned(c))
		return -ESRCH;
	r = notify_replace_fd(c->l->fd, c->req.notif.id, number, fd, cloexec);
	return r == -ENOENT ? -ESRCH : r;
}

/* ------------------------------------------------------------ the chain -- */

struct call *call_new(struct listener *l)
{
	struct call *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->s = l->s;
	c->l = listener_get(l);
	atomic_init(&c->refs, 1);
	return c;
}

struct call *call_get(struct call *c)
{
	(void)atomic_fetch_add(&c->refs, 1);
	return c;
}

void call_put(struct call *c)
{
	if (!c || atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	call_keep(c, NULL, NULL);
	captured_drop(&c->captured);
	listener_put(c->l);
	free(c);
}

void call_reset(struct call *c)
{
	atomic_store_explicit(&c->answered, false, memory_order_relaxed);
	call_keep(c, NULL, NULL);
	captured_drop(&c->captured);
	/* An answer that came before it was waited for. */
	atomic_store_explicit(&c->hold, HOLD_NOT, memory_order_relaxed);
	c->tgid = c->ppid = 0;
	c->cpu = -1;
	c->has_gate = false;
	atomic_store_explicit(&c->is_finishing, false, memory_order_relaxed);
	c->is_blocking = false;
	c->has_effect = false;
	c->is_retried = false;
	c->deadline_errno = EIO;
}

void call_keep(struct call *c, void *data, void (*free_fn)(void *))
{
	if (c->free_kept)
		c->free_kept(c->kept);
	c->kept = data;
	c->free_kept = free_fn;
}

void *call_kept(const struct call *c)
{
	return c->kept;
}

void *call_kept_by(const struct call *c, void (*free_fn)(void *))
{
	return c->free_kept == free_fn ? c->kept : NULL;
}

bool call_claim(struct call *c)
{
	return !atomic_exchange(&c->answered, true);
}

static struct chain accounts_of(const struct call *c)
{
	return handlers_find(&c->s->table, call_nr(c));
}

/* Every row lets it go on: who can carries it out in the kernel's place. */
static enum progress carry_out(struct call *c, enum lane lane,
			       struct outcome *ret)
{
	struct chain all = accounts_of(c);

	for (const struct handler *h = all.row; h < all.end; h++) {
		if (!h->account || !h->account->instead)
			continue;
		if (!h->is_bare)
			act_settle();
		*ret = h->account->instead(c, h->data, lane == LANE_EXTERNAL);
		if (ret->kind == OUTCOME_HELD && lane < LANE_EXTERNAL)
			return CALL_MUST_PARK;
		if (ret->kind != OUTCOME_CONTINUE)
			break;
	}
	return CALL_DONE;
}

enum progress call_run(struct call *c, enum lane lane, struct outcome *ret)
{
	*ret = OUTCOME_GO;
	while (c->chain.row < c->chain.end) {
		const struct handler *h = c->chain.row;

		if (call_is_abandoned(c))
			return CALL_DONE;
		if (h->lane > lane)
			return CALL_MUST_PARK;
		if (!h->is_bare)
			act_settle();
		*ret = h->fn(c, h->data);
		if (ret->kind == OUTCOME_HELD)
			return CALL_HELD;
		c->chain.row++;
		if (ret->kind != OUTCOME_CONTINUE)
			return CALL_DONE;
	}
	return call_is_abandoned(c) ? CALL_DONE : carry_out(c, lane, ret);
}

void call_skip(struct call *c)
{
	if (c->chain.row + 1 < c->chain.end)
		c->chain.row++;
}

static void run_again(struct call *c)
{
	enum lane lane = c->chain.row->lane;

	atomic_store(&c->hold, HOLD_NOT);
	lane_push(c, lane < LANE_LOCAL ? LANE_LOCAL : lane);
}

void call_hold(struct call *c)
{
	int none = HOLD_NOT;

	park_add(c, LANE_EXTERNAL);
	(void)call_get(c);
	if (!atomic_compare_exchange_strong(&c->hold, &none, HOLD_HELD))
		run_again(c);
	else if (atomic_load(&c->s->stopping))
		call_resume(c);
	call_put(c);
}

void call_resume(struct call *c)
{
	if (atomic_exchange(&c->hold, HOLD_RESUMED) == HOLD_HELD)
		run_again(c);
}

/* An exec that was verified relies on what callers do not do meanwhile. */
static void fail(struct call *c, int error)
{
	gate_enter(&c->s->gate);
	(void)notify_fail(c->l->fd, c->req.notif.id, error);
	gate_leave(&c->s->gate);
}

void call_fail_held(struct call *c, int error)
{
	bool held = atomic_exchange(&c->hold, HOLD_RESUMED) == HOLD_HELD;

	if (held)
		call_keep(c, NULL, NULL);
	fail(c, error);
	if (held)
		run_again(c);
}

void call_abandon(struct call *c, int error)
{
	if (call_claim(c))
		fail(c, error);
}

static void undo_accounts(struct call *c, const struct handler *end)
{
	const struct handler *h = end, *first = accounts_of(c).row;

	while (h-- > first)
		if (h->account && h->account->undo)
			h->account->undo(c, h->data);
}

/* 0, or the errno of an account that refuses; then nothing is taken. */
static int settle_accounts(struct call *c)
{
	struct chain all = accounts_of(c);

	for (const struct handler *h = all.row; h < all.end; h++) {
		int e = h->account ? h->account->settle(c, h->data) : 0;

		if (e) {
			undo_accounts(c, h);
			return e;
		}
	}
	return 0;
}

static void close_accounts(struct call *c)
{
	struct chain all = accounts_of(c);

	for (const struct handler *h = all.row; h < all.end; h++)
		if (h->account && h->account->sent)
			h->account->sent(c, h->data);
}

/* With the gate held, one way or the other. */
static int send_continue(struct call *c)
{
	bool enter = !c->has_gate;
	int r;

	if (enter)
		gate_enter(&c->s->gate);
	r = notify_continue(c->l->fd, c->req.notif.id);
	if (enter)
		gate_leave(&c->s->gate);
	return r;
}

static void let_go_on(struct call *c)
{
	int e;

	act_settle();
	/* Accounts may look at the caller again. */
	atomic_store(&c->is_finishing, true);
	e = settle_accounts(c);
	if (e) {
		fail(c, e);
		return;
	}
	if (send_continue(c) < 0)
		undo_accounts(c, accounts_of(c).end);
	else
		close_accounts(c);
}

/* A caller whose table is full gets EMFILE, as from open(2). */
static void answer_fd(struct call *c, int fd, bool cloexec)
{
	int r = notify_answer_fd(c->l->fd, c->req.notif.id, fd, cloexec);

	if (r < 0 && r != -ENOENT)
		(void)notify_fail(c->l->fd, c->req.notif.id, -r);
}

static void answer(struct call *c, struct outcome o, int fd)
{
	uint64_t id = c->req.notif.id;

	/* That the caller has died meanwhile (ENOENT) is no error. */
	switch (o.kind) {
	case OUTCOME_ERRNO:
		/* 0 would be success: no handler may allow by mistake. */
		(void)notify_fail(c->l->fd, id, o.error > 0 ? o.error : EPERM);
		return;
	case OUTCOME_RETURN:
		(void)notify_return(c->l->fd, id, o.value);
		return;
	case OUTCOME_FD:
		answer_fd(c, fd, o.cloexec);
		return;
	case OUTCOME_CONTINUE:
	case OUTCOME_HELD:
		break;
	}
	(void)notify_fail(c->l->fd, id, EPERM);
}

void call_finish(struct call *c, struct outcome o)
{
	auto_close int fd = o.kind == OUTCOME_FD ? o.fd : -1;

	/* The caller may close its own next, and expect the peer to see it. */
	captured_drop(&c->captured);
	if (!call_claim(c))
		return;
	if (o.kind == OUTCOME_CONTINUE) {
		let_go_on(c);
		return;
	}
	gate_enter(&c->s->gate);
	answer(c, o, fd);
	gate_leave(&c->s->gate);
}
