/*
 * What everything here needs: versions, errors, where things are, and what
 * became of a run and of its branch.
 */
#ifndef LIBSANDLOCK_BASE_H
#define LIBSANDLOCK_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is declared between these is C, and what the library exports. */
#ifdef __cplusplus
#define SANDLOCK_BEGIN \
	extern "C" {   \
	_Pragma("GCC visibility push(default)")
#define SANDLOCK_END                  \
	_Pragma("GCC visibility pop") \
	}
#else
#define SANDLOCK_BEGIN _Pragma("GCC visibility push(default)")
#define SANDLOCK_END _Pragma("GCC visibility pop")
#endif

SANDLOCK_BEGIN

#define SANDLOCK_VERSION "0.1.0"
const char *sandlock_version(void);
/* "2.5.4": the libseccomp this library was built with. */
const char *sandlock_libseccomp_version(void);

enum sandlock_error_kind {
	SANDLOCK_ERR_NONE,
	SANDLOCK_ERR_USAGE,
	SANDLOCK_ERR_SYSTEM,
	SANDLOCK_ERR_BUNDLE,
	SANDLOCK_ERR_NAME,
	SANDLOCK_ERR_EXISTS,
	SANDLOCK_ERR_NOT_FOUND,
	SANDLOCK_ERR_STATE,
	SANDLOCK_ERR_UNSUPPORTED,
	SANDLOCK_ERR_CONFLICT,
	SANDLOCK_ERR_LOCKED,
	SANDLOCK_ERR_TORN,
	SANDLOCK_ERR_EXEC_MISSING,
	SANDLOCK_ERR_EXEC_DENIED,
	SANDLOCK_ERR_HOOK,
	SANDLOCK_ERR_TIMEOUT,
};

struct sandlock_error {
	enum sandlock_error_kind kind;
	int sys;	/* errno value or 0 */
	char msg[768];	/* lower case, one line, no full stop */
	char hint[256]; /* the next step, or "" */
};

enum sandlock_log_level {
	SANDLOCK_LOG_ERROR,
	SANDLOCK_LOG_WARNING,
	SANDLOCK_LOG_INFO,
	SANDLOCK_LOG_DEBUG,
};

/*
 * Where things are, and who is told of warnings. Zero-initialise it; NULL
 * means the default. Borrowed by every call for as long as it runs.
 */
struct sandlock_env {
	/* Runtime directory; default /dev/shm/sandlock-<uid>, or
	 * $SANDLOCK_ROOT. */
	const char *root;
	/* Default branch store; default /var/lib/sandlock (root),
	 * $XDG_STATE_HOME/sandlock, or $SANDLOCK_STORE. */
	const char *store;
	/* The sandlock program, for the waiter; default: the running program
	 * if it is sandlock, else the installed one. */
	const char *program;
	void (*log)(void *data, enum sandlock_log_level level, const char *msg);
	void *log_data;
	/* A watch (sandlock_watch_...) ends, with -ECANCELED, once this one
	 * can be read or its other end is closed; NULL: nothing ends it. */
	const int *stop_fd;
	/* Sandboxes that a process of their own serves say what only helps to
	 * find a fault, too (SANDLOCK_LOG_DEBUG): each line wakes the caller.
	 */
	bool log_debug;
};

enum sandlock_disposition {
	SANDLOCK_UNSAID = -1,
	SANDLOCK_COMMIT,
	SANDLOCK_ABORT,
	SANDLOCK_KEEP,
	SANDLOCK_DEFER,
};

enum sandlock_exit_kind {
	SANDLOCK_EXIT_UNKNOWN,
	SANDLOCK_EXIT_CODE,
	SANDLOCK_EXIT_SIGNAL,
	SANDLOCK_EXIT_TIMEOUT,
	/* Killed (exit_value: SIGKILL), or had ended, when its branch took more
	 * than its quota. */
	SANDLOCK_EXIT_QUOTA,
};

enum sandlock_outcome {
	SANDLOCK_OUTCOME_NONE, /* there was no branch */
	SANDLOCK_OUTCOME_PENDING,
	SANDLOCK_OUTCOME_COMMITTED,
	SANDLOCK_OUTCOME_ABORTED,
	SANDLOCK_OUTCOME_EMPTY, /* nothing was changed, nothing is kept */
};

struct sandlock_result {
	enum sandlock_exit_kind exit_kind;
	int exit_value; /* exit code or signal number */
	enum sandlock_outcome outcome;
	size_t n_changes;
	/* Why an automatic disposition was not carried out, kind NONE if it
	 * was. */
	struct sandlock_error outcome_error;
	char name[256];
	/* With SANDLOCK_EXIT_QUOTA: the quota, and what was found to be used at
	 * least; 0: that could not be counted. */
	uint64_t quota_bytes, quota_used;
};

SANDLOCK_END

#endif
