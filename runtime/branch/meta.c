/* meta.json as it is written; meta_read.c reads it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "branch/internal.h"

CLEANUP_PTR(struct json_out, json_out_free);

static void free_argv(char **argv)
{
	for (size_t i = 0; argv && argv[i]; i++)
		free(argv[i]);
	free(argv);
}

void meta_done(struct branch_meta *m)
{
	free(m->name);
	free(m->lower);
	free(m->bundle);
	free_argv(m->argv);
	idmap_done(&m->idmap);
	records_free(m->made, m->n_made);
	records_free(m->bases, m->n_bases);
	records_free(m->equal, m->n_equal);
	records_free(m->modes, m->n_modes);
	*m = (struct branch_meta){ 0 };
}

/* [seconds, nanoseconds] */
static void put_time(struct json_out *o, const char *key,
		     const struct timespec *t)
{
	json_out_key(o, key);
	json_out_array(o);
	json_out_int(o, t->tv_sec);
	json_out_int(o, t->tv_nsec);
	json_out_array_end(o);
}

/* [[inside, outside, count], ...] */
static void put_ids(struct json_out *o, const char *key,
		    const struct idmap_list *l)
{
	json_out_key(o, key);
	json_out_array(o);
	for (size_t i = 0; i < l->n; i++) {
		json_out_array(o);
		json_out_uint(o, l->extents[i].inside);
		json_out_uint(o, l->extents[i].outside);
		json_out_uint(o, l->extents[i].count);
		json_out_array_end(o);
	}
	json_out_array_end(o);
}

static void put_argv(struct json_out *o, char *const *argv)
{
	if (!argv)
		return;
	json_out_key(o, "argv");
	json_out_array(o);
	for (size_t i = 0; argv[i]; i++)
		json_out_bytes(o, argv[i], strlen(argv[i]));
	json_out_array_end(o);
}

static void put_disposition(struct json_out *o, const char *key,
			    enum disposition d)
{
	if (d != DISPOSE_UNSAID)
		json_out_str_member(o, key, disposition_name(d));
}

static const char *exit_kind_name(enum exit_kind k)
{
	switch (k) {
	case EXIT_UNKNOWN:
		return "unknown";
	case EXIT_CODE:
		return "code";
	case EXIT_SIGNAL:
		return "signal";
	case EXIT_TIMEOUT:
		return "timeout";
	case EXIT_QUOTA:
		return "quota";
	}
	return "unknown";
}

/*
 * [[path, dev, ino, mode, uid, gid, mtime s, ns, ctime s, ns, size], ...]:
 * there may be one for every object of a large commit that was rolled back.
 */
static void put_records(struct json_out *o, const char *key,
			const struct branch_record *r, size_t n)
{
	json_out_key(o, key);
	json_out_array(o);
	for (size_t i = 0; i < n; i++) {
		json_out_array(o);
		json_out_bytes(o, r[i].path, strlen(r[i].path));
		json_out_uint(o, r[i].dev);
		json_out_uint(o, r[i].ino);
		json_out_uint(o, r[i].mode);
		json_out_uint(o, r[i].uid);
		json_out_uint(o, r[i].gid);
		json_out_int(o, r[i].mtime.tv_sec);
		json_out_int(o, r[i].mtime.tv_nsec);
		json_out_int(o, r[i].ctime.tv_sec);
		json_out_int(o, r[i].ctime.tv_nsec);
		if (r[i].size >= 0)
			json_out_int(o, r[i].size);
		json_out_array_end(o);
	}
	json_out_array_end(o);
}

