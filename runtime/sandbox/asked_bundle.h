/*
 * A bundle that a request asks for (request.bundle), rather than the options of
 * runc: what an embedder makes, and who decides about its calls. Its
 * config.json says what it may do, the request who is asked and what becomes of
 * the branch.
 */
#ifndef SANDLOCK_SANDBOX_ASKED_BUNDLE_H
#define SANDLOCK_SANDBOX_ASKED_BUNDLE_H

struct command_options;
struct create;
struct error;
struct plan;
struct request;
struct rundir_slot;
struct sandbox_bundle;
struct sandbox_env;
struct spec;

/*
 * request -> options and plan; refuses what cannot be done. @b borrows from
 * o->request.
 */
int asked_bundle_plan(const struct sandbox_env *env,
		      const struct command_options *o, struct sandbox_bundle *b,
		      struct plan **ret, struct error *err);

/*
 * The annotations io.sandlock.ask.*: *@ret stays NULL where there are none.
 * What config.json asks for is answered on the control socket and by no program
 * of the host, which hooks may name and those who may only annotate may not.
 */
int asked_bundle_annotated(const struct spec *s, struct request **ret,
			   struct error *err);

/* Makes the plan of c->bundle, and c->command of what it asks for. */
int asked_bundle_decide(struct create *c, struct error *err);

/*
 * A request, in a runtime directory, for the waiter of what was created. NULL
 * is none, and none is NULL.
 */
int asked_bundle_write(const struct rundir_slot *slot, const struct request *q,
		       struct error *err);
int asked_bundle_read(const struct rundir_slot *slot, struct request **ret,
		      struct error *err);

#endif
