#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "branch/internal.h"

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

void record_set(struct branch_record *r, const struct stat *st)
{
	r->dev = st->st_dev;
	r->ino = st->st_ino;
	r->mode = st->st_mode;
	r->uid = st->st_uid;
	r->gid = st->st_gid;
	r->mtime = st->st_mtim;
	r->ctime = st->st_ctim;
	r->size = st->st_size;
}

/*
 * st_dev is not compared: it is not stable over a reboot for every file
 * system, and what is compared always lies in one directory of ours.
 */
bool record_is(const struct branch_record *r, const struct stat *st)
{
	/* Before Linux 6.13 all that happens in a tick has the same time. */
	if (S_ISREG(st->st_mode) && r->size >= 0 && r->size != st->st_size)
		return false;
	return r->ino == st->st_ino && r->mode == st->st_mode &&
	       r->uid == st->st_uid && r->gid == st->st_gid &&
	       same_time(&r->mtime, &st->st_mtim) &&
	       same_time(&r->ctime, &st->st_ctim);
}

/* The index of the first record that is not before @path. */
static size_t lower_bound(const struct branch_record *r, size_t n,
			  const char *path)
{
	size_t low = 0;

	while (low < n) {
		size_t mid = low + (n - low) / 2;

		if (strcmp(r[mid].path, path) < 0)
			low = mid + 1;
		else
			n = mid;
	}
	return low;
}

const struct branch_record *record_find(const struct branch_record *r, size_t n,
					const char *path)
{
	size_t i = lower_bound(r, n, path);

	return i < n && strcmp(r[i].path, path) == 0 ? &r[i] : NULL;
}

int record_put(struct branch_record **r, size_t *n, const char *path,
	       const struct stat *st)
{
	size_t i = lower_bound(*r, *n, path);
	struct branch_record *grown;
	char *copy;

	if (i < *n && strcmp((*r)[i].path, path) == 0) {
		record_set(&(*r)[i], st);
		return 0;
	}
	copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	grown = reallocarray(*r, *n + 1, sizeof(*grown));
	if (!grown) {
		free(copy);
		return -ENOMEM;
	}
	*r = grown;
	memmove(&grown[i + 1], &grown[i], (*n - i) * sizeof(*grown));
	grown[i] = (struct branch_record){ .path = copy };
	record_set(&grown[i], st);
	(*n)++;
	return 0;
}

void records_free(struct branch_record *r, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(r[i].path);
	free(r);
}
