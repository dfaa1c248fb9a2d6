/* What the files of the public API share. */
#ifndef SANDLOCK_API_H
#define SANDLOCK_API_H

#include "base/error.h"
#include "base/log.h"
#include "branch/change.h"
#include "sandbox/sandbox.h"
#include "sandlock.h"
#include "supervise/denials.h"

/* What the library exports; libsandlock.map, too, lets nothing else out. */
#define API __attribute__((visibility("default")))

struct api_env {
	struct sandbox_env env;
	struct log_sink sink;
};

struct request;
struct sandlock_request {
	struct request *request;
	sandlock_change_fn *on_change;
	void *data;
	sandlock_denial_fn *on_denial;
	void *denial_data;
	struct sandbox_bundle bundle;
	bool has_bundle;
};

/* A change of ours as one of the API's, handed on. */
struct api_changes {
	sandlock_change_fn *fn;
	void *data;
};
int api_forward_change(void *data, const struct change *c);

void api_result_of(const struct sandbox_result *from,
		   struct sandlock_result *to);

/* The same for what was refused. */
struct api_denials {
	sandlock_denial_fn *fn;
	void *data;
};
int api_forward_denial(void *data, const struct denial_record *r);

/* @env may be NULL; borrowed by @a. */
void api_env_init(struct api_env *a, const struct sandlock_env *env);
/* Fills @to (may be NULL) from @from where @r is negative; returns @r. */
int api_result(int r, const struct error *from, struct sandlock_error *to);

#endif
