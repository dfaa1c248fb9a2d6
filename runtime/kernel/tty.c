#include "kernel/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
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

/* The caller's terminal, as it was. */
struct raw_mode {
	struct termios saved;
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

static void raw_mode_enter(struct raw_mode *m)
{
	struct termios raw;

	if (!isatty(0) || tcgetattr(0, &m->saved) < 0)
		return;
	raw = m->saved;
	cfmakeraw(&raw);
	/* What the inside prints is cooked by its own terminal. */
	m->on = tcsetattr(0, TCSADRAIN, &raw) == 0;
}

enum { ON_IN, ON_MASTER, ON_OUT, ON_PIDFD, ON_SIGNAL, ON_PROMPT, ON_COUNT };

enum {
	PROMPT_DEAF_MS = 300,
	/* The pty hands on what was written with a delay. */
	PROMPT_LAG_MS = 10,
	PROMPT_DRAINS = 64,
};

struct relay {
	int master_fd, pidfd, signal_fd;
	struct pump in, out;
	bool ended; /* the process has */
	const struct tty_prompt *prompt;
	bool is_asking;
	int64_t deaf_until_ms;
};

static void forward_signal(struct relay *r)
{
	struct signalfd_siginfo si;

	if (read(r->signal_fd, &si, sizeof(si)) != (ssize_t)sizeof(si))
		return;
	if (si.ssi_signo == SIGWINCH)
		copy_size(0, r->master_fd);
	else if (si.ssi_signo != SIGCHLD && si.ssi_signo != SIGPIPE)
		(void)pidfd_signal(r->pidfd, (int)si.ssi_signo);
}

static void set_polls(const struct relay *r, struct pollfd p[ON_COUNT])
{
	short master = 0;

	for (int i = 0; i < ON_COUNT; i++)
		p[i] = (struct pollfd){ .fd = -1 };
	if (r->prompt && !r->ended)
		p[ON_PROMPT] = (struct pollfd){ .fd = r->prompt->fd,
						.events = POLLIN };
	if (r->is_asking ||
	    (!r->in.eof && r->in.len == 0 && !r->in.closed && !r->ended))
		p[ON_IN] = (struct pollfd){ .fd = 0, .events = POLLIN };
	if (r->in.len)
		master |= POLLOUT;
	if (!r->out.eof && r->out.len == 0 && !r->out.hung && !r->is_asking)
		master |= POLLIN;
	if (master)
		p[ON_MASTER] =
			(struct pollfd){ .fd = r->master_fd, .events = master };
	if (r->out.len)
		p[ON_OUT] = (struct pollfd){ .fd = 1, .events = POLLOUT };
	if (!r->ended)
		p[ON_PIDFD] =
			(struct pollfd){ .fd = r->pidfd, .events = POLLIN };
	p[ON_SIGNAL] = (struct pollfd){ .fd = r->signal_fd, .events = POLLIN };
}

/*
 * A pipe that ends does not end what it was typed into: the inside reads
 * end-of-file from its own terminal, where ^D gives it in an empty line only.
 */
static void fill_input(struct pump *p)
{
	char last = p->last;

	pump_fill(p);
	if (!p->eof) {
		if (p->len)
			p->last = p->data[p->len - 1];
		return;
	}
	if (isatty(p->from))
		return;
	p->start = 0;
	p->len = last && last != '\n' ? 2 : 1;
	p->data[0] = p->data[1] = END_OF_FILE;
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
	struct pollfd p = { .fd = r->master_fd, .events = POLLIN };

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
	r->is_asking = r->prompt->show(r->prompt->data, &text);
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
		r->is_asking = r->prompt->key(r->prompt->data, keys[i], &text);
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
		fill_input(&r->in);
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

/* Milliseconds for poll(2); -1 where nothing ends the wait. */
static int poll_timeout(const struct relay *r, int64_t end_ms)
{
	int64_t left;

	if (r->ended)
		return DRAIN_MS;
	if (end_ms < 0)
		return r->out.hung ? HUNG_MS : -1;
	left = end_ms - clock_now_ms();
	if (left < 0)
		return 0;
	if (r->out.hung && left > HUNG_MS)
		return HUNG_MS;
	return left > INT_MAX ? INT_MAX : (int)left;
}

int tty_relay(int master_fd, int pidfd, int signal_fd, int64_t end_ms,
	      const struct tty_prompt *prompt, struct error *err)
{
	auto_(raw_mode) struct raw_mode mode = { .on = false };
	auto_free struct relay *r = calloc(1, sizeof(*r));

	if (!r)
		return error_set(err, ERR_SYSTEM, ENOMEM,
				 "cannot relay the terminal");
	r->master_fd = master_fd;
	r->pidfd = pidfd;
	r->signal_fd = signal_fd;
	r->prompt = prompt;
	r->in.from = 0;
	r->in.to = master_fd;
	r->out.from = master_fd;
	r->out.to = 1;
	copy_size(0, master_fd);
	raw_mode_enter(&mode);
	for (;;) {
		struct pollfd p[ON_COUNT];
		int n;

		set_polls(r, p);
		n = poll(p, ON_COUNT, poll_timeout(r, end_ms));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(err, ERR_SYSTEM, errno,
					 "cannot relay the terminal");
		/* Looked at again: a slave that is opened wakes nobody. */
		r->out.hung = false;
		serve(r, p);
		if (!r->ended && poll_timeout(r, end_ms) == 0)
			return 1;
		if (is_over(r, n))
			return 0;
	}
}
