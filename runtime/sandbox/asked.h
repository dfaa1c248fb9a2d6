/* The questions of running sandboxes, and answers, over their sockets. */
#ifndef SANDLOCK_SANDBOX_ASKED_H
#define SANDLOCK_SANDBOX_ASKED_H

#include "sandbox/sandbox.h"

struct error;
struct json;

/* One, as approval_to_json wrote it. Not 0 ends it and is returned. */
typedef int asked_fn(void *data, const struct json *approval);

struct create;
/* Who is asked: "tty", "socket", "never", or the path of a program. */
const char *ask_by(const struct create *c);

int sandbox_questions(const struct sandbox_env *env, const char *name,
		      asked_fn *fn, void *data, struct error *err);
int sandbox_watch_questions(const struct sandbox_env *env, const char *name,
			    asked_fn *fn, void *data, struct error *err);
int sandbox_decide(const struct sandbox_env *env, const char *name,
		   const char *id, int error, const char *by,
		   const char *reason, struct error *err);

#endif