static void put_meta(struct json_out *o, const struct branch_meta *m)
{
	json_out_object(o);
	json_out_int_member(o, "version", m->version);
	json_out_str_member(o, "name", m->name);
	json_out_bytes_member(o, "lower", m->lower);
	json_out_uint_member(o, "lower_dev", m->lower_dev);
	json_out_uint_member(o, "lower_ino", m->lower_ino);
	put_time(o, "base_time", &m->base_time);
	put_time(o, "created", &m->created);
	json_out_str_member(o, "boot_id", m->boot_id);
	put_ids(o, "uids", &m->idmap.uids);
	put_ids(o, "gids", &m->idmap.gids);
	json_out_bool_member(o, "userxattr", m->userxattr);
	if (m->notify)
		json_out_bool_member(o, "notify", true);
	if (m->hidden)
		json_out_bool_member(o, "hidden", true);
	json_out_bool_member(o, "staged", m->staged);
	json_out_bool_member(o, "durable", m->durable);
	json_out_uint_member(o, "quota_bytes", m->quota_bytes);
	put_disposition(o, "on_exit", m->on_exit);
	put_disposition(o, "on_error", m->on_error);
	put_argv(o, m->argv);
	if (m->bundle)
		json_out_bytes_member(o, "bundle", m->bundle);
	json_out_int_member(o, "init_pid", m->init.pid);
	json_out_uint_member(o, "init_start_time", m->init.start_time);
	json_out_bool_member(o, "settled", m->settled);
	json_out_str_member(o, "exit_kind", exit_kind_name(m->status.kind));
	json_out_int_member(o, "exit_value", m->status.value);
	put_records(o, "made", m->made, m->n_made);
	put_records(o, "bases", m->bases, m->n_bases);
	if (m->n_equal)
		put_records(o, "equal", m->equal, m->n_equal);
	if (m->n_modes)
		put_records(o, "modes", m->modes, m->n_modes);
	if (m->n_roots)
		json_out_uint_member(o, "roots", m->n_roots);
	if (m->storage_dirs)
		json_out_uint_member(o, "storage_dirs", m->storage_dirs);
	json_out_object_end(o);
}

int meta_format(const struct branch_meta *m, struct buf *b)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);

	put_meta(o, m);
	return o ? json_out_end(o, b) : -ENOMEM;
}

/*
 * Only the holder of the branch lock writes, so the name is a fixed one. What
 * is there is not truncated: ext4 flushes such a file when it is closed, too.
 */
static int open_new(int dir_fd)
{
	return openat(dir_fd, META_NEW,
		      O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static int fill(int fd, const struct buf *b)
{
	struct stat st;
	int r = fd_write_full(fd, b->data, b->len);

	/* Of a writer that was killed. */
	if (r == 0 && fstat(fd, &st) < 0)
		r = -errno;
	if (r == 0 && st.st_size > (off_t)b->len &&
	    ftruncate(fd, (off_t)b->len) < 0)
		r = -errno;
	return r;
}

void meta_expect(int dir_fd)
{
	int fd = open_new(dir_fd);

	if (fd >= 0)
		(void)close(fd);
}

/*
 * Not synced. ext4 flushes a file at once that is renamed over another one, so
 * that the two are exchanged instead: a branch that comes and goes within a
 * second is never written to the disk.
 */
static int write_quickly(int dir_fd, const struct buf *b)
{
	static const char name[] = "meta.json", tmp[] = META_NEW;
	auto_close int fd = open_new(dir_fd);
	int r = fd < 0 ? -errno : fill(fd, b);

	if (r == 0 &&
	    renameat2(dir_fd, tmp, dir_fd, name, RENAME_EXCHANGE) == 0)
		return unlinkat(dir_fd, tmp, 0) < 0 ? -errno : 0;
	if (r == 0 && renameat(dir_fd, tmp, dir_fd, name) == 0)
		return 0;
	if (r == 0)
		r = -errno;
	(void)unlinkat(dir_fd, tmp, 0);
	return r;
}

int meta_write(int dir_fd, const struct branch_meta *m, bool durable,
	       struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;
	int r = meta_format(m, &b);

	if (r == 0 && b.len > LIMIT_META_BYTES)
		r = -EFBIG;
	if (r == 0 && durable)
		r = fd_write_atomic(dir_fd, "meta.json", b.data, b.len, 0600,
				    true);
	else if (r == 0)
		r = write_quickly(dir_fd, &b);
	if (r == 0)
		return 0;
	(void)error_set(err, ERR_SYSTEM, -r,
			"cannot write 'meta.json' of branch '%s'", m->name);
	if (r == -ENOSPC || r == -EDQUOT)
		(void)error_hint(err, "free some space where it is stored");
	return r;
}
