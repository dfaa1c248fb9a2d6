/*
 * Starting init. Where all namespaces are new, one clone3 makes them with the
 * process. Where some are joined, a helper process (the detour) joins and
 * unshares in the order that permissions ask for, and then clones init as its
 * sibling (CLONE_PARENT), so that our caller can wait for it all the same.
 * Beside a pid namespace (beside.h) it does what init does, and clones last.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define HAVE_SINGLE_THREADED
#endif

#include "base/fd.h"
#include "base/raw_call.h"
#include "base/uapi.h"
#include "kernel/cgroup.h"
#include "kernel/userns.h"
#include "sandbox/create.h"
#include "sandbox/sync.h"

/* The child reports @err and ends. */
static void __attribute__((noreturn))
die(struct create *c, const struct error *err)
{
	(void)sync_send_data(c->child_sync_fd, SYNC_ERROR, err, sizeof(*err));
	_exit(1);
}

static int ask_for_maps(struct create *c, struct error *err)
{
	int r = sync_send(c->child_sync_fd, SYNC_MAP, (int)getpid());

	if (r == 0)
		r = sync_expect(c->child_sync_fd, SYNC_MAPPED);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "id maps were not written");
	return 0;
}

int spawn_become_root(const struct spec *s, struct error *err)
{
	const struct idmap *m = &s->idmap;
	uint32_t id;

	if (s->ns[SPEC_NS_USER].want == SPEC_NS_NEW &&
	    (idmap_to_outside(&m->uids, 0, &id) < 0 ||
	     idmap_to_outside(&m->gids, 0, &id) < 0))
		return 0;
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot become root in the user namespace");
	return 0;
}

/* Joins what was opened. @user: only that one, else all but that one. */
static int join_namespaces(struct create *c, bool user, bool *ret_denied,
			   struct error *err)
{
	struct plan *p = c->plan;

	for (int i = 0; i < SPEC_NS_COUNT; i++) {
		if (p->join_fds[i] < 0 || (i == SPEC_NS_USER) != user ||
		    (i == SPEC_NS_PID && p->beside))
			continue;
		if (setns(p->join_fds[i], spec_ns_table[i].clone_flag) < 0) {
			if (errno == EPERM && ret_denied) {
				*ret_denied = true;
				return 0;
			}
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot join %s namespace '%s'",
					 spec_ns_table[i].oci_name,
					 p->spec->ns[i].path);
		}
		cleanup_close(&p->join_fds[i]);
		p->join_fds[i] = -1;
	}
	return 0;
}

/*
 * A namespace that belongs to our own user namespace has to be joined before
 * we leave it, one that belongs to the joined user namespace after it.
 */
static int detour_join(struct create *c, struct error *err)
{
	bool denied = false;
	int r = join_namespaces(c, false, &denied, err);

	if (r < 0)
		return r;
	if (c->plan->join_fds[SPEC_NS_USER] >= 0) {
		r = join_namespaces(c, true, NULL, err);
		if (r == 0)
			r = spawn_become_root(c->plan->spec, err);
	} else if (c->plan->new_flags & CLONE_NEWUSER) {
		if (unshare(CLONE_NEWUSER) < 0)
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot make a user namespace");
		r = ask_for_maps(c, err);
		if (r == 0)
			r = spawn_become_root(c->plan->spec, err);
	}
	return r == 0 && denied ? join_namespaces(c, false, NULL, err) : r;
}

/* What such a child leaves on the stack would be an error to a sanitizer. */
bool spawn_is_single(void)
{
#if defined(RAW_CALL) && defined(HAVE_SINGLE_THREADED) && !defined(SANITIZED)
	return __libc_single_threaded;
#else
	return false;
#endif
}

/*
 * A child that shares our memory runs on our stack, too. So this frame is left
 * alone: all it does in the child is to call what never returns.
 */
pid_t __attribute__((noinline))
spawn_clone(const struct clone_args *args,
	    void __attribute__((noreturn)) (*fn)(void *data), void *data)
{
#ifdef RAW_CALL
	long pid = raw_call6(SYS_clone3, (long)args, sizeof(*args), 0, 0, 0, 0);
#else
	long pid = syscall(SYS_clone3, args, sizeof(*args));

	if (pid < 0)
		pid = -errno;
#endif
	if (pid == 0)
		fn(data);
	return (pid_t)pid;
}

