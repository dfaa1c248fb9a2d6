/*
 * Which system calls a host command may not make, and which of them its
 * supervisor is told of: one table, read by the filter, by `check --syscalls`
 * and by the manual page sandlock-syscalls(7). Pure: no I/O, thread-safe.
 *
 * What is not in the table is allowed: a filter for any command of the host
 * cannot know what it will need. Namespaces, Landlock and capabilities hold
 * without the filter; it takes away what would work around them, and kernel
 * interfaces that no build or test needs.
 */
#ifndef SANDLOCK_POLICY_SYSCALLS_H
#define SANDLOCK_POLICY_SYSCALLS_H

#include <stdbool.h>
#include <stddef.h>

#include "spec/spec.h"

struct error;
struct json_out;
struct request;

enum syscall_group {
	SYSCALLS_NAMESPACE,
	SYSCALLS_MOUNT,
	SYSCALLS_KERNEL,
	SYSCALLS_CLOCK,
	SYSCALLS_DEBUG,
	SYSCALLS_KEYS,
	SYSCALLS_HANDLES,
	SYSCALLS_IO_URING,
	SYSCALLS_SYSV_IPC,
	SYSCALLS_PROCESS,
	SYSCALLS_TERMINAL,
	SYSCALLS_NETWORK,
	SYSCALLS_GROUPS
};

struct syscall_group_row {
	const char *name; /* as --extra-allow-syscall takes it */
	bool optional; /* a user may allow it: no other layer needs it gone */
	const char *why;
};
extern const struct syscall_group_row syscall_groups[SYSCALLS_GROUPS];

/* When a row holds. */
enum syscall_when {
	SYSCALL_ALWAYS = 0,
	/* What is shared with the host, as masks for the functions below. */
	SYSCALL_SHARED_NETWORK = 1 << 0, /* its network namespace */
	SYSCALL_SHARED_ALL = 1 << 1,	 /* all of its namespaces: tier C */
	/* Of no row: somebody decides about the network of a bundle. */
	SYSCALL_JUDGED_NETWORK = 1 << 2,
};

struct syscall_row {
	const char *name;
	enum syscall_group group;
	int error;
	/* Where given, only such calls: several conditions on one argument are
	 * "or", conditions on several arguments are "and". */
	const struct spec_seccomp_arg *args;
	size_t n_args;
	const char *what; /* the conditions in words, or NULL */
	enum syscall_when when;
};
extern const struct syscall_row syscall_rows[];
extern const size_t syscall_rows_len;

/* What a supervisor asks to be told of; a mask. */
enum syscall_trap {
	TRAP_RENAME = 1 << 0,  /* renames, which may be EXDEV in a branch */
	TRAP_NETWORK = 1 << 1, /* where connections and messages go */
	TRAP_BIND = 1 << 2,    /* ports and names that are bound */
	TRAP_PORTS = 1 << 3,   /* names of sockets, for remapped ports */
	TRAP_FORK = 1 << 4,    /* new processes, not threads */
	TRAP_EXEC = 1 << 5,    /* programs that are executed */
	TRAP_OPEN = 1 << 6,    /* files that are opened */
	/*
	 * What the table refuses, so that it can be put on record: the
	 * supervisor answers with the row's errno (supervise/refuse.h). But
	 * for ENOSYS, which is no refusal: libc tries another call then.
	 */
	TRAP_DENIED = 1 << 7,
	TRAP_CONNECT = 1 << 8,	 /* connections alone, for the record */
	TRAP_MEMORY = 1 << 9,	 /* memory that is no process's */
	TRAP_HANDLED = 1 << 10,	 /* what an embedder handles: request.handled */
	TRAP_OPENER = 1 << 11,	 /* what changes how a caller opens */
	TRAP_METADATA = 1 << 12, /* owners, modes, times, attributes of files */
	TRAP_TASKS = 1 << 13,	 /* how a process named by number is run */
	TRAP_COW = 1 << 14,	 /* files of a branch that is not mounted */
	TRAP_OWN_BIND = 1 << 15, /* bind alone, in a network of its own rules */
};

/* Whether extra_allow and extra_deny name what can be allowed and denied. */
int policy_check_names(const struct request *r, struct error *err);

/*
 * Fills @ret, which is empty: the table with the request's extra_deny and
 * without its extra_allow, and SCMP_ACT_NOTIFY for @traps (enum syscall_trap).
 * Only the native system calls of the machine exist in it: x32 and 32-bit
 * calls kill. ERR_USAGE for a group that must stay, or a name that is none.
 * Freed by spec_seccomp_done.
 */
int policy_filter(const struct request *r, unsigned int traps,
		  unsigned int shared, struct spec_seccomp *ret,
		  struct error *err);

/* Whether somebody decides about calls of what @r asks for: handlers, or who is
 * asked about files, programs and destinations. */
bool policy_is_judged(const struct request *r);

/*
 * The same for a bundle, which has a filter of its own beside it:
 * SCMP_ACT_NOTIFY for @traps, and what would get past them is refused, where it
 * is not handled: io_uring, namespaces, where files or programs are decided
 * about mounts and handles, and where the network is, sockets that no rule can
 * judge. All else passes. ERR_SYSTEM.
 */
int policy_trap_filter(const struct request *r, unsigned int traps,
		       struct spec_seccomp *ret, struct error *err);

/*
 * The filter for a thread that stays where it is, without a supervisor: sockets
 * other than AF_UNIX are refused too.
 */
int policy_thread_filter(const struct request *r, struct spec_seccomp *ret,
			 struct error *err);

/*
 * Why a call that policy_filter refuses is refused: by a row of the table, or
 * by name, the value of "syscalls.extra_deny".
 */
struct syscall_refusal {
	const struct syscall_row *row; /* or NULL */
	const char *extra;	       /* borrowed from the request, or NULL */
	int error;
};

/*
 * Judges @name with @args as the filter of the same request does, ours that is:
 * a bundle may have another one. False: it is not refused. Without @args, by
 * name: the first row that could refuse it.
 */
bool policy_refusal(const struct request *r, unsigned int shared,
		    const char *name, const uint64_t *args,
		    struct syscall_refusal *ret);

/* True if one of @traps but TRAP_DENIED traps some calls of @name. */
bool policy_is_trapped(const struct request *r, const char *name,
		       unsigned int traps);

/* The calls that @traps trap, but for TRAP_DENIED, as a JSON array of names. */
void policy_traps_json(const struct request *r, unsigned int traps,
		       struct json_out *o);

/*
 * Whether an embedder may handle @name: ERR_USAGE, with why not, or with the
 * name that may have been meant.
 */
int policy_check_handled(const struct request *r, unsigned int shared,
			 const char *name, struct error *err);
/* This machine's; -1: none of that name. */
int policy_syscall_number(const char *name);
/* malloc'ed; NULL: none of that number. */
char *policy_syscall_name(int nr);

/*
 * Of the 32-bit programs that run on this machine: their AUDIT_ARCH_*, 0 where
 * there are none, and what number a call has there, or -1.
 */
uint32_t policy_arch_32(void);
int policy_syscall_number_32(const char *name);

/*
 * The calls that @traps trap as numbers, for traps that do not look at
 * arguments; at most @max of them. How many there are. And of 32-bit programs.
 */
size_t policy_trap_numbers(unsigned int traps, int *ret, size_t max);
size_t policy_trap_numbers_32(unsigned int traps, int *ret, size_t max);

/* The table as a JSON array of objects. */
void policy_syscalls_json(struct json_out *o);

#endif
