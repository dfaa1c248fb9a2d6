/*
 * Host commands: `sandlock run -- CMD`. A request becomes a config.json of the
 * same kind that bundles have, so that all that is built for bundles serves
 * here too; what is different is in the plan: an empty root with what may be
 * seen mounted into it, a pid 1 of ours, and a branch over the directory that
 * is worked in.
 *
 *	host_check	refuses what cannot be on any machine
 *	host_plan	request -> plan; refuses what cannot be done here
 *	host_config	request -> config.json (host_config.c, host_view.c)
 */
#ifndef SANDLOCK_SANDBOX_HOST_H
#define SANDLOCK_SANDBOX_HOST_H

#include <limits.h>
#include <stdbool.h>

#include "base/json.h"
#include "policy/net.h"
#include "sandbox/plan.h"
#include "spec/request.h"

/* What host_config has to know besides the request. */
struct host_context {
	const struct request *request;
	bool privileged, initial; /* as in struct plan */
	bool notify;		  /* tier C: host_tier.c */
	bool terminal;
	const char *name;
	char *cwd; /* path inside where the command starts */
	/* Real paths of the branch's lowers; a directory before what is in
	 * it, but the first is the first that was given. */
	struct spec_strings workdirs;
	char *chroot;		 /* real path of what --chroot says, or NULL */
	const char *home;	 /* of the caller, or NULL */
	struct idmap idmap;	 /* empty for root */
	struct spec_strings env; /* of the command */
	/* What host_config wrote, byte by byte: destination and source of each
	 * mount, and each mask. */
	struct spec_strings mount_bytes, mask_bytes;
	size_t n_refusing;   /* the last of the masks: --fs-deny */
	unsigned int traps;  /* what the supervisor is told of */
	bool shared_network; /* of the host, by these rules: */
	struct net_rules net;
	char *hosts; /* text of the sandbox's /etc/hosts; NULL: the host's */
};

/* host_check.c: also of a bundle's request. ERR_USAGE, ERR_UNSUPPORTED. */
int host_check(const struct request *r, struct error *err);

int host_plan(const struct sandbox_env *env, const struct request *r,
	      bool terminal, struct plan **ret, struct error *err);

/* Writes config.json, but for its filter. */
int host_config(struct host_context *h, struct buf *ret, struct error *err);

/* Makes the filter; @ret is freed with the spec that it becomes part of. */
int host_config_filter(const struct host_context *h, struct spec_seccomp **ret,
		       struct error *err);

/*
 * Adds the filter to the text, so that what `exec` adds is confined alike. It
 * is larger than all the rest, so it is not parsed, and written while init is
 * at work already.
 */
int host_config_add_filter(struct buf *config, const struct spec_seccomp *s,
			   struct error *err);

/*
 * --chroot: is that directory the root, on a branch? Not with workdirs in it:
 * then what is in it is mounted one by one, as of the host's own root.
 */
bool host_root_is_chroot(const struct host_context *h);
/* May what is there be written at all, and is it on a branch? */
bool host_root_is_read_only(const struct host_context *h);
/* Is "/" among the paths of -r or -w? */
bool host_names_root(const struct spec_strings *list);
bool host_has_branch(const struct host_context *h);
/* A quota is of a branch. */
int host_check_quota(const struct host_context *h, struct error *err);
/* host_view.c: what may be read without a -r; ends with NULL. */
extern const char *const host_system_paths[];
/*
 * The same for home and PATH: calls @add for each, and for what no sandbox may
 * read, until it is not 0.
 */
typedef int host_path_fn(void *data, const char *path);
int host_each_readable(const struct host_context *h, host_path_fn *add,
		       void *data);
int host_each_secret(const struct host_context *h, host_path_fn *add,
		     void *data);

/* host_view.c: the real path, outside, of what is @path in h->chroot. */
int host_find_inside(const struct host_context *h, const char *flag,
		     const char *path, char ret[PATH_MAX], struct error *err);
/* host_view.c: the members "mounts" and linux.maskedPaths. */
int host_view_mounts(struct host_context *h, struct json_out *o,
		     struct error *err);
int host_view_masks(struct host_context *h, struct json_out *o,
		    struct error *err);

/*
 * host_tier.c: which tier, and so h->notify. What was asked for is taken as it
 * is; without that namespaces, unless something here speaks against them and a
 * try shows that they cannot be had.
 */
int host_find_tier(struct host_context *h, struct error *err);
/* What cannot be had without namespaces, on any machine. */
int host_check_notify(const struct request *r, struct error *err);

/*
 * host_paths.c: the paths of tier C into @p, or a refusal where no Landlock
 * rule can say what was asked for.
 */
int host_paths(const struct host_context *h, const struct sandbox_env *env,
	       struct plan *p, struct error *err);
/* host_shown.c: does --fs-mount ask for a directory in another place? */
bool host_shows_elsewhere(const struct request *r);
/*
 * The same of tier C: into p->shown and p->paths, after all others that are in
 * those. What would be ambiguous or would hide something is refused.
 */
int host_show(const struct request_mount *m, struct plan *p, struct error *err);
/* *@cwd by its real path, where something is shown: 0 or -ENOMEM. */
int host_real_cwd(const struct plan *p, char **cwd);

/* host_net.c: the rules of the request, if they can hold; net_rules_done. */
int host_read_rules(const struct host_context *h, struct net_rules *ret,
		    struct error *err);
/* Fills h->net and, where names are pinned, h->hosts. */
int host_network(struct host_context *h, struct error *err);

/* host_ids.c: fills h->idmap, once the workdirs are known. */
int host_find_ids(struct host_context *h, struct error *err);

/* host_root.c: adds what "/" consists of to h->workdirs. */
int host_add_root(struct host_context *h, struct error *err);

/* host_env.c: fills h->env. */
int host_environment(struct host_context *h, struct error *err);

#endif
