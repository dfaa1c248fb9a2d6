#include "sandbox/plan.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "kernel/landlock.h"
#include "kernel/mount.h"
#include "kernel/userns.h"
#include "sandbox/asked_bundle.h"
#include "sandbox/host.h"
#include "sandbox/mediate.h"
#include "sandbox/process.h"
#include "sandbox/state.h"
#include "spec/request.h"

bool caller_is_privileged(void)
{
	struct __user_cap_header_struct h = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct d[2];

	if (geteuid() != 0 || syscall(SYS_capget, &h, d) < 0)
		return false;
	return d[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective &
	       CAP_TO_MASK(CAP_SYS_ADMIN);
}

void plan_make_name(char ret[256], unsigned int attempt)
{
	static const char *const adjectives[] = {
		"amber",  "brave",  "brisk",  "calm",	"clear",  "clever",
		"copper", "cosmic", "dapper", "deft",	"eager",  "early",
		"fair",	  "fleet",  "fresh",  "gentle", "golden", "grand",
		"happy",  "hardy",  "honest", "humble", "jolly",  "keen",
		"kind",	  "lively", "loyal",  "lucid",	"merry",  "mellow",
		"misty",  "modest", "neat",   "nimble", "noble",  "patient",
		"placid", "polite", "proud",  "quick",	"quiet",  "rapid",
		"rosy",	  "sage",   "serene", "sharp",	"silent", "silver",
		"sleek",  "smooth", "snowy",  "solid",	"spry",	  "steady",
		"stout",  "sturdy", "sunny",  "swift",	"tidy",	  "vivid",
		"warm",	  "wise",   "witty",  "young",
	};
	static const char *const nouns[] = {
		"acorn",   "alder",  "aspen",	"badger",  "beaver", "birch",
		"bison",   "brook",  "cedar",	"cloud",   "comet",  "crane",
		"delta",   "dune",   "eagle",	"elm",	   "ember",  "falcon",
		"fern",	   "finch",  "fjord",	"fox",	   "garnet", "glade",
		"grove",   "harbor", "hazel",	"heron",   "ibis",   "iris",
		"island",  "jade",   "juniper", "kestrel", "lagoon", "lark",
		"linden",  "lynx",   "maple",	"marten",  "meadow", "moss",
		"nettle",  "oak",    "opal",	"osprey",  "otter",  "owl",
		"pebble",  "pine",   "plover",	"quartz",  "raven",  "reed",
		"river",   "robin",  "sparrow", "spruce",  "stone",  "swan",
		"thistle", "tulip",  "walnut",	"willow",
	};
	unsigned int r = 0;

	if (getrandom(&r, sizeof(r), GRND_NONBLOCK) != sizeof(r))
		r = (unsigned int)getpid() * 2654435761U + attempt;
	if (attempt <= 8)
		(void)snprintf(ret, 256, "%s-%s", adjectives[r % 64],
			       nouns[r / 64 % 64]);
	else
		(void)snprintf(ret, 256, "%s-%s-%u", adjectives[r % 64],
			       nouns[r / 64 % 64], r / 4096 % 10000);
}

int plan_add_path(struct plan *p, const char *path, unsigned int access)
{
	struct plan_path *v =
		reallocarray(p->paths, p->n_paths + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	p->paths = v;
	v += p->n_paths;
	*v = (struct plan_path){ strdup(path), access };
	if (!v->path)
		return -ENOMEM;
	p->n_paths++;
	return 0;
}

bool plan_is_writable(const struct plan *p, const char *path)
{
	for (size_t i = 0; i < p->n_paths; i++)
		if ((p->paths[i].access & LANDLOCK_MAKE) &&
		    path_is_under(path, p->paths[i].path))
			return true;
	return false;
}

static int read_config(const struct sandbox_bundle *b, struct plan *p,
		       const struct log_sink *log, struct error *err)
{
	const char *bundle = b->bundle ? b->bundle : ".";
	auto_free char *real = realpath(bundle, NULL);
	int r;

	if (!real)
		return error_set(err, ERR_BUNDLE, errno,
				 "cannot open bundle '%s'", bundle);
	r = spec_read(real, b->config, &p->config, err);
	if (r < 0)
		return r;
	return spec_parse(p->config.data, p->config.len, real, log, &p->spec,
			  err);
}

static int open_join(struct plan *p, enum spec_ns ns, struct error *err)
{
	const char *path = p->spec->ns[ns].path;
	int type;

	/* A bundle may name a FIFO: nothing may block. */
	p->join_fds[ns] =
		open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (p->join_fds[ns] < 0)
		return error_set(err, ERR_BUNDLE, errno,
				 "cannot open %s namespace '%s'",
				 spec_ns_table[ns].oci_name, path);
	type = ioctl(p->join_fds[ns], NS_GET_NSTYPE);
	if (type != spec_ns_table[ns].clone_flag)
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "'%s' is no %s namespace", path,
				 spec_ns_table[ns].oci_name);
	return 0;
}

/*
 * Below a user namespace nobody may look into what is from above. Without a
 * process nothing is ever executed in there. Who mounts a procfs from outside
 * has to say whose it is.
 */
static int decide_beside(struct plan *p, struct error *err)
{
	const struct spec *s = p->spec;

	p->beside = s->ns[SPEC_NS_PID].want == SPEC_NS_JOIN &&
		    s->ns[SPEC_NS_USER].want == SPEC_NS_INHERIT &&
		    s->has_process &&
		    mount_takes_pidns(p->join_fds[SPEC_NS_PID]);
	if (!p->beside || !s->hooks.n[SPEC_HOOK_START_CONTAINER])
		return 0;
	(void)error_say(err, ERR_UNSUPPORTED, ENOTSUP,
			"hooks.startContainer: in a pid namespace that is "
			"joined, others could change them before they run");
	return error_hint(err, "give the container a pid namespace or a user "
			       "namespace of its own, or use createContainer");
}

int plan_namespaces(struct plan *p, struct error *err)
{
	int r;

	for (int i = 0; i < SPEC_NS_COUNT; i++) {
		switch (p->spec->ns[i].want) {
		case SPEC_NS_INHERIT:
			break;
		case SPEC_NS_NEW:
			p->new_flags |= spec_ns_table[i].clone_flag;
			break;
		case SPEC_NS_JOIN:
			r = open_join(p, (enum spec_ns)i, err);
			if (r < 0)
				return r;
			p->detour = true;
			break;
		}
	}
	/* The child makes these two itself: the cgroup namespace is rooted at
	 * the cgroup it is in by then, and time offsets are written from
	 * outside the new time namespace. */
	p->new_cgroup_ns = p->new_flags & CLONE_NEWCGROUP;
	p->new_time_ns = p->new_flags & CLONE_NEWTIME;
	p->new_flags &= ~(CLONE_NEWCGROUP | CLONE_NEWTIME);
	p->own_pid_ns = p->new_flags & CLONE_NEWPID;
	r = decide_beside(p, err);
	if (r < 0)
		return r;
	if (!p->privileged && !p->notify &&
	    p->spec->ns[SPEC_NS_USER].want == SPEC_NS_INHERIT) {
		(void)error_say(err, ERR_UNSUPPORTED, EPERM,
				"rootless containers require user namespaces");
		return error_hint(err, "`sandlock spec --rootless` writes a "
				       "config.json with one");
	}
	return 0;
}

static bool wants_branch(const struct sandbox_bundle *b, const struct spec *s)
{
	switch (b->branch) {
	case BRANCH_CHOICE_NONE:
		return false;
	case BRANCH_CHOICE_ASKED:
		return s->branch.want == SPEC_BRANCH_YES;
	case BRANCH_CHOICE_DEFAULT:
		return s->branch.want != SPEC_BRANCH_NONE;
	}
	return false;
}

static enum disposition first_said(enum disposition a, enum disposition b)
{
	if (a != DISPOSE_UNSAID)
		return a;
	return b != DISPOSE_UNSAID ? b : DISPOSE_DEFER;
}

/* Root's is mounted in its own user namespace. */
static int own_overlay_by(struct plan *p, struct error *err)
{
	if (p->branch && !p->privileged &&
	    idmap_copy(&p->spec->idmap, &p->branch_idmap) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "id maps");
	return 0;
}

static int plan_branch(const struct sandbox_bundle *b, struct plan *p,
		       struct error *err)
{
	const struct spec *s = p->spec;

	p->branch = wants_branch(b, s) && !s->root_readonly &&
		    s->ns[SPEC_NS_MOUNT].want == SPEC_NS_NEW;
	p->on_exit = first_said(b->on_exit, s->branch.on_exit);
	p->on_error = first_said(b->on_error, s->branch.on_error);
	p->storage = b->storage ? b->storage : s->branch.storage;
	p->durable = b->durable || s->branch.durable;
	p->quota_bytes =
		b->quota_bytes ? b->quota_bytes : s->branch.quota_bytes;
	if (!p->branch &&
	    (b->storage || b->quota_bytes || b->on_exit != DISPOSE_UNSAID ||
	     b->on_error != DISPOSE_UNSAID)) {
		(void)error_say(err, ERR_USAGE, EINVAL,
				"there is no branch to commit, abort or store");
		return error_hint(err, s->root_readonly
					       ? "root.readonly is true"
					       : "drop --branch=none");
	}
	/* An ordinary user's overlay lives in the container's namespace. */
	if (p->branch && !p->privileged &&
	    s->ns[SPEC_NS_USER].want == SPEC_NS_JOIN)
		return error_say(err, ERR_UNSUPPORTED, EPERM,
				 "a branch cannot be mounted in a joined user "
				 "namespace: use --branch=none");
	return own_overlay_by(p, err);
}

static int check_terminal(const struct sandbox_bundle *b, const struct spec *s,
			  bool detached, struct error *err)
{
	bool terminal = s->has_process && s->process.terminal;

	if (terminal && detached && !b->console_socket)
		return error_say(err, ERR_USAGE, EINVAL,
				 "cannot allocate tty if runc will detach "
				 "without setting console socket");
	if (b->console_socket && (!terminal || !detached))
		return error_say(err, ERR_USAGE, EINVAL,
				 "cannot use console socket if runc will not "
				 "detach or allocate tty");
	return 0;
}

static int check_supported(const struct spec *s, struct error *err)
{
	if (s->has_intel_rdt)
		return error_say(err, ERR_UNSUPPORTED, ENOTSUP,
				 "linux.intelRdt: sandlock does not manage "
				 "resctrl");
	if (s->ns[SPEC_NS_MOUNT].want == SPEC_NS_INHERIT && s->n_mounts)
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "mounts need a mount namespace: they would "
				 "land on the host");
	return 0;
}

