/*
 * Mediation: the system calls of a sandbox that its supervisor is told of, and
 * what answers them.
 *
 * One table of features, in mediate.c, decides. A feature says which calls it
 * needs trapped (policy/syscalls.h), from the request alone; if no feature
 * needs any there is no listener, no supervisor and no thread. Those that do
 * are begun once init exists and add rows of handlers (supervise/handler.h).
 *
 *	mediate_decide		in the plan: the traps, for the filter
 *	mediation_begin		init exists, and no payload: features make their
 *				rows; nothing runs yet
 *	mediation_meet_init	while a host command's becomes what it will be
 *	mediation_take		a listener; exec brings more
 *	mediation_wake		the first call waits in it, or there will be
 *				some: the supervisor starts, with its threads
 *	mediation_end		the payload is dead: threads end, all is freed
 *
 * To add a feature: a file mediate_NAME.c with a const struct mediate_feature,
 * declared here, and its address in the table. Its @begin calls
 * mediation_add_row for every system call it asked for, and gives what the
 * rows point to away with mediation_own. Rows of one call form a chain in the
 * order of the table.
 *
 * The filter of a host command is loaded by the launcher, in the process that
 * becomes the payload: neither init nor pid 1 is ever trapped. The launcher
 * says the number of its listener on its status fd and waits until it was
 * taken. A bundle's filter is its own, so it gets a second one, with nothing
 * in it but traps (process.c): init loads it before its identity, and sends
 * the listener. Mediation of a bundle begins with the first call that is
 * trapped, or the first question.
 */
#ifndef SANDLOCK_SANDBOX_MEDIATE_H
#define SANDLOCK_SANDBOX_MEDIATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "supervise/handler.h"

struct asker;
struct create;
struct error;
struct host_context;
struct json_out;
struct mediation;
struct memory;
struct net;
struct object_finder;
struct plan;
struct processes;
struct request;
struct supervisor;

struct mediate_feature {
	const char *flag; /* what asks for it, for messages: "--max-processes"
			   */
	/* Left out with --no-supervisor, which else is refused. */
	bool optional;
	/* Its traps follow from the request alone, on any machine. */
	bool is_asked_for;
	/* A mask of enum syscall_trap, 0: not needed. */
	unsigned int (*traps)(const struct host_context *h);
	/* The same of a bundle; NULL: never. @q is NULL unless a request asks
	 * for the bundle. */
	unsigned int (*bundle_traps)(const struct plan *p,
				     const struct request *q);
	int (*begin)(struct mediation *m, struct error *err);
	/*
	 * Or NULL. @pid is about to execute the payload, and the first to be
	 * trapped; through it the inside can be seen (init hides from an
	 * ordinary user). @state: see mediation_set_state.
	 */
	int (*started)(struct mediation *m, void *state, pid_t pid,
		       struct error *err);
	/* Or NULL. The payload is dead, handlers still run: what they wait for
	 * does not come any more. With a state only. */
	void (*stop)(void *state);
};

extern const struct mediate_feature mediate_refusals;
extern const struct mediate_feature mediate_unreached;
extern const struct mediate_feature mediate_explain;
extern const struct mediate_feature mediate_processes;
extern const struct mediate_feature mediate_memory;
extern const struct mediate_feature mediate_rename;
extern const struct mediate_feature mediate_cow;
extern const struct mediate_feature mediate_network;
extern const struct mediate_feature mediate_metadata;
extern const struct mediate_feature mediate_hosts;
extern const struct mediate_feature mediate_ask;
extern const struct mediate_feature mediate_handlers;

/*
 * Which features are on, as a mask for mediation_begin, and their traps.
 * ERR_USAGE where the request has no_supervisor and needs one.
 */
int mediate_decide(const struct host_context *h, uint32_t *ret_features,
		   unsigned int *ret_traps, struct error *err);
/* The same without a look at the machine. */
int mediate_check(const struct host_context *h, struct error *err);

