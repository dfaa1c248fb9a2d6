/*
 * state.json of a sandbox: what its verbs have to know, written by create and
 * read by everybody else. config.json beside it is the configuration as it was
 * at create; later edits of the bundle do not matter.
 */
#ifndef SANDLOCK_SANDBOX_STATE_H
#define SANDLOCK_SANDBOX_STATE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "control/rundir.h"
#include "kernel/pidfd.h"
#include "spec/spec.h"

struct buf;
struct cgroup;
struct error;
struct log_sink;
struct spec;

enum sandbox_status {
	STATUS_CREATING,
	STATUS_CREATED,
	STATUS_RUNNING,
	STATUS_PAUSED,
	STATUS_STOPPED,
};
const char *sandbox_status_name(enum sandbox_status s);

struct sandbox_state {
	char *name, *bundle, *rootfs;
	struct spec_strings workdirs; /* of a host command */
	char *created;		      /* RFC 3339, UTC */
	char *command; /* words with blanks between them, or NULL */
	uid_t owner;
	struct proc_id init;
	char boot_id[BOOT_ID_LEN + 1];
	bool ready;	/* create has finished */
	bool ephemeral; /* a foreground run: goes with the process it serves */
	bool host;	/* a host command: init is a pid 1 of ours */
	bool notify;	/* tier C: init is a guard, see guard.c */
	char *scratch;	/* its TMPDIR, which goes with it; or NULL */
	bool pid_ns;	/* init's death ends everything */
	bool trapped;	/* a bundle's calls: its server is told of them */
	/* A bundle's that somebody decides about: enum syscall_trap, and what
	 * an embedder handles. */
	unsigned int judged;
	struct spec_strings handled;
	bool remaps;	       /* ports are remapped: its server says which */
	char *store;	       /* store of its branch, or NULL: none */
	struct cgroup *cgroup; /* or NULL */
};

int state_write(struct rundir_slot *slot, const struct sandbox_state *s,
		struct error *err);
/* ERR_STATE where the file is missing (create has not come that far). */
int state_read(const struct rundir_slot *slot, struct sandbox_state **ret,
	       struct error *err);
void state_free(struct sandbox_state *s);
CLEANUP_PTR(struct sandbox_state, state_free);

/* True if init exists, of this boot. */
bool state_is_alive(const struct sandbox_state *s);
enum sandbox_status state_status(const struct rundir_slot *slot,
				 const struct sandbox_state *s);

/* Freezes its cgroup, or thaws it. */
int state_pause(const struct sandbox_state *s, enum sandbox_status status,
		bool pause, struct error *err);

/* All processes of one that runs; malloc'ed, NULL where there are none. */
int state_pids(const struct sandbox_state *s, pid_t **ret, size_t *ret_n,
	       struct error *err);

/* The configuration as it was at create. */
int state_load_spec(const struct rundir_slot *slot,
		    const struct sandbox_state *s, const struct log_sink *log,
		    struct spec **ret, struct error *err);

/* The state JSON of the specification; @pid as its reader sees init. */
int state_to_json(const struct sandbox_state *s, const struct spec *spec,
		  const char *status, pid_t pid, bool pretty, struct buf *ret,
		  struct error *err);

/* The ContainerProcessState for a seccomp agent; @pid has the filter. */
int state_to_seccomp_json(const struct sandbox_state *s,
			  const struct spec *spec, pid_t pid, struct buf *ret,
			  struct error *err);

/* "2026-11-29T15:04:05.123456789Z" */
int state_now(char **ret);

#endif