int spawn_sibling(int sync_fd)
{
	struct clone_args args = { .flags = CLONE_PARENT };
	int gate[2], saved;
	pid_t pid;
	char c;

	if (pipe2(gate, O_CLOEXEC) < 0)
		return -errno;
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	saved = errno;
	if (pid > 0)
		_exit(sync_send(sync_fd, SYNC_PID, (int)pid) < 0);
	(void)close(gate[1]);
	/* The end of the detour opens it. */
	while (pid == 0 && read(gate[0], &c, 1) < 0 && errno == EINTR)
		;
	(void)close(gate[0]);
	return pid < 0 ? -saved : 0;
}

static void __attribute__((noreturn)) detour_main(struct create *c)
{
	struct error err = ERROR_INIT;
	int rest = c->plan->new_flags & ~CLONE_NEWUSER;
	int r;

	/* The processes of a joined pid namespace must not look into us. */
	if (detour_join(c, &err) < 0)
		die(c, &err);
	if (rest && unshare(rest) < 0) {
		(void)error_set(&err, ERR_SYSTEM, errno,
				"cannot make namespaces");
		die(c, &err);
	}
	if (prctl(PR_SET_DUMPABLE, 0) < 0) {
		(void)error_set(&err, ERR_SYSTEM, errno,
				"cannot become undumpable");
		die(c, &err);
	}
	r = c->plan->beside ? 0 : spawn_sibling(c->child_sync_fd);
	if (r < 0) {
		(void)error_set(&err, ERR_SYSTEM, -r, "cannot start init");
		die(c, &err);
	}
	init_main(c);
}

static void __attribute__((noreturn)) direct_main(struct create *c)
{
	struct error err = ERROR_INIT;

	/* While /proc/self is ours: a change of ids makes it the host root's.
	 */
	if ((c->plan->new_flags & CLONE_NEWUSER) && c->plan->new_time_ns) {
		if (init_enter_time_ns(c->plan->spec, &err) < 0)
			die(c, &err);
		c->time_is_set = true;
	}
	if ((c->plan->new_flags & CLONE_NEWUSER) &&
	    (sync_expect(c->child_sync_fd, SYNC_MAPPED) < 0 ||
	     spawn_become_root(c->plan->spec, &err) < 0)) {
		if (err.kind == ERR_NONE)
			_exit(1);
		die(c, &err);
	}
	if (c->plan->notify)
		guard_main(c);
	init_main(c);
}

static pid_t clone_without_3(struct create *c, int cgroup_fd)
{
	struct error err = ERROR_INIT;
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, NULL,
				   &c->pidfd, NULL, NULL);
	int r = pid == 0 && cgroup_fd >= 0
			? fd_write_file(cgroup_fd, "cgroup.procs", "0")
			: 0;

	if (r == 0)
		return pid;
	(void)error_set(&err, ERR_SYSTEM, -r, "cannot enter the cgroup");
	die(c, &err);
}

static void reap(pid_t pid, int *pidfd)
{
	if (*pidfd >= 0)
		(void)pidfd_signal(*pidfd, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	cleanup_close(pidfd);
	*pidfd = -1;
}

/*
 * Into a scope, where we may not clone into it: an ordinary user moves nothing
 * between his session and the units of his systemd, and a limit of one process
 * counts the holder. Moving is no fork, and systemd does it if we may not.
 */
static bool must_be_moved(const struct cgroup *cg, int sys)
{
	return cg && cgroup_is_scope(cg) &&
	       (sys == EACCES || sys == EPERM || sys == EAGAIN);
}

/* It waits, and is in the cgroup before it does anything. */
static int move_held(struct create *c, pid_t pid, struct error *err)
{
	int r = cgroup_attach(c->state->cgroup, pid, err);

	if (r == 0)
		r = sync_send(c->sync_fd, SYNC_JOINED, 0);
	if (r < 0)
		reap(pid, &c->pidfd);
	return r;
}

static int clone_child(struct create *c, struct error *err, pid_t *ret)
{
	const struct plan *p = c->plan;
	const struct cgroup *cg = c->state->cgroup;
	struct clone_args args = {
		.flags = CLONE_PIDFD,
		.pidfd = (uintptr_t)&c->pidfd,
		.exit_signal = SIGCHLD,
	};
	int cgroup_fd = cg ? cgroup_membership_fd(cg) : -1;
	bool held = false;
	pid_t pid;

	if (!p->detour)
		args.flags |= (unsigned int)p->new_flags;
	c->netns_fd = netns_take(&c->plan->netns);
	if (c->netns_fd >= 0)
		args.flags &= ~(uint64_t)CLONE_NEWNET;
	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned int)cgroup_fd;
	}
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0 && must_be_moved(cg, errno)) {
		held = true;
		args.flags &= ~(uint64_t)CLONE_INTO_CGROUP;
		pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	}
	/* As the filter of a container answers it. */
	if (pid < 0 && errno == ENOSYS && p->notify)
		pid = clone_without_3(c, cgroup_fd);
	if (pid < 0) {
		(void)error_set(err, ERR_SYSTEM, errno,
				"cannot make the namespaces");
		return errno == EPERM
			       ? error_hint(err, "this user may not make them; "
						 "user namespaces may be "
						 "restricted here")
			       : error_code(err);
	}
	if (pid == 0) {
		/* Who waits for its id maps sees that nobody will write them.
		 */
		cleanup_close(&c->sync_fd);
		c->sync_fd = -1;
		if (held && sync_expect(c->child_sync_fd, SYNC_JOINED) < 0)
			_exit(1);
		if (p->detour)
			detour_main(c);
		direct_main(c);
	}
	*ret = pid;
	return held ? move_held(c, pid, err) : 0;
}

