/*
 * A process that is not confused with another one: pid, start time and boot
 * id, or a pidfd. Thread-safe.
 */
#ifndef SANDLOCK_KERNEL_PIDFD_H
#define SANDLOCK_KERNEL_PIDFD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_id {
	pid_t pid;	     /* 0: none */
	uint64_t start_time; /* field 22 of /proc/PID/stat, clock ticks */
};

enum exit_kind {
	EXIT_UNKNOWN,
	EXIT_CODE,
	EXIT_SIGNAL,
	EXIT_TIMEOUT,
	EXIT_QUOTA /* its branch took more than it may */
};

struct exit_status {
	enum exit_kind kind;
	int value; /* exit code or signal number */
};

enum { BOOT_ID_LEN = 36 };

/* /proc/sys/kernel/random/boot_id, NUL-terminated. */
int proc_boot_id(char ret[BOOT_ID_LEN + 1]);

/* Fields of /proc/PID/stat, parsed behind the last ')'. -ESRCH if gone. */
struct proc_stat {
	char state;
	pid_t ppid;
	uint64_t start_time;
	int exit_code;	  /* field 52, wait(2) format, valid while a zombie */
	uint64_t threads; /* of its process, with itself */
	int cpu;	  /* where it runs, or ran last */
	bool is_exiting;  /* the kernel ends it, or has */
};
int proc_read_stat(pid_t pid, struct proc_stat *ret);
/* A process whose leader has ended lives on with its other threads. */
bool proc_has_ended(const struct proc_stat *st);
int proc_id_of(pid_t pid, struct proc_id *ret);

/* True if that very process exists and is no zombie. */
bool proc_is_alive(const struct proc_id *id);

/* pidfd of that very process, or -ESRCH. */
int pidfd_open_id(const struct proc_id *id);
int pidfd_open_pid(pid_t pid);
int pidfd_signal(int pidfd, int sig);

/*
 * Waits until the process has ended (@timeout_ms -1: for ever). 1 ended,
 * 0 timeout, or a negative errno. Needs not be the parent.
 */
int pidfd_wait(int pidfd, int timeout_ms);

/*
 * The status of a process that has ended, whoever its parent is: by waitid
 * where it is our child (reaps it), else PIDFD_INFO_EXIT (6.15), else field 52
 * of /proc/PID/stat while it is a zombie, else EXIT_UNKNOWN.
 */
void pidfd_exit_status(int pidfd, pid_t pid, struct exit_status *ret);

/* From wait(2)'s status word. */
struct exit_status exit_status_from_wait(int status);

#endif
