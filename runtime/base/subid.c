#include "base/subid.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/limits.h"
#include "base/user.h"

enum {
	SUBID_FILE_MAX = 4 * 1024 * 1024,
};

/* Adds the ranges of @name or @id in a file of "name:start:count" lines. */
static int add_subids(const char *path, const char *name, uint32_t id,
		      struct idmap_list *l)
{
	auto_(buf) struct buf b = BUF_INIT;
	uint64_t inside = 1;
	char *line, *save = NULL;
	char number[16];
	int r = fd_read_file(AT_FDCWD, path, SUBID_FILE_MAX, &b);

	if (r == -ENOENT || !b.data)
		return 0;
	if (r < 0)
		return r;
	(void)snprintf(number, sizeof(number), "%u", id);
	for (line = strtok_r(b.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *colon = strchr(line, ':');
		unsigned int start, count;

		if (!colon || sscanf(colon, ":%u:%u", &start, &count) != 2)
			continue;
		*colon = '\0';
		if (strcmp(line, name) != 0 && strcmp(line, number) != 0)
			continue;
		if (count == 0 || inside + count > UINT32_MAX ||
		    l->n >= LIMIT_ID_MAPPINGS)
			continue;
		r = idmap_add(l, (uint32_t)inside, start, count);
		if (r < 0)
			return r;
		inside += count;
	}
	return 0;
}

static int add_default(const char *helper, const char *subid, const char *name,
		       uint32_t uid, uint32_t own, struct idmap_list *l,
		       struct error *err)
{
	char path[HELPER_PATH_MAX];
	int r = idmap_add(l, 0, own, 1);

	if (r == 0 && helper_find(helper, path))
		r = add_subids(subid, name, uid, l);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot read '%s'",
				 subid);
	return 0;
}

int subid_default_maps(struct idmap *ret, struct error *err)
{
	auto_(idmap) struct idmap m = IDMAP_INIT;
	uid_t uid = geteuid();
	auto_free char *own = user_name(uid);
	/* newuidmap asks the name services itself, and believes nobody. */
	const char *name = own ? own : getenv("USER");
	int r;

	if (!name)
		name = "";
	r = add_default("newuidmap", "/etc/subuid", name, uid, uid, &m.uids,
			err);
	if (r < 0)
		return r;
	r = add_default("newgidmap", "/etc/subgid", name, uid, getegid(),
			&m.gids, err);
	if (r < 0)
		return r;
	*ret = m;
	m = (struct idmap)IDMAP_INIT;
	return 0;
}
