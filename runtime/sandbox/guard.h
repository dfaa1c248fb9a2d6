/*
 * What guard.c, guard_exec.c and exec_guard.c share: how a process gets into a
 * sandbox of tier C.
 *
 * No namespace can be joined there. What holds the processes is that they
 * descend from the guard, so the guard clones those of `exec`, too:
 *
 *	exec		makes two pairs of sockets, writes a struct join_request
 *			with the fds of enum join_fd to the first one, and gives
 *			its other end to the supervisor: "join"
 *	supervisor	gives it to the guard
 *	guard		clones, and keeps the status socket: it writes the wait
 *			status there, and kills the process when exec is gone
 *	the process	does on the first socket what any other of exec does:
 *			PID, ERROR or READY, the listener, an errno
 */
#ifndef SANDLOCK_SANDBOX_GUARD_H
#define SANDLOCK_SANDBOX_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct create;
struct error;
struct process_setup;

enum { JOIN_MAGIC = 0x6a6f696e, JOIN_VERSION = 1 };

struct join_request {
	uint32_t magic, version;
	uint32_t is_detached;
};

enum join_fd {
	JOIN_STATUS,
	JOIN_WORDS, /* a file: "key\0value\0" of what was asked for */
	JOIN_IN,
	JOIN_OUT,
	JOIN_ERR,
	JOIN_FDS
};

struct guest {
	pid_t pid;
	int status_fd; /* -1: nobody waits for it */
};

/* In the guard: clones what the request at @sock (closed) asks for. */
int guest_begin(struct create *c, int sock, struct guest *ret);

/* For the process that is cloned. Not clone3, which filters of containers do
 * not allow. */
pid_t guard_clone(unsigned long flags);
void guard_die(int sock, const struct error *err) __attribute__((noreturn));
/* Up to READY, and the answer to it. */
void guard_prepare(const struct create *c, struct process_setup *s, int sock);
/*
 * Loads the filter and writes the number of its listener to @tell_fd; executes
 * once a byte has come from @sock, which gets an errno if that fails.
 */
void guard_execute(const struct create *c, struct process_setup *s, int sock,
		   int tell_fd) __attribute__((noreturn));

#endif
