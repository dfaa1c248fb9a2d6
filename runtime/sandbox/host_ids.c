/*
 * Which ids an ordinary user's sandbox maps. He stays who he is. What others
 * own in the workdir can be changed in a branch only if their ids are mapped
 * too: subordinate ids are, onto themselves, where there is something of
 * theirs. For others the kernel would say EOVERFLOW in the middle of the work
 * where the user may change them outside, so these are refused before it
 * begins; what he may only read is no obstacle.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "base/subid.h"
#include "branch/walk.h"
#include "sandbox/host.h"

enum {
	SCAN_MAX = 50000, /* objects: 0.1 s where they are cached */
	NAMED = 3,
};

struct scan {
	const struct idmap *map;
	size_t n_seen;
	size_t n_foreign; /* of ids that are not in the map */
	struct buf names; /* of the first of them */
};

static void scan_done(struct scan *s)
{
	buf_done(&s->names);
}

static void note_foreign(struct scan *s, const char *dir,
			 const struct walk_entry *e)
{
	auto_free char *whole = path_join(dir, e->path);

	if (s->n_foreign++ >= NAMED || !whole)
		return;
	if (s->names.len)
		buf_add_str(&s->names, ", ");
	path_quote(&s->names, e->path_len ? whole : dir,
		   strlen(e->path_len ? whole : dir));
	buf_printf(&s->names, " (%u:%u)", (unsigned int)e->lower.uid,
		   (unsigned int)e->lower.gid);
}

static bool may_write(int dirfd, const char *name)
{
	return faccessat(dirfd, name, W_OK,
			 AT_EACCESS | (name[0] ? 0 : AT_EMPTY_PATH)) == 0;
}

/* Could the user change it, or its name, without a branch? */
static bool is_changeable(const struct walk_entry *e)
{
	if (!S_ISLNK(e->lower.mode) && may_write(e->lower_dirfd, e->name))
		return true;
	return e->path_len && may_write(e->lower_dirfd, "");
}

static bool is_foreign(const struct scan *s, const struct walk_entry *e)
{
	return (!idmap_has_outside(&s->map->uids, e->lower.uid) ||
		!idmap_has_outside(&s->map->gids, e->lower.gid)) &&
	       is_changeable(e);
}

/* What cannot be read is passed over: its owner has been seen. */
static int scan_dir(struct scan *s, const char *dir, struct error *err)
{
	auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_(walk) struct walk w = { .depth = 0 };
	struct walk_entry *e;
	int r;

	if (fd < 0)
		return 0;
	r = walk_init(&w, -1, fd, "", err);
	while (r == 0 && s->n_seen < SCAN_MAX &&
	       (r = walk_next(&w, &e, NULL)) == 1) {
		r = 0;
		if (e->leaving || (e->path_len && e->lower.is_mount))
			continue;
		s->n_seen++;
		if (is_foreign(s, e))
			note_foreign(s, dir, e);
		if (S_ISDIR(e->lower.mode))
			(void)walk_enter(&w, WALK_DELETED, WALK_NO_TAG, NULL);
	}
	return 0;
}

static int scan_all(struct scan *s, const struct host_context *h,
		    struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < h->workdirs.n; i++)
		r = scan_dir(s, h->workdirs.v[i], err);
	if (r == 0 && buf_failed(&s->names))
		r = error_set(err, ERR_SYSTEM, ENOMEM, "workdir");
	return r;
}

/* The caller's own id is there already. */
static int add_ranges(struct idmap_list *to, const struct idmap_list *from,
		      uint32_t own, uint32_t inside)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < from->n; i++) {
		const struct idmap_extent *x = &from->extents[i];

		if (x->outside == own ||
		    (inside >= x->outside && inside - x->outside < x->count))
			continue;
		r = idmap_add(to, x->outside, x->outside, x->count);
	}
	return r;
}

static int add_subordinate(const struct request *q, struct idmap *m)
{
	auto_(idmap) struct idmap all = IDMAP_INIT;
	int r = subid_default_maps(&all, NULL);

	if (r < 0)
		return 0;
	r = add_ranges(&m->uids, &all.uids, geteuid(),
		       q->has_user ? q->uid : geteuid());
	return r < 0 ? r
		     : add_ranges(&m->gids, &all.gids, getegid(),
				  q->has_user ? q->gid : getegid());
}

static int refuse(const struct scan *s, struct error *err)
{
	size_t more = s->n_foreign > NAMED ? s->n_foreign - NAMED : 0;
	char rest[48] = "";

	if (more)
		(void)snprintf(rest, sizeof(rest), " and %zu more", more);
	(void)error_say(err, ERR_UNSUPPORTED, EOVERFLOW,
			"%zu object%s in the workdir belong%s to others and "
			"could not be changed in a branch: %.400s%s",
			s->n_foreign, s->n_foreign == 1 ? "" : "s",
			s->n_foreign == 1 ? "s" : "", buf_str(&s->names), rest);
	return error_hint(err, "give them to yourself with chown, or work in "
			       "a directory without them");
}

static int map_foreign(struct host_context *h, struct error *err)
{
	auto_(idmap) struct idmap wide = IDMAP_INIT;
	auto_(scan) struct scan s = { .map = &h->idmap };
	auto_(scan) struct scan again = { .map = &wide };
	int r = scan_all(&s, h, err);

	if (r < 0 || !s.n_foreign)
		return r;
	if (idmap_copy(&h->idmap, &wide) < 0 ||
	    add_subordinate(h->request, &wide) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "id maps");
	r = scan_all(&again, h, err);
	if (r < 0)
		return r;
	if (again.n_foreign)
		return refuse(&again, err);
	idmap_done(&h->idmap);
	h->idmap = wide;
	wide = (struct idmap)IDMAP_INIT;
	return 0;
}

int host_find_ids(struct host_context *h, struct error *err)
{
	const struct request *r = h->request;
	uid_t uid = r->has_user ? r->uid : geteuid();
	gid_t gid = r->has_user ? r->gid : getegid();
	int n;

	if (h->privileged || h->notify)
		return 0;
	n = idmap_add(&h->idmap.uids, uid, geteuid(), 1);
	if (n == 0)
		n = idmap_add(&h->idmap.gids, gid, getegid(), 1);
	return n < 0 ? error_set(err, ERR_SYSTEM, -n, "id maps")
		     : map_foreign(h, err);
}