int plan_check_preserved(unsigned int n, struct error *err)
{
	if (n > LIMIT_PRESERVE_FDS)
		return error_say(err, ERR_USAGE, EINVAL,
				 "--preserve-fds %u is more than %d", n,
				 LIMIT_PRESERVE_FDS);
	for (unsigned int i = 0; i < n; i++) {
		if (fcntl((int)(3 + i), F_GETFD) >= 0)
			continue;
		(void)error_set(err, ERR_USAGE, errno,
				"--preserve-fds %u: fd %u is not open", n,
				3 + i);
		return i ? error_hint(err, "%u would be right", i)
			 : error_code(err);
	}
	return 0;
}

struct plan *plan_new(void)
{
	struct plan *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	for (int i = 0; i < SPEC_NS_COUNT; i++)
		p->join_fds[i] = -1;
	p->privileged = caller_is_privileged();
	p->initial = userns_is_initial();
	return p;
}

int plan_make(const struct sandbox_env *env, const struct sandbox_bundle *b,
	      const struct request *q, struct plan **ret, struct error *err)
{
	auto_ptr(plan_free) struct plan *p = plan_new();
	int r;

	if (!p)
		return error_set(err, ERR_SYSTEM, ENOMEM, "plan");
	if (b->name) {
		r = name_check(b->name, err);
		if (r < 0)
			return r;
		(void)snprintf(p->name, sizeof(p->name), "%s", b->name);
	}
	r = read_config(b, p, env->log, err);
	if (r < 0)
		return r;
	r = check_supported(p->spec, err);
	if (r == 0)
		r = plan_namespaces(p, err);
	if (r == 0)
		r = plan_branch(b, p, err);
	if (r == 0)
		r = check_terminal(b, p->spec, b->detach, err);
	if (b->no_supervisor)
		p->untrapped = "--no-supervisor";
	if (r == 0 && !q)
		r = asked_bundle_annotated(p->spec, &p->asked, err);
	if (r == 0)
		r = mediate_decide_bundle(p, q ? q : p->asked, err);
	if (r < 0)
		return r;
	*ret = take_ptr(&p);
	return 0;
}

