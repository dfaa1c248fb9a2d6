/* mounts[] of config.json. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/path.h"
#include "spec/parse.h"

static int read_options(const struct at *at, void *obj)
{
	auto_(buf) struct buf data = BUF_INIT;
	struct spec_mount *m = obj;
	int r = at_expect(at, JSON_ARRAY);

	for (size_t i = 0; r >= 0 && i < at->v->n; i++) {
		struct at item = at_item(at, i);
		const char *option;

		r = at_string(&item, 0, &option);
		if (r >= 0)
			r = mount_option_apply(&item, option, m, &data);
	}
	if (r < 0 || (data.len == 0 && !buf_failed(&data)))
		return r;
	m->data = buf_take(&data, NULL);
	return m->data ? 0 : at_no_memory(at);
}

static int make_absolute(const struct at *at, void *obj)
{
	struct spec_mount *m = obj;
	char *path;

	if (m->destination[0] == '/')
		return 0;
	at_warn(at, "'%s' is relative: it is taken below /",
		SHOWN(m->destination));
	path = path_join("/", m->destination);
	if (!path)
		return at_no_memory(at);
	free(m->destination);
	m->destination = path;
	return 0;
}

static bool is_cgroup(const char *type)
{
	return type &&
	       (strcmp(type, "cgroup") == 0 || strcmp(type, "cgroup2") == 0);
}

static int check_maps(const struct at *at, const struct spec_mount *m)
{
	const struct idmap *maps = &m->mappings;

	if (!maps->uids.n != !maps->gids.n)
		return at_fail(at, "uidMappings and gidMappings must be given "
				   "together");
	if (m->idmap && m->kind != SPEC_MOUNT_BIND)
		return at_fail(at, "only bind mounts can have id mappings");
	return 0;
}

static int check_type(const struct at *at, const struct spec_mount *m)
{
	if (m->kind == SPEC_MOUNT_BIND && !m->source)
		return at_fail_member(at, "source",
				      "is required for a bind mount");
	if (m->kind == SPEC_MOUNT_BIND)
		return 0;
	if (!m->type)
		return at_fail_member(at, "type",
				      "is required for a mount "
				      "without the option 'bind'");
	if (strcmp(m->type, "bind") == 0)
		return at_fail_member(at, "options",
				      "a bind mount needs the "
				      "option 'bind' or "
				      "'rbind'");
	return 0;
}

static int check_mount(const struct at *at, void *obj)
{
	struct spec_mount *m = obj;
	int r;

	if (m->mappings.uids.n || m->mappings.gids.n)
		m->idmap = true;
	if (m->kind == SPEC_MOUNT_FS && is_cgroup(m->type))
		m->kind = SPEC_MOUNT_CGROUP;
	r = check_type(at, m);
	if (r < 0)
		return r;
	if (m->tmpcopyup && (!m->type || strcmp(m->type, "tmpfs") != 0 ||
			     m->kind == SPEC_MOUNT_BIND))
		return at_fail_member(at, "options",
				      "'tmpcopyup' is only for tmpfs");
	if (m->scratch && (m->kind != SPEC_MOUNT_BIND || m->idmap))
		return at_fail_member(at, "options",
				      "'scratch' is only for bind mounts "
				      "without id mappings");
	return check_maps(at, m);
}

static void done_mount(void *obj)
{
	struct spec_mount *m = obj;

	free(m->data);
	m->data = NULL;
}

/* clang-format off */
#define M(m) MEMBER(struct spec_mount, m)
static const struct field mount_fields[] = {
	{ "destination", FIELD_STR, FIELD_REQUIRED | STR_NONEMPTY,
	  M(destination), .check = make_absolute },
	{ "source",	 FIELD_STR, STR_MAY_BE_NONE, M(source) },
	{ "type",	 FIELD_STR, STR_MAY_BE_NONE, M(type) },
	{ "uidMappings", FIELD_ARRAY, 0, M(mappings.uids.extents),
	  COUNT(struct spec_mount, mappings.uids.n),
	  .shape = &idmap_extent_shape, .max = LIMIT_ID_MAPPINGS },
	{ "gidMappings", FIELD_ARRAY, 0, M(mappings.gids.extents),
	  COUNT(struct spec_mount, mappings.gids.n),
	  .shape = &idmap_extent_shape, .max = LIMIT_ID_MAPPINGS },
	{ "options",	 FIELD_CALL, 0, .check = read_options },
};
#undef M
/* clang-format on */
const struct shape mount_shape = { SHAPE(struct spec_mount, mount_fields),
				   .check = check_mount, .done = done_mount };

static int resolve_source(const struct at *at, const struct spec *s,
			  struct spec_mount *m)
{
	char *path;

	if (m->source[0] == '/')
		return 0;
	path = path_join(s->bundle, m->source);
	if (!path)
		return at_no_memory(at);
	free(m->source);
	m->source = path;
	return 0;
}

/* MNT-IDMAP: without maps of its own it takes those of the container. */
static int finish_idmap(const struct at *at, const struct spec *s,
			struct spec_mount *m)
{
	int r;

	if (!m->mappings.uids.n) {
		if (s->ns[SPEC_NS_USER].want == SPEC_NS_INHERIT)
			return at_fail(at, "the option 'idmap' needs "
					   "uidMappings and gidMappings, or a "
					   "user namespace");
		return idmap_copy(&s->idmap, &m->mappings) < 0
			       ? at_no_memory(at)
			       : 0;
	}
	r = check_extents(at, &m->mappings.uids);
	return r < 0 ? r : check_extents(at, &m->mappings.gids);
}

int finish_mounts(const struct at *at, struct spec *s)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < s->n_mounts; i++) {
		struct spec_mount *m = &s->mounts[i];
		struct at mounts = { .p = at->p, .up = at, .key = "mounts" };
		struct at item = { .p = at->p, .up = &mounts, .index = i };

		if (m->kind == SPEC_MOUNT_BIND)
			r = resolve_source(&item, s, m);
		if (r >= 0 && m->idmap)
			r = finish_idmap(&item, s, m);
	}
	return r;
}
