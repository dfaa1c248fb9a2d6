/*
 * The plan: what this kernel and this user will do for a spec, decided before
 * anything is made. Nothing is decided later, nothing degrades silently: what
 * cannot be done is refused here with the reason.
 */
#ifndef SANDLOCK_SANDBOX_PLAN_H
#define SANDLOCK_SANDBOX_PLAN_H

#include <stdbool.h>

#include "base/buf.h"
#include "kernel/netns.h"
#include "policy/net.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

struct request;
struct rundir_slot;
struct sandbox_state;

/* Of tier C: a path, and what may be done with what is there and below. */
struct plan_path {
	char *path;
	unsigned int access; /* a mask of enum landlock_access */
};

/* Of tier C: a directory that is shown in the place of an empty one. */
struct plan_shown {
	char *inside, *host; /* real paths */
	bool read_only;
};

struct plan {
	struct spec *spec; /* owned */
	struct buf config; /* the bytes it was read from */
	char name[256];
	bool privileged;    /* root with CAP_SYS_ADMIN in our user namespace */
	bool initial;	    /* our user namespace is the initial one */
	int new_flags;	    /* CLONE_NEW* for one clone3 */
	struct netns netns; /* made beside the rest, where it has begun */
	bool new_cgroup_ns, new_time_ns; /* made by the child itself */
	bool detour;		     /* namespaces are joined: see spawn.c */
	int join_fds[SPEC_NS_COUNT]; /* -1 where nothing is joined */
	/* It joins a pid namespace where somebody may look into it: beside.h */
	bool beside;
	bool own_pid_ns; /* init's death ends everything inside */
	bool branch;
	/* Maps of the namespace that owns the overlay; empty: ours. */
	struct idmap branch_idmap;
	enum disposition on_exit, on_error;
	const char *storage; /* borrowed from spec or bundle */
	bool durable;
	uint64_t quota_bytes; /* of the branch; 0: none */
	/*
	 * A host command: the root is an empty skeleton, the program runs
	 * under a pid 1 of ours, and the branch lies over @workdirs, which are
	 * mounted where they are.
	 */
	bool host;
	/*
	 * Tier C: no namespace of its own. What it may reach is said by
	 * Landlock rules, the rest by its supervisor, and a guard of ours holds
	 * its processes together.
	 */
	bool notify;
	struct plan_path *paths; /* with @notify */
	size_t n_paths;
	struct plan_shown *shown;
	size_t n_shown;
	struct spec_strings denied; /* real paths that no rule is for */
	struct spec_strings uppers; /* where what goes to the branch is */
	/* Not with --chroot: root.path is it, unless there are workdirs in it.
	 */
	bool skeleton;
	struct spec_strings workdirs; /* real paths inside; none: no branch */
	struct spec_strings lowers;   /* the same on the host */
	char *chroot;		      /* where that differs: by what; or NULL */
	bool cwd_is_wish;     /* the root will do where the cwd is not seen */
	uint64_t timeout_ms;  /* 0: none */
	bool hidden;	      /* no runtime directory, in no list */
	size_t n_refusing;    /* see struct rootfs_options */
	unsigned int traps;   /* for the supervisor: policy/syscalls.h */
	struct net_rules net; /* of a host command, pinned */
	char *hosts;	   /* the text of its /etc/hosts: host_net.c; or NULL */
	uint32_t mediated; /* features of the supervisor: mediate.h; 0: none */
	const char *untrapped; /* why nothing of a bundle is; or NULL */
	/*
	 * A bundle some of whose calls somebody decides about, by a request.
	 * So none may be made before that is possible, nor by what `exec`
	 * starts: what traps is loaded by the launcher, as of a host command.
	 */
	bool judged;
	struct request *asked; /* by annotations of a bundle; or NULL */
};

/* Empty, with what is known of the caller. NULL on ENOMEM. */
struct plan *plan_new(void);
/* Which namespaces are new and which joined, from plan->spec. */
int plan_namespaces(struct plan *p, struct error *err);

/* Adds to plan->paths, copying @path. -ENOMEM. */
int plan_add_path(struct plan *p, const char *path, unsigned int access);
/* True if @path, a real one, may be written and things be made in it. */
bool plan_is_writable(const struct plan *p, const char *path);

/*
 * Reads the bundle and decides; @q asks for it, or NULL. ERR_BUNDLE,
 * ERR_UNSUPPORTED, ERR_USAGE.
 */
int plan_make(const struct sandbox_env *env, const struct sandbox_bundle *b,
	      const struct request *q, struct plan **ret, struct error *err);
/*
 * What was decided for the bundle of @s, again, from what is on record: as far
 * as whoever serves it has to know. @q is that of plan_make. ERR_SYSTEM,
 * ERR_BUNDLE.
 */
int plan_again(const struct rundir_slot *slot, const struct sandbox_state *s,
	       const struct request *q, struct plan **ret, struct error *err);
void plan_free(struct plan *p);
CLEANUP_PTR(struct plan, plan_free);

/* "adjective-noun", at random; @attempt > 8 adds digits. */
void plan_make_name(char ret[256], unsigned int attempt);

/*
 * The fds 3 .. 2+@n must be open, and so before anything of ours is, which the
 * payload would get else.
 */
int plan_check_preserved(unsigned int n, struct error *err);

/* True for root with CAP_SYS_ADMIN in the user namespace we are in. */
bool caller_is_privileged(void);

#endif