int plan_again(const struct rundir_slot *slot, const struct sandbox_state *s,
	       const struct request *q, struct plan **ret, struct error *err)
{
	auto_ptr(plan_free) struct plan *p = plan_new();
	int r;

	if (!p)
		return error_set(err, ERR_SYSTEM, ENOMEM, "plan");
	r = state_load_spec(slot, s, NULL, &p->spec, err);
	if (r < 0)
		return r;
	(void)snprintf(p->name, sizeof(p->name), "%s", s->name);
	p->branch = s->store;
	p->own_pid_ns = s->pid_ns;
	r = own_overlay_by(p, err);
	if (r == 0)
		r = mediate_decide_bundle(p, q, err);
	if (r < 0)
		return r;
	*ret = take_ptr(&p);
	return 0;
}

void plan_free(struct plan *p)
{
	if (!p)
		return;
	netns_done(&p->netns);
	for (int i = 0; i < SPEC_NS_COUNT; i++)
		cleanup_close(&p->join_fds[i]);
	spec_free(p->spec);
	buf_done(&p->config);
	spec_strings_done(&p->workdirs);
	spec_strings_done(&p->lowers);
	free(p->chroot);
	for (size_t i = 0; i < p->n_paths; i++)
		free(p->paths[i].path);
	free(p->paths);
	for (size_t i = 0; i < p->n_shown; i++) {
		free(p->shown[i].inside);
		free(p->shown[i].host);
	}
	free(p->shown);
	spec_strings_done(&p->denied);
	spec_strings_done(&p->uppers);
	idmap_done(&p->branch_idmap);
	net_rules_done(&p->net);
	free(p->hosts);
	request_free(p->asked);
	free(p);
}
