/*
 * All mount options in one table: what the parser understands is what
 * `features` lists. Everything else is data for the file system.
 */
#include <errno.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/mount.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/uapi.h"
#include "spec/parse.h"

enum effect {
	SET, /* a flag of mount(2) */
	CLEAR,
	ATIME, /* one of the three atime modes */
	NOT_ATIME,
	PROPAGATION,
	REC_SET, /* mount_setattr(2) on the whole tree */
	REC_CLEAR,
	REC_ATIME, /* an atime mode: clears the whole field first */
	BIND,
	RBIND,
	IDMAP,
	RIDMAP,
	TMPCOPYUP,
	SCRATCH,
	COPY_SYMLINK,
	SRC_NOFOLLOW,
	DEST_NOFOLLOW,
	NOTHING,
};

struct option {
	const char *name;
	enum effect effect;
	uint64_t flag;
};

#define ATIME_FLAGS (MS_NOATIME | MS_RELATIME | MS_STRICTATIME)

/*
 * For a whole tree there is no "not relatime": it is the kernel's default, so
 * that rnorelatime does nothing, and ratime and rnostrictatime mean relatime.
 */
/* clang-format off */
static const struct option options[] = {
	{ "async",	   CLEAR,	  MS_SYNCHRONOUS },
	{ "atime",	   NOT_ATIME,	  MS_NOATIME },
	{ "bind",	   BIND,	  0 },
	{ "copy-symlink",  COPY_SYMLINK,  0 },
	{ "defaults",	   NOTHING,	  0 },
	{ "dest-nofollow", DEST_NOFOLLOW, 0 },
	{ "dev",	   CLEAR,	  MS_NODEV },
	{ "diratime",	   CLEAR,	  MS_NODIRATIME },
	{ "dirsync",	   SET,		  MS_DIRSYNC },
	{ "exec",	   CLEAR,	  MS_NOEXEC },
	{ "idmap",	   IDMAP,	  0 },
	{ "iversion",	   SET,		  MS_I_VERSION },
	{ "lazytime",	   SET,		  MS_LAZYTIME },
	{ "loud",	   CLEAR,	  MS_SILENT },
	{ "mand",	   SET,		  MS_MANDLOCK },
	{ "noatime",	   ATIME,	  MS_NOATIME },
	{ "nodev",	   SET,		  MS_NODEV },
	{ "nodiratime",	   SET,		  MS_NODIRATIME },
	{ "noexec",	   SET,		  MS_NOEXEC },
	{ "noiversion",	   CLEAR,	  MS_I_VERSION },
	{ "nolazytime",	   CLEAR,	  MS_LAZYTIME },
	{ "nomand",	   CLEAR,	  MS_MANDLOCK },
	{ "norelatime",	   NOT_ATIME,	  MS_RELATIME },
	{ "nostrictatime", NOT_ATIME,	  MS_STRICTATIME },
	{ "nosuid",	   SET,		  MS_NOSUID },
	{ "nosymfollow",   SET,		  MS_NOSYMFOLLOW },
	{ "private",	   PROPAGATION,	  MS_PRIVATE },
	{ "ratime",	   REC_ATIME,	  MOUNT_ATTR_RELATIME },
	{ "rbind",	   RBIND,	  0 },
	{ "rdev",	   REC_CLEAR,	  MOUNT_ATTR_NODEV },
	{ "rdiratime",	   REC_CLEAR,	  MOUNT_ATTR_NODIRATIME },
	{ "relatime",	   ATIME,	  MS_RELATIME },
	{ "remount",	   SET,		  MS_REMOUNT },
	{ "rexec",	   REC_CLEAR,	  MOUNT_ATTR_NOEXEC },
	{ "ridmap",	   RIDMAP,	  0 },
	{ "rnoatime",	   REC_ATIME,	  MOUNT_ATTR_NOATIME },
	{ "rnodev",	   REC_SET,	  MOUNT_ATTR_NODEV },
	{ "rnodiratime",   REC_SET,	  MOUNT_ATTR_NODIRATIME },
	{ "rnoexec",	   REC_SET,	  MOUNT_ATTR_NOEXEC },
	{ "rnorelatime",   NOTHING,	  0 },
	{ "rnostrictatime", REC_ATIME,	  MOUNT_ATTR_RELATIME },
	{ "rnosuid",	   REC_SET,	  MOUNT_ATTR_NOSUID },
	{ "rnosymfollow",  REC_SET,	  MOUNT_ATTR_NOSYMFOLLOW },
	{ "ro",		   SET,		  MS_RDONLY },
	{ "rprivate",	   PROPAGATION,	  MS_PRIVATE | MS_REC },
	{ "rrelatime",	   REC_ATIME,	  MOUNT_ATTR_RELATIME },
	{ "rro",	   REC_SET,	  MOUNT_ATTR_RDONLY },
	{ "rrw",	   REC_CLEAR,	  MOUNT_ATTR_RDONLY },
	{ "rshared",	   PROPAGATION,	  MS_SHARED | MS_REC },
	{ "rslave",	   PROPAGATION,	  MS_SLAVE | MS_REC },
	{ "rstrictatime",  REC_ATIME,	  MOUNT_ATTR_STRICTATIME },
	{ "rsuid",	   REC_CLEAR,	  MOUNT_ATTR_NOSUID },
	{ "rsymfollow",	   REC_CLEAR,	  MOUNT_ATTR_NOSYMFOLLOW },
	{ "runbindable",   PROPAGATION,	  MS_UNBINDABLE | MS_REC },
	{ "rw",		   CLEAR,	  MS_RDONLY },
	{ "scratch",	   SCRATCH,	  0 },
	{ "shared",	   PROPAGATION,	  MS_SHARED },
	{ "silent",	   SET,		  MS_SILENT },
	{ "slave",	   PROPAGATION,	  MS_SLAVE },
	{ "src-nofollow",  SRC_NOFOLLOW,  0 },
	{ "strictatime",   ATIME,	  MS_STRICTATIME },
	{ "suid",	   CLEAR,	  MS_NOSUID },
	{ "symfollow",	   CLEAR,	  MS_NOSYMFOLLOW },
	{ "sync",	   SET,		  MS_SYNCHRONOUS },
	{ "tmpcopyup",	   TMPCOPYUP,	  0 },
	{ "unbindable",	   PROPAGATION,	  MS_UNBINDABLE },
};
/* clang-format on */