/*
 * The same for a bundle, into @p. Where it cannot be, nothing is trapped, and
 * p->untrapped says why, if it does not already; but where @q (or NULL) has
 * somebody decide about its calls that is refused: ERR_UNSUPPORTED, ERR_USAGE.
 */
int mediate_decide_bundle(struct plan *p, const struct request *q,
			  struct error *err);
/* The rules of a bundle of which TRAP_NETWORK is trapped. ERR_USAGE,
 * ERR_UNSUPPORTED. */
int mediate_network_of_bundle(struct plan *p, const struct request *q,
			      struct error *err);
/* Whether they can be carried out as its callers would. */
bool mediate_has_network(const struct plan *p);
/* The same without asking whether it can be: it is. */
void mediate_want_bundle(struct plan *p);
/* What the sandbox shares with the host: a mask of enum syscall_when. */
unsigned int mediate_shared(const struct plan *p);

/* For features. What is being made; constant while handlers run. */
const struct create *mediation_create(const struct mediation *m);
int mediation_add_row(struct mediation *m, const struct handler *h,
		      struct error *err);
/* All of @rows, up to the first that fails. */
int mediation_add_rows(struct mediation *m, const struct handler *rows,
		       size_t n, struct error *err);
/*
 * Calls @free_fn on @p after the last handler; also if this fails. NULL is what
 * could not be made for want of memory, which it says then.
 */
int mediation_own(struct mediation *m, void *p, void (*free_fn)(void *),
		  struct error *err);
/* In @begin: what the feature's @started gets. */
void mediation_set_state(struct mediation *m, void *state);
/* Who asks; NULL where nobody has to be asked. For features behind it. */
void mediation_set_asker(struct mediation *m, const struct asker *a);
const struct asker *mediation_asker(const struct mediation *m);
/* How paths are found that somebody is asked about; NULL: as by the kernel.
 * For features once all have begun. */
void mediation_set_finder(struct mediation *m, const struct object_finder *f);
const struct object_finder *mediation_finder(const struct mediation *m);
/* What answers for the ports; NULL without network rules. */
void mediation_set_net(struct mediation *m, struct net *net);
struct net *mediation_net(const struct mediation *m);
/* What keeps those limits, or NULL; live_limits.h. */
void mediation_set_memory(struct mediation *m, struct memory *memory);
struct memory *mediation_memory(const struct mediation *m);
void mediation_set_processes(struct mediation *m, struct processes *p);
struct processes *mediation_processes(const struct mediation *m);
/*
 * The processes that are in the pid namespace of init, without an init of ours,
 * once a listener was taken; @data is a struct create. A processes_list_fn.
 */
int mediation_list(void *data, pid_t **ret, size_t *ret_n);
/* Sends @sig to every process in the sandbox. */
void mediation_signal(const struct mediation *m, int sig);

/* Makes c->mediation where its plan has features. */
int mediation_begin(struct create *c, struct error *err);
/*
 * Of a host command: init has the root and the procfs of what it will start. A
 * caller who may not look at them yet does so when the listener comes.
 */
void mediation_meet_init(struct mediation *m);
/*
 * Takes fd @remote_fd of process @pid, a listener. @pid must be of the
 * sandbox: what is not in its pid namespace is refused. Nothing is answered
 * before mediation_wake. Thread-safe.
 */
int mediation_take(struct mediation *m, pid_t pid, int remote_fd,
		   struct error *err);
/* Takes @fd over, the listener of @pid, which was passed on to us. Thread-safe.
 */
int mediation_take_passed(struct mediation *m, pid_t pid, int fd,
			  struct error *err);
/* A listener that nobody reads from yet, for poll(2); -1: there is none. */
int mediation_idle_fd(struct mediation *m);
/* Starts to answer; does nothing the next time. Thread-safe. */
int mediation_wake(struct mediation *m, struct error *err);
/* What was trapped and how often, as an object; any thread may ask. */
void mediation_calls(const struct mediation *m, struct json_out *o);
/* Waits for handlers that run. NULL is fine. */
void mediation_end(struct mediation *m);

#endif
