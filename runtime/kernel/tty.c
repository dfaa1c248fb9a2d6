#include "kernel/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <termios.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "kernel/pidfd.h"

enum {
	PTMX_MAJOR = 5,
	PTMX_MINOR = 2,
	RELAY_BUF = 16 * 1024,
	DRAIN_MS = 200,
	HUNG_MS = 50,
	/* How often a background job looks whether it is one still, and one in
	 * the foreground whether the inside has stopped: sooner for a while
	 * after a key that may have stopped it. */
	BACKGROUND_MS = 200,
	STOPPED_MS = 1000,
	STOPPED_SOON_MS = 10,
	END_OF_FILE = 4, /* ^D */
};

static int pty_error(struct error *err)
{
	return error_set(err, ERR_SYSTEM, errno,
			 "cannot open a pseudo-terminal");
}

/* A link or a file in place of ptmx would be the image's choice, not ours. */
static int open_ptmx(int devpts_dirfd, struct error *err)
{
	auto_close int fd = openat(devpts_dirfd, "ptmx",
				   O_RDWR | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
	struct statfs fs;
	struct stat st;

	if (fd < 0)
		return pty_error(err);
	if (fstatfs(fd, &fs) < 0 || fstat(fd, &st) < 0)
		return pty_error(err);
	if ((unsigned long)fs.f_type != DEVPTS_SUPER_MAGIC ||
	    !S_ISCHR(st.st_mode) ||
	    st.st_rdev != makedev(PTMX_MAJOR, PTMX_MINOR))
		return error_say(err, ERR_BUNDLE, ENODEV,
				 "'/dev/pts/ptmx' is not the one of a devpts "
				 "file system");
	return take_fd(&fd);
}

/* @master is taken over. */
static int open_slave(int master_fd, uint16_t width, uint16_t height,
		      int *ret_master_fd, int *ret_slave_fd, struct error *err)
{
	auto_close int master = master_fd;
	auto_close int slave = -1;
	struct winsize ws = { .ws_row = height, .ws_col = width };
	int unlock = 0;

	if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return pty_error(err);
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return pty_error(err);
	if (width && height && ioctl(slave, TIOCSWINSZ, &ws) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot set the size of the terminal");
	*ret_master_fd = take_fd(&master);
	*ret_slave_fd = take_fd(&slave);
	return 0;
}

int tty_open_pair(int devpts_dirfd, uint16_t width, uint16_t height,
		  int *ret_master_fd, int *ret_slave_fd, struct error *err)
{
	int master = open_ptmx(devpts_dirfd, err);

	return master < 0 ? master
			  : open_slave(master, width, height, ret_master_fd,
				       ret_slave_fd, err);
}

int tty_open_host_pair(uint16_t width, uint16_t height, int *ret_master_fd,
		       int *ret_slave_fd, struct error *err)
{
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);

	return master < 0 ? pty_error(err)
			  : open_slave(master, width, height, ret_master_fd,
				       ret_slave_fd, err);
}

int tty_make_controlling(int slave_fd, struct error *err)
{
	/* EPERM: a session leader already. */
	if (setsid() < 0 && errno != EPERM)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot start a session");
	if (ioctl(slave_fd, TIOCSCTTY, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot take the controlling terminal");
	return tty_use(slave_fd, err);
}

int tty_use(int slave_fd, struct error *err)
{
	for (int i = 0; i < 3; i++) {
		if (slave_fd == i)
			(void)fcntl(i, F_SETFD, 0);
		else if (dup2(slave_fd, i) < 0)
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot use the terminal");
	}
	return 0;
}

void tty_make_job(void)
{
	if (tcgetpgrp(STDIN_FILENO) >= 0 && setpgid(0, 0) == 0)
		(void)tcsetpgrp(STDIN_FILENO, getpid());
}

static int console_error(const char *path, int sys, struct error *err)
{
	(void)error_set(err, ERR_SYSTEM, sys,
			"cannot connect to the socket '%s'", path);
	return error_hint(err, "it is a stream socket that somebody listens "
			       "on before the sandbox is created");
}

int tty_suit_output(int master_fd, struct error *err)
{
	struct termios t;

	if (isatty(STDOUT_FILENO))
		return 0;
	if (tcgetattr(master_fd, &t) < 0)
		return error_set(err, ERR_SYSTEM, errno, "terminal");
	t.c_oflag &= ~(tcflag_t)ONLCR;
	if (tcsetattr(master_fd, TCSANOW, &t) < 0)
		return error_set(err, ERR_SYSTEM, errno, "terminal");
	return 0;
}

int tty_console_connect(const char *path, struct error *err)
{
	auto_close int node = open(path, O_PATH | O_CLOEXEC);
	auto_close int sock = -1;
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	_Static_assert(FD_PATH_MAX <= sizeof(sa.sun_path), "fits");
	if (node < 0)
		return console_error(path, errno, err);
	sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return console_error(path, errno, err);
	/* sun_path is short; the path of the fd is not too long for it. */
	(void)fd_proc_path(node, sa.sun_path);
	if (connect(sock, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return console_error(path, errno, err);
	return take_fd(&sock);
}

int tty_console_send(int sock, int master_fd, struct error *err)
{
	static const char name[] = "/dev/ptmx";
	int r = fd_send(sock, name, sizeof(name) - 1, &master_fd, 1);

	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot hand over the terminal");
	return 0;
}

/* One direction of the relay. */
struct pump {
	int from, to;
	char data[RELAY_BUF];
	size_t start, len;
	char last;   /* the last byte that came in */
	bool eof;    /* nothing more comes in */
	bool closed; /* nothing more can go out */
	bool hung;   /* of a master: nobody has the slave open just now */
};

static void pump_fill(struct pump *p)
{
	ssize_t n = read(p->from, p->data, sizeof(p->data));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	/* The last slave was closed; a process may open it again. */
	if (n < 0 && errno == EIO) {
		p->hung = true;
		return;
	}
	if (n <= 0) {
		p->eof = true;
		return;
	}
	p->start = 0;
	p->len = (size_t)n;
}

static void pump_drain(struct pump *p)
{
	ssize_t n = write(p->to, p->data + p->start, p->len);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0) {
		p->closed = true;
		p->len = 0;
		return;
	}
	p->start += (size_t)n;
	p->len -= (size_t)n;
}

static void copy_size(int from, int to)
{
	struct winsize ws;

	if (ioctl(from, TIOCGWINSZ, &ws) == 0)
		(void)ioctl(to, TIOCSWINSZ, &ws);
}

/* The caller's terminal: as it was, and what we made of it. */
struct raw_mode {
	struct termios saved, raw;
	bool on;
};

static void raw_mode_done(struct raw_mode *m)
{
	int saved = errno;

	if (m->on)
		(void)tcsetattr(0, TCSADRAIN, &m->saved);
	m->on = false;
	errno = saved;
}

static bool is_same_mode(const struct termios *a, const struct termios *b)
{
	return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag &&
	       a->c_cflag == b->c_cflag && a->c_lflag == b->c_lflag &&
	       memcmp(a->c_cc, b->c_cc, sizeof(a->c_cc)) == 0;
}

static void raw_mode_enter(struct raw_mode *m)
{
	struct termios now;

	if (tcgetattr(0, &now) < 0)
		return;
	/* Nobody has put it back since. */
	if (!is_same_mode(&now, &m->raw))
		m->saved = now;
	m->raw = m->saved;
	cfmakeraw(&m->raw);
	/* What the inside prints is cooked by its own terminal. */
	m->on = tcsetattr(0, TCSADRAIN, &m->raw) == 0;
}

/* True also where our terminal is none of a session that we are in. */
static bool is_in_foreground(void)
{
	pid_t group = tcgetpgrp(0);

	return group < 0 || group == getpgrp();
}

enum { ON_IN, ON_MASTER, ON_OUT, ON_PIDFD, ON_SIGNAL, ON_PROMPT, ON_COUNT };

enum {
	PROMPT_DEAF_MS = 300,
	/* The pty hands on what was written with a delay. */
	PROMPT_LAG_MS = 10,
	PROMPT_DRAINS = 64,
};

struct relay {
	struct tty_session s;
	struct raw_mode mode;
	struct pump in, out;
	bool ended; /* the process has */
	bool is_asking;
	int64_t deaf_until_ms;
	/* Of our own terminal, if fd 0 is one. */
	bool has_tty, is_back, was_continued;
	int typed_before; /* bytes that came before raw mode */
	int64_t stops_until_ms, look_at_ms;
};

/*
 * What was typed in a line that was no raw one: an end of file is a byte of 0
 * by now, and is for the inside to take.
 */
static void take_typed(struct relay *r)
{
	if (ioctl(0, FIONREAD, &r->typed_before) < 0)
		r->typed_before = 0;
}

/* At the start, and whenever that may have changed. */
static void look_at_job(struct relay *r)
{
	bool was_back = r->is_back;

	if (!r->has_tty)
		return;
	r->is_back = !is_in_foreground();
	if (r->is_back) {
		/* It is somebody else's now. */
		r->mode.on = false;
		return;
	}
	raw_mode_enter(&r->mode);
	if (was_back)
		take_typed(r);
	copy_size(0, r->s.master_fd);
}

static void forward_signal(struct relay *r)
{
	struct signalfd_siginfo si;

	if (read(r->s.signal_fd, &si, sizeof(si)) != (ssize_t)sizeof(si))
		return;
	if (si.ssi_signo == SIGCONT)
		r->was_continued = true;
	if (si.ssi_signo == SIGWINCH)
		copy_size(0, r->s.master_fd);
	else if (si.ssi_signo != SIGCHLD && si.ssi_signo != SIGPIPE)
		(void)pidfd_signal(r->s.pidfd, (int)si.ssi_signo);
}

static bool wants_input(const struct relay *r)
{
	return !r->is_back && (r->is_asking || (!r->in.eof && r->in.len == 0 &&
						!r->in.closed && !r->ended));
}

static void set_polls(const struct relay *r, struct pollfd p[ON_COUNT])
{
	short master = 0;

	for (int i = 0; i < ON_COUNT; i++)
		p[i] = (struct pollfd){ .fd = -1 };
	if (r->s.prompt && !r->ended)
		p[ON_PROMPT] = (struct pollfd){ .fd = r->s.prompt->fd,
						.events = POLLIN };
	if (wants_input(r))
		p[ON_IN] = (struct pollfd){ .fd = 0, .events = POLLIN };
	if (r->in.len)
		master |= POLLOUT;
	if (!r->out.eof && r->out.len == 0 && !r->out.hung && !r->is_asking)
		master |= POLLIN;
	if (master)
		p[ON_MASTER] = (struct pollfd){ .fd = r->s.master_fd,
						.events = master };
	if (r->out.len)
		p[ON_OUT] = (struct pollfd){ .fd = 1, .events = POLLOUT };
	if (!r->ended)
		p[ON_PIDFD] =
			(struct pollfd){ .fd = r->s.pidfd, .events = POLLIN };
	p[ON_SIGNAL] =
		(struct pollfd){ .fd = r->s.signal_fd, .events = POLLIN };
}

/*
 * A pipe that ends does not end what it was typed into: the inside reads
 * end-of-file from its own terminal, where ^D gives it in an empty line only.
 */
static void end_input(struct pump *p)
{
	char last = p->last;

	if (isatty(p->from))
		return;
	p->start = 0;
	p->len = last && last != '\n' ? 2 : 1;
	p->data[0] = p->data[1] = END_OF_FILE;
}

static void put_ends_back(struct relay *r)
{
	struct pump *p = &r->in;

	for (size_t i = 0; i < p->len && r->typed_before > 0; i++) {
		if (!p->data[i])
			p->data[i] = END_OF_FILE;
		r->typed_before--;
	}
}

/* The key by which the inside stops what is in its foreground. */
static bool has_stop_key(const struct relay *r)
{
	struct termios t;

	return r->s.init && tcgetattr(r->s.master_fd, &t) == 0 &&
	       (t.c_lflag & ISIG) && t.c_cc[VSUSP] &&
	       memchr(r->in.data, t.c_cc[VSUSP], r->in.len);
}

static void fill_input(struct relay *r)
{
	struct pump *p = &r->in;

	pump_fill(p);
	if (p->eof) {
		end_input(p);
		return;
	}
	if (!p->len)
		return;
	put_ends_back(r);
	p->last = p->data[p->len - 1];
	if (has_stop_key(r)) {
		r->stops_until_ms = clock_now_ms() + STOPPED_MS;
		r->look_at_ms = 0;
	}
}

/* In raw mode a line does not begin by itself. */
static void print_raw(const struct buf *b)
{
	auto_(buf) struct buf raw = BUF_INIT;

	for (size_t i = 0; i < b->len; i++) {
		if (b->data[i] == '\n')
			buf_add_char(&raw, '\r');
		buf_add_char(&raw, b->data[i]);
	}
	(void)fd_write_full(1, buf_str(&raw), raw.len);
}

/*
 * What was printed before may have left the terminal in a state in which nobody
 * could read the question: in the middle of a string that it does not show,
 * hidden, in another alphabet or in the colour of the background.
 */
static void print_legibly(const struct buf *b)
{
	static const char reset[] =
		"\030\033\\"	/* CAN, ST: ends what is unfinished */
		"\033[!p\033[m" /* modes, margins and alphabets; the rendition
				 */
		"\033(B\017"
		"\033]104\033\\\033]110\033\\\033]111\033\\"; /* colours */

	(void)fd_write_full(1, reset, sizeof(reset) - 1);
	print_raw(b);
}

/* What was printed before a question was asked stands before it. */
static void drain_output(struct relay *r)
{
	struct pollfd p = { .fd = r->s.master_fd, .events = POLLIN };

	for (int i = 0; i < PROMPT_DRAINS && !r->out.eof && !r->out.hung; i++) {
		if (r->out.len)
			pump_drain(&r->out);
		else if (poll(&p, 1, PROMPT_LAG_MS) == 1)
			pump_fill(&r->out);
		else
			return;
	}
}

/* A question has come, or gone. */
static void ask(struct relay *r)
{
	auto_(buf) struct buf text = BUF_INIT;
	bool was = r->is_asking;

	if (!was)
		drain_output(r);
	r->is_asking = r->s.prompt->show(r->s.prompt->data, &text);
	if (r->is_asking && !was) {
		(void)tcflush(0, TCIFLUSH);
		r->in.len = 0;
		r->deaf_until_ms = clock_now_ms() + PROMPT_DEAF_MS;
		print_legibly(&text);
	} else {
		print_raw(&text);
	}
}

static void take_keys(struct relay *r)
{
	auto_(buf) struct buf text = BUF_INIT;
	char keys[64];
	ssize_t n = read(0, keys, sizeof(keys));

	if (n <= 0) {
		r->in.eof = r->in.eof || n == 0;
		r->is_asking = r->is_asking && n < 0 &&
			       (errno == EINTR || errno == EAGAIN);
		return;
	}
	if (clock_now_ms() < r->deaf_until_ms)
		return;
	/* What was typed behind an answer is not meant for the next one. */
	for (ssize_t i = 0; i < n && r->is_asking; i++)
		r->is_asking =
			r->s.prompt->key(r->s.prompt->data, keys[i], &text);
	print_raw(&text);
	if (!r->is_asking)
		ask(r);
}

static void serve(struct relay *r, const struct pollfd p[ON_COUNT])
{
	if (p[ON_SIGNAL].revents & POLLIN)
		forward_signal(r);
	if (p[ON_PIDFD].revents) {
		r->ended = true;
		r->is_asking = false;
	}
	if (p[ON_PROMPT].revents)
		ask(r);
	if (p[ON_IN].revents && r->is_asking)
		take_keys(r);
	else if (p[ON_IN].revents)
		fill_input(r);
	if (p[ON_MASTER].revents & POLLOUT)
		pump_drain(&r->in);
	if (p[ON_MASTER].revents & (POLLIN | POLLHUP | POLLERR) &&
	    r->out.len == 0 && !r->is_asking)
		pump_fill(&r->out);
	if (p[ON_OUT].revents)
		pump_drain(&r->out);
}

/*
 * The end: the process is gone and what it printed is out. A background
 * process that keeps the slave open does not hold us, hence the limit.
 */
static bool is_over(const struct relay *r, int n_ready)
{
	if (!r->ended)
		return false;
	if (r->out.closed)
		return true;
	return r->out.len == 0 && (r->out.eof || r->out.hung || n_ready == 0);
}

/* ---------------------------------------------------------- job control -- */

/* The job that has stopped in the foreground inside; 0: none. A shell there
 * takes its terminal back, and is none. */
static pid_t stopped_job(const struct relay *r)
{
	pid_t job = r->s.init && !r->is_back ? tcgetpgrp(r->s.master_fd) : 0;
	struct proc_stat st;

	return job > 0 && proc_read_stat(job, &st) == 0 && st.state == 'T' &&
			       st.ppid == r->s.init
		       ? job
		       : 0;
}

/* As the inside has stopped, so do we, with all that is in our job. */
static void stop(struct relay *r, pid_t job)
{
	drain_output(r);
	raw_mode_done(&r->mode);
	(void)kill(0, SIGTSTP);
	/* Continued, or nobody is there who would do that. */
	look_at_job(r);
	(void)kill(-job, SIGCONT);
}

/* -1: nothing is to be looked at. */
static int job_ms(const struct relay *r)
{
	if (!r->has_tty)
		return -1;
	if (r->is_back)
		return BACKGROUND_MS;
	if (!r->s.init)
		return -1;
	return clock_now_ms() < r->stops_until_ms ? STOPPED_SOON_MS
						  : STOPPED_MS;
}

/* Not with each of the bytes that come and go. */
static void mind_jobs(struct relay *r)
{
	int64_t now = clock_now_ms();
	pid_t job;

	if (!r->has_tty || r->ended ||
	    (now < r->look_at_ms && !r->was_continued))
		return;
	if (r->is_back || r->was_continued)
		look_at_job(r);
	r->was_continued = false;
	job = stopped_job(r);
	if (job)
		stop(r, job);
	r->look_at_ms = now + job_ms(r);
}

/* Milliseconds for poll(2); -1 where nothing ends the wait. */
static int poll_timeout(const struct relay *r)
{
	int most = r->out.hung ? HUNG_MS : job_ms(r);
	int64_t left;

	if (r->ended)
		return DRAIN_MS;
	if (r->s.end_ms < 0)
		return most;
	left = r->s.end_ms - clock_now_ms();
	if (left < 0)
		return 0;
	if (most >= 0 && left > most)
		return most;
	return left > INT_MAX ? INT_MAX : (int)left;
}

static void free_relay(struct relay **r)
{
	if (*r)
		raw_mode_done(&(*r)->mode);
	free(*r);
}

int tty_relay(const struct tty_session *s, struct error *err)
{
	__attribute__((cleanup(free_relay))) struct relay *r =
		calloc(1, sizeof(*r));

	if (!r)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot relay the terminal");
	r->s = *s;
	r->in.from = 0;
	r->in.to = s->master_fd;
	r->out.from = s->master_fd;
	r->out.to = 1;
	r->has_tty = isatty(0);
	copy_size(0, s->master_fd);
	look_at_job(r);
	if (r->mode.on)
		take_typed(r);
	for (;;) {
		struct pollfd p[ON_COUNT];
		int n;

		set_polls(r, p);
		n = poll(p, ON_COUNT, poll_timeout(r));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot relay the terminal");
		/* Looked at again: a slave that is opened wakes nobody. */
		r->out.hung = false;
		serve(r, p);
		mind_jobs(r);
		if (!r->ended && poll_timeout(r) == 0)
			return 1;
		if (is_over(r, n))
			return 0;
	}
}
