/* Pseudo-terminals: opened inside, handed out, relayed. */
#ifndef SANDLOCK_KERNEL_TTY_H
#define SANDLOCK_KERNEL_TTY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;
struct error;

/*
 * Opens a pty pair on the devpts instance whose ptmx is @ptmx_fd-relative
 * "ptmx" below @devpts_dirfd; the slave by TIOCGPTPEER, never by name.
 * width/height 0: left alone.
 */
int tty_open_pair(int devpts_dirfd, uint16_t width, uint16_t height,
		  int *ret_master_fd, int *ret_slave_fd, struct error *err);

/* The same on the devpts of the host, by /dev/ptmx. */
int tty_open_host_pair(uint16_t width, uint16_t height, int *ret_master_fd,
		       int *ret_slave_fd, struct error *err);

/*
 * What is relayed goes to a terminal that makes CR LF of newlines itself, or
 * to a file or pipe (our fd 1) that wants none: for the latter the pty is told
 * to leave newlines as they are, before anything is printed.
 */
int tty_suit_output(int master_fd, struct error *err);

/* New session, controlling terminal, fds 0 to 2. */
int tty_make_controlling(int slave_fd, struct error *err);
/* The last alone. */
int tty_use(int slave_fd, struct error *err);

/*
 * If fd 0 is the terminal of our session, we are a job in its foreground from
 * now on, and one that a key can stop: its parent is in another group. All
 * signals are blocked. The launcher does the same for pid 1.
 */
void tty_make_job(void);

/*
 * Connects to the AF_UNIX stream socket at @path (any length, through
 * /proc/self/fd) and returns it: early, before anything is made.
 */
int tty_console_connect(const char *path, struct error *err);
/* Sends the master with the payload "/dev/ptmx" (engine contract). */
int tty_console_send(int sock, int master_fd, struct error *err);

/*
 * A question that is put on our terminal while it is relayed. Meanwhile what
 * the inside prints waits, and keys are the question's: those that were typed
 * before it appeared are dropped, and so are those of the first 300 ms.
 */
struct tty_prompt {
	int fd; /* can be read when there may be something to ask */
	/* Appends what is to be printed; true while there is a question. */
	bool (*show)(void *data, struct buf *text);
	bool (*key)(void *data, char key, struct buf *text);
	void *data;
};

struct tty_session {
	int master_fd, pidfd; /* of the process behind it */
	/* A signalfd for what is to be forwarded to @pidfd, SIGWINCH and
	 * SIGCONT among it, or -1. */
	int signal_fd;
	int64_t end_ms; /* CLOCK_MONOTONIC; -1: never */
	/* The process whose children are the jobs of the terminal inside, so
	 * that we stop when one of them has stopped in its foreground; 0. */
	pid_t init;
	const struct tty_prompt *prompt; /* or NULL */
};

/*
 * Copies between our terminal (fds 0 and 1) and the master until the process
 * has ended and its output is drained. Raw mode while we are in the foreground
 * of our terminal, put back on every way out and while we are stopped; in the
 * background nothing is read from it. Returns 1 at @end_ms if the process still
 * runs, else 0. By the main thread.
 */
int tty_relay(const struct tty_session *s, struct error *err);

#endif
