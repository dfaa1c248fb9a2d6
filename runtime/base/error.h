/*
 * What went wrong, for a person. A struct error has a fixed size, lives on the
 * caller's stack and never allocates: it works on ENOMEM, after fork, and
 * crosses a pipe in one write.
 *
 *	return error_set(err, ERR_BUNDLE, errno, "cannot open '%s'", path);
 *
 * Thread-safe: no state but the caller's.
 */
#ifndef SANDLOCK_BASE_ERROR_H
#define SANDLOCK_BASE_ERROR_H

#include <stdarg.h>
#include <stddef.h>

enum error_kind {
	ERR_NONE,
	ERR_USAGE,	  /* the request itself is malformed */
	ERR_SYSTEM,	  /* a system call failed */
	ERR_BUNDLE,	  /* the bundle or its config.json is not usable */
	ERR_NAME,	  /* a name that cannot be one */
	ERR_EXISTS,	  /* the name is taken */
	ERR_NOT_FOUND,	  /* no such sandbox or branch */
	ERR_STATE,	  /* the object exists but is in another state */
	ERR_UNSUPPORTED,  /* this kernel, user or build cannot do it */
	ERR_CONFLICT,	  /* the lower changed meanwhile: exit 3 */
	ERR_LOCKED,	  /* lock timeout, nothing was done: exit 75 */
	ERR_TORN,	  /* data on disk cannot be trusted */
	ERR_EXEC_MISSING, /* the program was not found: exit 127 */
	ERR_EXEC_DENIED,  /* the program cannot be executed: exit 126 */
	ERR_HOOK,	  /* an OCI hook failed */
	ERR_TIMEOUT,
};

enum { ERROR_MSG_MAX = 768, ERROR_HINT_MAX = 256 };

struct error {
	enum error_kind kind;
	int sys; /* errno value, 0 if none applies */
	char msg[ERROR_MSG_MAX];
	char hint[ERROR_HINT_MAX];
};

#define ERROR_INIT               \
	{                        \
		.kind = ERR_NONE \
	}

/*
 * Fills @err (may be NULL) and returns -@sys, or -EINVAL where @sys is 0. The
 * text of @sys is appended to the message as ": No such file or directory".
 */
int error_set(struct error *err, enum error_kind kind, int sys, const char *fmt,
	      ...) __attribute__((format(printf, 4, 5)));

/* The same without the text of @sys: the message says it all. */
int error_say(struct error *err, enum error_kind kind, int sys, const char *fmt,
	      ...) __attribute__((format(printf, 4, 5)));

/* Sets the next step a person can take; returns the negative errno of @err. */
int error_hint(struct error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Puts "context: " in front of the message; returns the negative errno. */
int error_wrap(struct error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The negative errno that goes with @err. */
int error_code(const struct error *err);

#endif
