/*
 * --fs-mount in tier C, where nothing can be mounted: the supervisor shows the
 * directory in the place of an empty one, as the only part of a branch that
 * there is (sandbox/cow.h). A working directory or a descriptor is a real one,
 * so it has to be clear whether it is the one or the other: what is shown so is
 * shown nowhere else. And an empty directory hides nothing, that a path which
 * changes while it is looked up could lead to.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "branch/mountinfo.h"
#include "kernel/landlock.h"
#include "sandbox/host.h"

bool host_shows_elsewhere(const struct request *r)
{
	for (size_t i = 0; i < r->n_mounts; i++) {
		auto_free char *real = realpath(r->mounts[i].host, NULL);

		if (real && strcmp(real, r->mounts[i].inside) != 0)
			return true;
	}
	return false;
}

static bool meet(const char *a, const char *b)
{
	return path_is_under(a, b) || path_is_under(b, a);
}

static int refuse(const struct request_mount *m, struct error *err)
{
	return error_hint(err,
			  "-%c '%s' takes it where it is; the command has to "
			  "be told that path",
			  m->read_only ? 'r' : 'w', m->host);
}

/* As its place is called by the kernel; NULL: it is none to show something. */
static char *find_place(const struct request_mount *m)
{
	auto_free char *named =
		*m->inside == '/' ? path_normalize(m->inside) : NULL;
	auto_free char *real = named ? realpath(named, NULL) : NULL;
	auto_dir DIR *d = real ? opendir(real) : NULL;
	struct dirent *e;

	if (!d || strcmp(real, named) != 0)
		return NULL;
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			return NULL;
	return take_ptr(&real);
}

/* What is shown in its own place, too; NULL: nothing. */
static const char *find_overlap(const struct plan *p, const char *inside,
				const char *host)
{
	for (size_t i = 0; i < p->n_paths; i++)
		if (meet(p->paths[i].path, host))
			return p->paths[i].path;
	for (size_t i = 0; i < p->n_shown; i++)
		if (meet(p->shown[i].inside, inside) ||
		    meet(p->shown[i].inside, host) ||
		    meet(p->shown[i].host, inside))
			return p->shown[i].inside;
	return meet(inside, host) ? inside : NULL;
}

static int check(const struct request_mount *m, const struct plan *p,
		 const char *inside, const char *host, struct error *err)
{
	auto_dir DIR *d = opendir(host);
	const char *other;

	if (!inside) {
		(void)error_say(
			err, ERR_UNSUPPORTED, ENOTSUP,
			"--fs-mount cannot show '%s' as '%s': without a "
			"mount namespace that takes an empty directory "
			"there",
			m->host, m->inside);
		return error_hint(err,
				  "make '%s', or take it where it is: -%c '%s'",
				  m->inside, m->read_only ? 'r' : 'w', host);
	}
	if (!d) {
		(void)error_set(err, ERR_UNSUPPORTED, errno,
				"--fs-mount '%s': without a mount namespace "
				"only a directory that can be read is shown in "
				"another place",
				m->host);
		return refuse(m, err);
	}
	if (mountinfo_has_below(host)) {
		(void)error_say(err, ERR_UNSUPPORTED, ENOTSUP,
				"--fs-mount '%s' has something mounted in it, "
				"which cannot be shown without a mount "
				"namespace",
				m->host);
		return refuse(m, err);
	}
	other = find_overlap(p, inside, host);
	if (!other)
		return 0;
	(void)error_say(
		err, ERR_UNSUPPORTED, ENOTSUP,
		"--fs-mount '%s:%s' cannot be had beside '%s' without a "
		"mount namespace: a file must not have two places",
		m->inside, m->host, other);
	return refuse(m, err);
}

int host_show(const struct request_mount *m, struct plan *p, struct error *err)
{
	auto_free char *host = realpath(m->host, NULL);
	auto_free char *inside = find_place(m);
	struct plan_shown *v;
	int n = host ? check(m, p, inside, host, err)
		     : error_set(err, ERR_USAGE, errno, "--fs-mount '%s'",
				 m->host);

	if (n < 0)
		return n;
	v = reallocarray(p->shown, p->n_shown + 1, sizeof(*v));
	if (v)
		p->shown = v;
	if (!v || plan_add_path(p, host, LANDLOCK_READ | LANDLOCK_EXEC) < 0 ||
	    plan_add_path(p, inside, LANDLOCK_READ) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "paths");
	v[p->n_shown++] = (struct plan_shown){ take_ptr(&inside),
					       take_ptr(&host), m->read_only };
	return 0;
}

int host_real_cwd(const struct plan *p, char **cwd)
{
	auto_free char *plain = path_normalize(*cwd);

	if (!plain)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_shown; i++) {
		const struct plan_shown *s = &p->shown[i];
		char *real;

		if (strcmp(plain, s->inside) == 0 ||
		    !path_is_under(plain, s->inside))
			continue;
		real = path_join(s->host, path_below(plain, s->inside));
		if (!real)
			return -ENOMEM;
		free(*cwd);
		*cwd = real;
		break;
	}
	return 0;
}
