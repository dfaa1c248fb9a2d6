/*
 * A bundle that a request asks for (request.bundle), rather than the options of
 * runc: what an embedder makes, and who decides about its calls. Its
 * config.json says what it may do, the request who is asked and what becomes of
 * the branch.
 */
#ifndef SANDLOCK_SANDBOX_ASKED_BUNDLE_H
#define SANDLOCK_SANDBOX_ASKED_BUNDLE_H

struct command_options;
struct error;
struct plan;
struct sandbox_bundle;
struct sandbox_env;

/*
 * request -> options and plan; refuses what cannot be done. @b borrows from
 * o->request.
 */
int asked_bundle_plan(const struct sandbox_env *env,
		      const struct command_options *o, struct sandbox_bundle *b,
		      struct plan **ret, struct error *err);

#endif
