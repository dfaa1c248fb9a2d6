#include "sandbox/confine.h"

#include <linux/mount.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "kernel/landlock.h"
#include "sandbox/plan.h"
#include "spec/spec.h"

/* Devices and procfs are there to be written to, but nothing is made there. */
static const unsigned int use = LANDLOCK_READ | LANDLOCK_WRITE | LANDLOCK_IOCTL;

static bool is_read_only(const struct spec_mount *m)
{
	return (m->set & MS_RDONLY) || (m->rec_set & MOUNT_ATTR_RDONLY);
}

static unsigned int access_of(const struct spec_mount *m)
{
	if (strcmp(m->destination, "/dev") == 0 ||
	    path_is_under(m->destination, "/dev/pts") ||
	    path_is_under(m->destination, "/proc"))
		return use;
	return LANDLOCK_ALL;
}

/* A symbolic link is copied and not mounted: what it leads to has its own. */
static bool has_rule(const struct spec_mount *m)
{
	return !is_read_only(m) && !m->copy_symlink;
}

int confine_landlock(const struct spec *s, const struct spec_strings *workdirs,
		     struct error *err)
{
	struct landlock_rules rules = {
		/* A network namespace of its own leads nowhere: tests that
		 * talk to themselves go on working. */
		.any_connect = s->ns[SPEC_NS_NETWORK].want != SPEC_NS_INHERIT,
		.any_bind = s->ns[SPEC_NS_NETWORK].want != SPEC_NS_INHERIT,
		.allow_degraded = s->landlock.allow_degraded,
		.disabled = s->landlock.disabled,
	};
	auto_free struct landlock_rule *v = NULL;
	size_t n_workdirs = workdirs ? workdirs->n : 0, n = 0;

	v = calloc(s->n_mounts + n_workdirs + 1, sizeof(*v));
	if (!v)
		return error_set(err, ERR_SYSTEM, ENOMEM, "Landlock");
	v[n++] = (struct landlock_rule){
		.path = "/",
		.fd = -1,
		.access = s->root_readonly ? LANDLOCK_READ | LANDLOCK_EXEC
					   : LANDLOCK_ALL,
	};
	for (size_t i = 0; i < s->n_mounts; i++)
		if (has_rule(&s->mounts[i]))
			v[n++] = (struct landlock_rule){
				.path = s->mounts[i].destination,
				.fd = -1,
				.access = access_of(&s->mounts[i]),
				.optional = true,
			};
	for (size_t i = 0; i < n_workdirs; i++)
		v[n++] = (struct landlock_rule){
			.path = workdirs->v[i],
			.fd = -1,
			.access = LANDLOCK_ALL,
			.optional = true,
		};
	rules.paths = v;
	rules.n_paths = n;
	return landlock_restrict(&rules, err);
}

int confine_paths(const struct spec *s, const struct plan_path *paths, size_t n,
		  struct error *err)
{
	struct landlock_rules rules = {
		.allow_degraded = s->landlock.allow_degraded,
		.disabled = s->landlock.disabled,
		.n_paths = n,
	};
	auto_free struct landlock_rule *v = calloc(n + 1, sizeof(*v));

	if (!v)
		return error_set(err, ERR_SYSTEM, ENOMEM, "Landlock");
	for (size_t i = 0; i < n; i++)
		v[i] = (struct landlock_rule){
			.path = paths[i].path,
			.fd = -1,
			.access = paths[i].access,
			.optional = true,
		};
	rules.paths = v;
	return landlock_restrict(&rules, err);
}
