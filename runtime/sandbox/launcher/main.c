/*
 * The last program before the payload: a freestanding executable of a page or
 * two that init executes from a sealed memfd and that executes the payload.
 *
 * It exists because of CVE-2019-5736. Whatever a container executes through
 * /proc/self/exe, and whatever it finds in /proc/PID/exe while it is started,
 * is this sealed copy and never the sandlock binary on the host. It also keeps
 * the seccomp filter from having to allow more than execve: the filter is
 * loaded here, right before it.
 *
 *	argv[0]	"STATUS_FD:FILTER_FD:N_INSNS:FLAGS:INIT:TRAPS_IO:FIRST_FD:
 *		FIRST_N:FIRST_FLAGS:GO_FD:FAIL_FD", unsigned decimals; FILTER_FD
 *		is a file of struct sock_filter, N_INSNS 0: no filter; and of
 *		another one, which is loaded before it
 *	argv[1]	the program, resolved by init
 *	argv[2]...	its argv
 *
 * If the filter cannot be loaded or the program cannot be executed, the errno
 * goes to STATUS_FD as an int, and the exit status is 126 or 127. STATUS_FD is
 * close-on-exec then: its end without bytes means that the payload runs.
 *
 * A filter with a listener is loaded here, too: the number of the listener
 * goes to STATUS_FD after an int of 0, and one byte is read before the program
 * is executed. Until then write, read and close are called, which are not
 * trapped; with TRAPS_IO pwritev2 and preadv2 instead of the first two. Only
 * one of two filters has a listener: of all that both could refuse or trap
 * seccomp alone is called between them.
 *
 * With INIT the launcher stays as pid 1 of a host command: it starts the
 * payload, passes signals on to it, reaps what is orphaned and ends as the
 * payload did: 128+n for signal n, for a pid 1 cannot die of its own signals;
 * then its name is "signal n", which whoever waits for it may read meanwhile.
 * The kernel then ends everything else in the namespace. INIT 1 forks; 2 is
 * faster, but passes nothing on before the program is executed, so that must
 * not wait for anybody.
 *
 * With INIT 4 it clones the process that executes the program, as a child of
 * its own parent, when the filters are loaded, writes what launcher.h has as
 * struct launcher_beside, and ends. The clone starts a session, of terminal 0
 * with 8 added, dies with its parent with 16 added, and reads one byte before
 * it goes on. With GO_FD it closes STATUS_FD then, and reads a byte of that
 *one; what fails afterwards goes to FAIL_FD.
 */
#include <asm/ioctls.h>
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/filter.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/signal.h>
#include <linux/uio.h>
#include <linux/wait.h>

#include "base/raw_call.h"

#if defined(__x86_64__)
__asm__(".text\n.global _start\n_start:\n\txor %ebp, %ebp\n"
	"\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall launch\n\thlt\n");
#elif defined(__aarch64__)
__asm__(".text\n.global _start\n_start:\n\tmov x29, #0\n\tmov x0, sp\n"
	"\tbl launch\n");
#elif defined(__riscv) && __riscv_xlen == 64
__asm__(".text\n.global _start\n_start:\n\tmv a0, sp\n\tcall launch\n");
#else
#error "the launcher has no start for this architecture"
#endif

static unsigned long next_number(const char **p)
{
	unsigned long n = 0;

	while (**p >= '0' && **p <= '9')
		n = n * 10 + (unsigned long)(*(*p)++ - '0');
	if (**p == ':')
		(*p)++;
	return n;
}

/* At the current position, which is -1: as write and read. */
static long do_io(long nr, long fd, void *data, unsigned long n)
{
	struct iovec iov = { .iov_base = data, .iov_len = n };

	return raw_call6(nr, fd, (long)&iov, 1, -1, -1, 0);
}

static long write_all(long fd, void *data, unsigned long n, unsigned long traps)
{
	if (traps)
		return do_io(__NR_pwritev2, fd, data, n);
	return raw_call6(__NR_write, fd, (long)data, (long)n, 0, 0, 0);
}

static long read_byte(long fd, char *to, unsigned long traps)
{
	if (traps)
		return do_io(__NR_preadv2, fd, to, 1);
	return raw_call6(__NR_read, fd, (long)to, 1, 0, 0, 0);
}

static void fail(long status_fd, long error, unsigned long traps)
{
	int sys = (int)-error;

	(void)write_all(status_fd, &sys, sizeof(sys), traps);
	(void)raw_call6(__NR_exit_group,
			error == -ENOENT || error == -ENOTDIR ? 127 : 126, 0, 0,
			0, 0, 0);
}

struct filter {
	long fd;
	unsigned long n_insns, flags;
	long at; /* where it is mapped, or a negative errno */
};