size_t mount_option_count(void)
{
	return ARRAY_LEN(options);
}

const char *mount_option_name(size_t i)
{
	return options[i].name;
}

static const struct option *find_option(const char *name)
{
	size_t low = 0, high = ARRAY_LEN(options);

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int c = strcmp(name, options[mid].name);

		if (c == 0)
			return &options[mid];
		if (c < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

/* The last word on a flag counts. */
static void change(struct spec_mount *m, unsigned long set, unsigned long clear)
{
	m->set = (m->set & ~clear) | set;
	m->clear = (m->clear & ~set) | clear;
}

static void change_tree(struct spec_mount *m, uint64_t set, uint64_t clear)
{
	m->rec_set = (m->rec_set & ~clear) | set;
	m->rec_clear = (m->rec_clear & ~set) | clear;
}

static void apply(struct spec_mount *m, const struct option *o)
{
	unsigned long flag = (unsigned long)o->flag;

	switch (o->effect) {
	case SET:
		change(m, flag, 0);
		break;
	case CLEAR:
		change(m, 0, flag);
		break;
	case ATIME:
		m->set &= ~ATIME_FLAGS;
		change(m, flag, 0);
		break;
	case NOT_ATIME:
		change(m, 0, flag);
		break;
	case PROPAGATION:
		m->propagation = flag;
		break;
	case REC_SET:
		change_tree(m, o->flag, 0);
		break;
	case REC_CLEAR:
		change_tree(m, 0, o->flag);
		break;
	case REC_ATIME:
		/* The kernel wants the whole field cleared (EINVAL). */
		m->rec_clear |= MOUNT_ATTR__ATIME;
		m->rec_set =
			(m->rec_set & ~(uint64_t)MOUNT_ATTR__ATIME) | o->flag;
		break;
	case BIND:
		m->kind = SPEC_MOUNT_BIND;
		break;
	case RBIND:
		m->kind = SPEC_MOUNT_BIND;
		m->recursive_bind = true;
		break;
	case IDMAP:
		m->idmap = true;
		break;
	case RIDMAP:
		m->idmap = m->idmap_recursive = true;
		break;
	case TMPCOPYUP:
		m->tmpcopyup = true;
		break;
	case SCRATCH:
		m->scratch = true;
		break;
	case COPY_SYMLINK:
		m->copy_symlink = true;
		break;
	case SRC_NOFOLLOW:
		m->src_nofollow = true;
		break;
	case DEST_NOFOLLOW:
		m->dest_nofollow = true;
		break;
	case NOTHING:
		break;
	}
}

static bool read_u32(const char **s, char end, uint32_t *ret)
{
	uint64_t v = 0;
	const char *p = *s;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++) {
		v = v * 10 + (uint64_t)(*p - '0');
		if (v > UINT32_MAX)
			return false;
	}
	if (end && *p != end)
		return false;
	*s = end ? p + 1 : p;
	*ret = (uint32_t)v;
	return true;
}

/* "0-1000-1#1-2000-5" up to ';' or the end. */
static int read_triples(const struct at *at, const char **s,
			struct idmap_list *l)
{
	for (;;) {
		uint32_t inside, outside, count;

		if (**s == '@')
			return at_fail(at, "an idmap relative to the user "
					   "namespace ('@') is not supported");
		if (!read_u32(s, '-', &inside) || !read_u32(s, '-', &outside) ||
		    !read_u32(s, '\0', &count))
			return at_fail(at, "idmap is not of the form "
					   "uids=FROM-TO-LENGTH#...;gids=...");
		if (l->n >= 340)
			return at_fail(at, "idmap has too many parts");
		if (idmap_add(l, inside, outside, count) < 0)
			return at_no_memory(at);
		if (**s != '#')
			return 0;
		(*s)++;
	}
}

/* The part of "idmap=uids=...;gids=..." after the first '='. */
static int read_idmap(const struct at *at, const char *s, struct spec_mount *m)
{
	int r;

	while (*s) {
		bool is_uids = strncmp(s, "uids=", 5) == 0;

		if (!is_uids && strncmp(s, "gids=", 5) != 0)
			return at_fail(at, "idmap is not of the form "
					   "uids=FROM-TO-LENGTH#...;gids=...");
		s += 5;
		r = read_triples(at, &s,
				 is_uids ? &m->mappings.uids
					 : &m->mappings.gids);
		if (r < 0)
			return r;
		if (*s == ';')
			s++;
		else if (*s)
			return at_fail(at, "'%s' is left over in idmap",
				       SHOWN(s));
	}
	m->idmap = true;
	return 0;
}

int mount_option_apply(const struct at *at, const char *option,
		       struct spec_mount *m, struct buf *data)
{
	const struct option *o = find_option(option);

	if (o) {
		apply(m, o);
		return 0;
	}
	if (strncmp(option, "idmap=", 6) == 0)
		return read_idmap(at, option + 6, m);
	if (strncmp(option, "ridmap=", 7) == 0) {
		m->idmap_recursive = true;
		return read_idmap(at, option + 7, m);
	}
	if (*option == '\0')
		return 0;
	buf_printf(data, "%s%s", data->len ? "," : "", option);
	return 0;
}
