/* What an update that fails halfway has replaced, to put it back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "kernel/cgroup_internal.h"

struct cgroup_note {
	char *dir, *file, *old;
};

/* "8:0 rbps=7", but not "max 100000" or "7". */
static size_t key_len(const char *text)
{
	size_t n = strcspn(text, " ");

	if (!text[n] || text[strspn(text, "0123456789")] == ' ' ||
	    (n == 3 && strncmp(text, "max", n) == 0) ||
	    (n == 7 && strncmp(text, "default", n) == 0))
		return 0;
	return n;
}

/* As a key was that the file has no line of. */
static void add_default(struct buf *b, const char *file, const char *text)
{
	size_t n = key_len(text);
	const char *p = strchr(text, '=');

	buf_add(b, text, n);
	if (!p) {
		buf_add_str(b, strstr(file, "weight") ? " default" : " 0");
		return;
	}
	for (p = text + n; (n = strcspn(p, "=")) && p[n];
	     p += strcspn(p, " ")) {
		buf_add(b, p, n);
		buf_add_str(b, "=max");
		p += n;
	}
}

static void add_line(struct buf *b, const char *at)
{
	buf_add(b, at, strcspn(at, "\n"));
}

/* What is to be written for @file to be as it is, where @text will be. */
static void add_old(struct buf *b, const char *file, const char *text,
		    const char *now)
{
	size_t n = key_len(text);

	if (strcmp(file, "memory.oom_control") == 0) {
		add_line(b, now + strcspn(now, "01"));
		return;
	}
	if (!n) {
		add_line(b, now);
		/* Nothing at all would not be written. */
		if (!b->len)
			buf_add_char(b, '\n');
		return;
	}
	for (const char *p = now; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, text, n) == 0 && p[n] == ' ') {
			add_line(b, p);
			return;
		}
	}
	add_default(b, file, text);
}

static void note_done(struct cgroup_note *n)
{
	free(n->dir);
	free(n->file);
	free(n->old);
}

int cgroup_journal_note(struct cgroup_journal *j, const char *dir,
			const char *file, const char *text)
{
	auto_(buf) struct buf now = BUF_INIT, old = BUF_INIT;
	struct cgroup_note *all, *n;

	/* What cannot be read (devices.deny) comes last. */
	if (strncmp(file, "cgroup.", 7) == 0 ||
	    cgroup_read(dir, file, &now) < 0)
		return 0;
	add_old(&old, file, text, buf_str(&now));
	all = reallocarray(j->notes, j->n + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	j->notes = all;
	n = &all[j->n];
	*n = (struct cgroup_note){ strdup(dir), strdup(file),
				   buf_take(&old, NULL) };
	if (!n->dir || !n->file || !n->old) {
		note_done(n);
		return -ENOMEM;
	}
	j->n++;
	return 1;
}

void cgroup_journal_drop(struct cgroup_journal *j)
{
	note_done(&j->notes[--j->n]);
}

void cgroup_journal_end(struct cgroup_journal *j, bool undo, struct error *err)
{
	/* The last first: which of two limits may be set depends on both. */
	while (j->n--) {
		struct cgroup_note *n = &j->notes[j->n];

		if (undo && cgroup_write_raw(n->dir, n->file, n->old) < 0)
			(void)error_hint(err,
					 "'%s' could not be set back to '%s'",
					 n->file, n->old);
		note_done(n);
	}
	free(j->notes);
}