/* Before any filter, which may forbid what is not execve. */
static void map_filter(struct filter *f)
{
	if (!f->n_insns)
		return;
	(void)raw_call6(__NR_fcntl, f->fd, F_SETFD, FD_CLOEXEC, 0, 0, 0);
	f->at = raw_call6(__NR_mmap, 0,
			  (long)(f->n_insns * sizeof(struct sock_filter)),
			  PROT_READ, MAP_PRIVATE, f->fd, 0);
}

static long load_filter(const struct filter *f)
{
	struct sock_fprog prog = { .len = (unsigned short)f->n_insns,
				   .filter = (struct sock_filter *)f->at };

	if (f->at < 0 && f->at > -4096)
		return f->at;
	return raw_call6(__NR_seccomp, SECCOMP_SET_MODE_FILTER, (long)f->flags,
			 (long)&prog, 0, 0, 0);
}

/* Returns once somebody else has the listener and answers. */
static void hand_over(long status_fd, long listener_fd, unsigned long traps)
{
	int said[2] = { 0, (int)listener_fd };
	char byte;

	if (write_all(status_fd, said, sizeof(said), traps) != sizeof(said) ||
	    read_byte(status_fd, &byte, traps) != 1)
		(void)raw_call6(__NR_exit_group, 126, 0, 0, 0, 0, 0);
	(void)raw_call6(__NR_close, listener_fd, 0, 0, 0, 0, 0);
}

static void __attribute__((noreturn)) finish(long status)
{
	for (;;)
		(void)raw_call6(__NR_exit_group, status, 0, 0, 0, 0, 0);
}

/* Returns the mask as it was. */
static unsigned long long set_mask(unsigned long long mask)
{
	unsigned long long old = 0;

	(void)raw_call6(__NR_rt_sigprocmask, SIG_SETMASK, (long)&mask,
			(long)&old, sizeof(mask), 0, 0);
	return old;
}

static void __attribute__((noreturn)) finish_signalled(int sig)
{
	char name[16] = "signal ";
	int at = 7;

	if (sig >= 10)
		name[at++] = (char)('0' + sig / 10);
	name[at] = (char)('0' + sig % 10);
	(void)raw_call6(__NR_prctl, PR_SET_NAME, (long)name, 0, 0, 0, 0);
	finish(128 + sig);
}

/* Reaps; ends as the payload did once it has ended. */
static void reap(long payload)
{
	int status = 0;
	long pid;

	for (;;) {
		pid = raw_call6(__NR_wait4, -1, (long)&status, WNOHANG, 0, 0,
				0);
		if (pid <= 0)
			return;
		if (pid != payload)
			continue;
		if ((status & 0x7f) == 0)
			finish(status >> 8 & 0xff);
		finish_signalled(status & 0x7f);
	}
}

/* All signals are blocked: they wait here, also those from outside. */
static void __attribute__((noreturn)) serve(long payload)
{
	unsigned long long all = ~0ULL;
	siginfo_t info;
	long sig;

	for (;;) {
		sig = raw_call6(__NR_rt_sigtimedwait, (long)&all, (long)&info,
				0, sizeof(all), 0, 0);
		reap(payload);
		/* A terminal has sent ^C to the payload as well, but tells of
		 * its end to the leader of the session alone, which we are. */
		if (sig > 0 && sig != SIGCHLD &&
		    (info.si_code != SI_KERNEL || sig == SIGHUP))
			(void)raw_call6(__NR_kill, payload, sig, 0, 0, 0, 0);
	}
}

/* INIT. */
enum {
	LAUNCH_FORKS = 1,
	LAUNCH_SHARES = 2,
	LAUNCH_INIT = LAUNCH_FORKS | LAUNCH_SHARES,
	LAUNCH_BESIDE = 4,
	LAUNCH_TTY = 8,
	LAUNCH_DIES = 16,
};

struct launch {
	long status_fd;
	struct filter filters[2]; /* in the order in which they are loaded */
	long go_fd, fail_fd;	  /* or 0 */
	unsigned long init, traps;
	char **argv, **envp;
	unsigned long long mask; /* of the payload, where it is our child */
};

/*
 * Returns in the clone, once it may go on. Who is inside can have it do
 * anything from its first moment; so what counts is said by who made it.
 */
static void go_beside(struct launch *l, unsigned long traps)
{
	int said[2] = { 0, 0 };
	long r = raw_call6(__NR_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0, 0);
	char byte;

	if (r != 0) {
		said[r < 0 ? 0 : 1] = (int)(r < 0 ? -r : r);
		(void)write_all(l->status_fd, said, sizeof(said), traps);
		finish(r < 0 ? 126 : 0);
	}
	(void)raw_call6(__NR_setsid, 0, 0, 0, 0, 0, 0);
	if (l->init & LAUNCH_TTY)
		r = raw_call6(__NR_ioctl, 0, TIOCSCTTY, 0, 0, 0, 0);
	if (r == 0 && (l->init & LAUNCH_DIES))
		r = raw_call6(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0,
			      0);
	if (read_byte(l->status_fd, &byte, traps) != 1)
		finish(126);
	if (l->go_fd) {
		(void)raw_call6(__NR_close, l->status_fd, 0, 0, 0, 0, 0);
		l->status_fd = l->fail_fd;
		if (read_byte(l->go_fd, &byte, traps) != 1)
			finish(126);
	}
	if (r < 0)
		fail(l->status_fd, r, traps);
}