/* Reads messages of the helper until the pid comes. */
static int receive_pid(int sock, const struct idmap *maps, pid_t *ret,
		       struct error *err)
{
	struct sync_msg *m = malloc(sizeof(*m));
	int r = m ? 0 : error_set(err, ERR_SYSTEM, ENOMEM, "messages");

	while (r == 0) {
		r = sync_recv(sock, m);
		if (r <= 0) {
			r = error_set(err, ERR_SYSTEM, r < 0 ? -r : ECHILD,
				      "the process was not started");
			break;
		}
		r = 0;
		if (m->type == SYNC_PID) {
			*ret = (pid_t)m->value;
			break;
		}
		if (m->type == SYNC_MAP && maps) {
			r = userns_write_maps((pid_t)m->value, maps, err);
			if (r == 0)
				r = sync_send(sock, SYNC_MAPPED, 0);
		} else if (m->type == SYNC_ERROR) {
			r = sync_take_error(m->data, m->len, err);
		} else {
			r = error_say(err, ERR_SYSTEM, EPROTO,
				      "unexpected message");
		}
	}
	free(m);
	return r;
}

int spawn_follow(int sock, pid_t helper, int *pidfd, const struct idmap *maps,
		 pid_t *ret_pid, struct error *err)
{
	struct error local = ERROR_INIT;
	struct error *e = err ? err : &local;
	pid_t pid = 0;
	int r = receive_pid(sock, maps, &pid, e);

	reap(helper, pidfd);
	if (r < 0)
		return r;
	*pidfd = pidfd_open_pid(pid);
	if (*pidfd < 0)
		return error_set(err, ERR_SYSTEM, -*pidfd,
				 "cannot open the process");
	*ret_pid = pid;
	return 0;
}

int spawn_init(struct create *c, pid_t *ret_pid, struct error *err)
{
	pid_t pid = 0;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make a socket pair");
	c->sync_fd = pair[0];
	c->child_sync_fd = pair[1];
	if (c->plan->notify &&
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make a socket pair");
	if (c->plan->notify) {
		c->join_fd = pair[0];
		c->child_join_fd = pair[1];
	}
	r = clone_child(c, err, &pid);
	cleanup_close(&c->child_sync_fd);
	cleanup_close(&c->child_join_fd);
	cleanup_close(&c->fifo_fd);
	c->child_sync_fd = c->fifo_fd = c->child_join_fd = -1;
	if (!create_is_relayed(c)) {
		cleanup_close(&c->status_fd);
		c->status_fd = -1;
	}
	if (r < 0)
		return r;
	if (c->state->cgroup)
		cgroup_settle(c->state->cgroup);
	if (c->plan->detour && !c->plan->beside)
		return spawn_follow(c->sync_fd, pid, &c->pidfd,
				    &c->plan->spec->idmap, ret_pid, err);
	if (c->plan->new_flags & CLONE_NEWUSER) {
		r = userns_write_maps(pid, &c->plan->spec->idmap, err);
		if (r == 0)
			r = sync_send(c->sync_fd, SYNC_MAPPED, 0);
		if (r < 0) {
			reap(pid, &c->pidfd);
			return r;
		}
	}
	*ret_pid = pid;
	return 0;
}
