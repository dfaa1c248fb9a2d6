#include "diff.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/path.h"

static const char red[] = "\033[31m", bold_red[] = "\033[1;31m",
		  green[] = "\033[32m", yellow[] = "\033[33m", off[] = "\033[m";

const char *diff_kind(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "dir";
	case S_IFLNK:
		return "symlink";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	case S_IFCHR:
		return "chr";
	case S_IFBLK:
		return "blk";
	}
	return "unknown";
}

static void add_quoted(struct buf *b, const char *s)
{
	path_quote(b, s ? s : "", s ? strlen(s) : 0);
}

static void add_kind(struct buf *b, const struct sandlock_side *s)
{
	buf_add_str(b, diff_kind(s->mode));
	if (S_ISCHR(s->mode) || S_ISBLK(s->mode))
		buf_printf(b, " %u:%u", major(s->rdev), minor(s->rdev));
}

static bool is_special(mode_t mode)
{
	return !S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode);
}

static void add_added(struct buf *b, const struct sandlock_change *c)
{
	if (c->flags & SANDLOCK_CHANGE_LINK) {
		buf_add_str(b, " (link to ");
		add_quoted(b, c->link_to);
		buf_add_char(b, ')');
	} else if (S_ISLNK(c->after.mode)) {
		buf_add_str(b, " -> ");
		add_quoted(b, c->after.link_target);
	} else if (is_special(c->after.mode)) {
		buf_add_str(b, " (");
		add_kind(b, &c->after);
		buf_add_char(b, ')');
	}
}

static void add_type(struct buf *b, const struct sandlock_change *c)
{
	/* A directory that was replaced by another one. */
	if (S_ISDIR(c->before.mode) && S_ISDIR(c->after.mode))
		return;
	buf_add_str(b, " -> ");
	add_kind(b, &c->after);
	if (S_ISLNK(c->after.mode)) {
		buf_add_char(b, ' ');
		add_quoted(b, c->after.link_target);
	}
}

static void add_content(struct buf *b, const struct sandlock_change *c)
{
	uint64_t was = c->before.size, is = c->after.size;

	if (S_ISLNK(c->after.mode)) {
		buf_add_str(b, " -> ");
		add_quoted(b, c->after.link_target);
	} else if (is_special(c->after.mode)) {
		buf_add_str(b, " -> ");
		add_kind(b, &c->after);
	} else if (is > was) {
		buf_printf(b, " (+%llu bytes)", (unsigned long long)(is - was));
	} else if (is < was) {
		buf_printf(b, " (-%llu bytes)", (unsigned long long)(was - is));
	} else {
		buf_add_str(b, " (same size)");
	}
}

/* What is told of M and m alike: they exist on both sides. */
static void add_metadata(struct buf *b, const struct sandlock_change *c)
{
	const struct sandlock_side *was = &c->before, *is = &c->after;

	if ((was->mode ^ is->mode) & 07777)
		buf_printf(b, " mode %04o->%04o", was->mode & 07777,
			   is->mode & 07777);
	if (was->uid != is->uid || was->gid != is->gid)
		buf_printf(b, " owner %u:%u->%u:%u", was->uid, was->gid,
			   is->uid, is->gid);
	if (c->xattrs) {
		buf_add_str(b, " xattr ");
		text_escape(b, c->xattrs, strlen(c->xattrs));
	}
	if (c->flags & SANDLOCK_CHANGE_MTIME_ONLY)
		buf_add_str(b, " mtime");
}

static void add_warnings(struct buf *b, const struct sandlock_change *c)
{
	if (c->flags & SANDLOCK_CHANGE_SETID) {
		mode_t mode = c->after.mode;

		if (mode & S_ISUID)
			buf_add_str(b, " (setuid)");
		if (mode & S_ISGID)
			buf_add_str(b, " (setgid)");
		if (!(mode & (S_ISUID | S_ISGID)))
			buf_add_str(b, " (file capabilities)");
	}
	if (c->flags & SANDLOCK_CHANGE_SPECIAL)
		buf_add_str(b, " (commit needs --special)");
	if (c->flags & SANDLOCK_CHANGE_STALE_LOCK)
		buf_add_str(b, " (lock of a dead git: left out)");
	if (c->flags & SANDLOCK_CHANGE_LINK_BROKEN)
		buf_add_str(b, " (link broken)");
	if (c->flags & SANDLOCK_CHANGE_ABSENT)
		buf_add_str(b, " (already absent)");
	if (c->flags & SANDLOCK_CHANGE_CONFLICT && c->conflict) {
		buf_add_str(b, " (");
		text_escape(b, c->conflict, strlen(c->conflict));
		buf_add_char(b, ')');
	}
}

static const char *colour_of(const struct sandlock_change *c)
{
	if (c->flags & SANDLOCK_CHANGE_CONFLICT)
		return bold_red;
	if (c->letter == 'D' || c->letter == 'T')
		return red;
	return c->letter == 'A' ? green : yellow;
}

void diff_line(struct buf *b, const struct sandlock_change *c, bool colour)
{
	if (colour)
		buf_add_str(b, colour_of(c));
	if (c->flags & SANDLOCK_CHANGE_CONFLICT)
		buf_add_str(b, "C ");
	buf_add_char(b, c->letter);
	if (colour)
		buf_add_str(b, off);
	buf_add_char(b, ' ');
	print_path(b, c);
	if (c->letter == 'A')
		add_added(b, c);
	else if (c->letter == 'T')
		add_type(b, c);
	else if (c->letter == 'M')
		add_content(b, c);
	if (c->letter == 'M' || c->letter == 'm')
		add_metadata(b, c);
	add_warnings(b, c);
}