/*
 * On a terminal of its own the payload is a job: only what has its parent in
 * another group of the session can be stopped by a key. All signals are
 * blocked, SIGTTOU too.
 */
static void become_job(void)
{
	int group = 0;

	if (raw_call6(__NR_ioctl, 0, TIOCGPGRP, (long)&group, 0, 0, 0) < 0 ||
	    raw_call6(__NR_setpgid, 0, 0, 0, 0, 0, 0) < 0)
		return;
	group = (int)raw_call6(__NR_getpid, 0, 0, 0, 0, 0, 0);
	(void)raw_call6(__NR_ioctl, 0, TIOCSPGRP, (long)&group, 0, 0, 0);
}

static void __attribute__((noreturn, noinline)) execute(struct launch *l)
{
	unsigned long traps = 0;
	long r;

	if (l->init & LAUNCH_INIT) {
		become_job();
		(void)set_mask(l->mask);
	}
	map_filter(&l->filters[0]);
	map_filter(&l->filters[1]);
	for (int i = 0; i < 2; i++) {
		if (!l->filters[i].n_insns)
			continue;
		r = load_filter(&l->filters[i]);
		if (r < 0)
			fail(l->status_fd, r, traps);
		if (!(l->filters[i].flags & SECCOMP_FILTER_FLAG_NEW_LISTENER))
			continue;
		traps = l->traps;
		hand_over(l->status_fd, r, traps);
	}
	if (l->init & LAUNCH_BESIDE)
		go_beside(l, traps);
	r = raw_call6(__NR_execve, (long)l->argv[1], (long)&l->argv[2],
		      (long)l->envp, 0, 0, 0);
	fail(l->status_fd, r, l->traps);
	finish(126);
}

/*
 * A child of CLONE_VFORK runs on our stack while we wait for its execve. So
 * this frame is left alone: all it does in the child is to call what never
 * returns.
 */
static long __attribute__((noinline)) start(struct launch *l, long flags)
{
	long pid = raw_call6(__NR_clone, flags | SIGCHLD, 0, 0, 0, 0, 0);

	if (pid == 0)
		execute(l);
	return pid;
}

static void __attribute__((noreturn)) become_init(struct launch *l)
{
	long pid;

	l->mask = set_mask(~0ULL);
	pid = start(l, l->init == LAUNCH_SHARES ? CLONE_VM | CLONE_VFORK : 0);
	if (pid < 0)
		fail(l->status_fd, pid, 0);
	/* All of them: standard streams too, so that readers of the payload's
	 * output see its end. */
	(void)raw_call6(__NR_close_range, 0, ~0U, 0, 0, 0, 0);
	(void)raw_call6(__NR_prctl, PR_SET_NAME, (long)"sandlock-init", 0, 0, 0,
			0);
	serve(pid);
}

static void read_filter(const char **p, struct filter *ret)
{
	ret->fd = (long)next_number(p);
	ret->n_insns = next_number(p);
	ret->flags = next_number(p);
}

void launch(long *stack);

void __attribute__((noreturn, used)) launch(long *stack)
{
	long argc = stack[0];
	struct launch l = {
		.argv = (char **)&stack[1],
		.envp = (char **)&stack[1] + argc + 1,
	};
	const char *p = argc > 0 ? l.argv[0] : "";

	/* Executed by the payload itself: there is nothing to launch. */
	if (argc < 3)
		finish(126);
	l.status_fd = (long)next_number(&p);
	read_filter(&p, &l.filters[1]);
	l.init = next_number(&p);
	l.traps = next_number(&p);
	read_filter(&p, &l.filters[0]);
	l.go_fd = (long)next_number(&p);
	l.fail_fd = (long)next_number(&p);
	if (raw_call6(__NR_fcntl, l.status_fd, F_SETFD, FD_CLOEXEC, 0, 0, 0) <
	    0)
		finish(126);
	if (l.go_fd) {
		(void)raw_call6(__NR_fcntl, l.go_fd, F_SETFD, FD_CLOEXEC, 0, 0,
				0);
		(void)raw_call6(__NR_fcntl, l.fail_fd, F_SETFD, FD_CLOEXEC, 0,
				0, 0);
	}
	/* Until the payload is executed nothing inside may look into us, and
	 * never into pid 1: no filter is on either. Before the fork, so that
	 * the payload does not come first. */
	if (l.init || l.filters[0].n_insns || l.filters[1].n_insns)
		(void)raw_call6(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0, 0);
	if (l.init & LAUNCH_INIT)
		become_init(&l);
	execute(&l);
}
