/*
 * For tests of branches: a lower directory, a store, a run of a shell script
 * on an overlay of the two, and snapshots of a tree as text, which serve as
 * the oracle: what the sandbox saw must be what the lower holds afterwards.
 */
#ifndef SANDLOCK_TESTS_BRANCH_FIXTURE_H
#define SANDLOCK_TESTS_BRANCH_FIXTURE_H

#include "unit.h"

#include <sched.h>
#include <sha2.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "branch/branch.h"
#include "branch/change.h"
#include "branch/commit.h"
#include "branch/watch.h"
#include "kernel/userns.h"

/* Of the namespace in which everything happens; empty for root. */
static struct idmap fixture_map = IDMAP_INIT;

struct fixture {
	char top[256];
	char lower[300], store_dir[300], merged[300], shot[300];
	const char *storage;
	const char *meanwhile; /* shell in the lower, before it is settled */
	bool is_watched;       /* around that */
	bool has_events;       /* from before the sandbox on, read after that */
	enum disposition on_exit;
	struct store *store;
	struct branch *branch;
	char *seen; /* snapshot of what the sandbox saw at its end */
};

/* Snapshots */

struct shot {
	struct buf *out;
	struct {
		ino_t ino;
		char path[512];
	} links[4096];
	size_t n_links;
};

static inline void shoot_xattrs(struct shot *s, const char *path)
{
	char list[4096], *sorted[64];
	ssize_t n = llistxattr(path, list, sizeof(list));
	size_t count = 0;

	for (char *k = list; n > 0 && k < list + n; k += strlen(k) + 1) {
		size_t at = count;

		if (strstr(k, ".overlay."))
			continue;
		assert_true(count < ARRAY_LEN(sorted));
		while (at > 0 && strcmp(sorted[at - 1], k) > 0) {
			sorted[at] = sorted[at - 1];
			at--;
		}
		sorted[at] = k;
		count++;
	}
	for (size_t i = 0; i < count; i++) {
		unsigned char value[4096];
		ssize_t len = lgetxattr(path, sorted[i], value, sizeof(value));

		buf_printf(s->out, " %s=", sorted[i]);
		for (ssize_t k = 0; k < len; k++)
			buf_printf(s->out, "%02x", value[k]);
	}
}

static inline void shoot_content(struct shot *s, const char *path,
				 const struct stat *st)
{
	char text[4096];

	if (S_ISREG(st->st_mode) && st->st_size < (1 << 24)) {
		char *hash = SHA256File(path, NULL);

		buf_printf(s->out, " %jd %s", (intmax_t)st->st_size,
			   hash ? hash : "unreadable");
		free(hash);
	} else if (S_ISREG(st->st_mode)) {
		buf_printf(s->out, " %jd", (intmax_t)st->st_size);
	} else if (S_ISLNK(st->st_mode)) {
		ssize_t n = readlink(path, text, sizeof(text));

		assert_true(n >= 0);
		buf_add_str(s->out, " -> ");
		buf_add(s->out, text, (size_t)n);
	} else if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode)) {
		buf_printf(s->out, " %jx", (uintmax_t)st->st_rdev);
	}
}

static inline void shoot_link(struct shot *s, const char *name,
			      const struct stat *st)
{
	if (S_ISDIR(st->st_mode) || st->st_nlink < 2)
		return;
	for (size_t i = 0; i < s->n_links; i++) {
		if (s->links[i].ino != st->st_ino)
			continue;
		buf_printf(s->out, " link:%s", s->links[i].path);
		return;
	}
	if (s->n_links < ARRAY_LEN(s->links) && strlen(name) < 512) {
		s->links[s->n_links].ino = st->st_ino;
		strcpy(s->links[s->n_links++].path, name);
	}
}

static inline int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline void shoot_dir(struct shot *s, const char *path,
			     const char *name);

static inline void shoot_one(struct shot *s, const char *path, const char *name)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	buf_printf(s->out, "%s: %o %u:%u %jd.%09ld", name[0] ? name : ".",
		   st.st_mode, st.st_uid, st.st_gid,
		   (intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	shoot_content(s, path, &st);
	shoot_xattrs(s, path);
	shoot_link(s, name, &st);
	buf_add_char(s->out, '\n');
	if (S_ISDIR(st.st_mode))
		shoot_dir(s, path, name);
}

/* Recursion is all right here: the trees are our own. */
static inline void shoot_dir(struct shot *s, const char *path, const char *name)
{
	DIR *dir = opendir(path);
	char **names = NULL;
	size_t n = 0;
	struct dirent *d;

	assert_non_null(dir);
	while ((d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		names = reallocarray(names, n + 1, sizeof(*names));
		assert_non_null(names);
		names[n++] = strdup(d->d_name);
	}
	(void)closedir(dir);
	if (n > 0)
		qsort(names, n, sizeof(*names), compare_strings);
	for (size_t i = 0; i < n; i++) {
		char *p, *q;

		assert_true(asprintf(&p, "%s/%s", path, names[i]) > 0);
		assert_true(asprintf(&q, "%s%s%s", name, name[0] ? "/" : "",
				     names[i]) > 0);
		shoot_one(s, p, q);
		free(p);
		free(q);
		free(names[i]);
	}
	free(names);
}

static inline char *snapshot_here(const char *path)
{
	struct buf b = BUF_INIT;
	struct shot *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->out = &b;
	shoot_one(s, path, "");
	free(s);
	return buf_take(&b, NULL);
}

static inline char *read_text(int fd)
{
	struct buf b = BUF_INIT;
	char chunk[4096];
	ssize_t n;

	assert_true(fd >= 0);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		buf_add(&b, chunk, (size_t)n);
	(void)close(fd);
	return buf_take(&b, NULL);
}

/* A child that is root of the user namespace, if there is one. */
static inline pid_t fork_inside(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0 && !idmap_is_empty(&fixture_map) &&
	    userns_enter(&fixture_map, false, NULL) < 0)
		_exit(125);
	return pid;
}

/* The tree as text; the caller frees it. */
static inline char *snapshot(const char *path)
{
	int fds[2], status;
	char *text;
	pid_t pid;

	if (idmap_is_empty(&fixture_map))
		return snapshot_here(path);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork_inside();
	if (pid == 0) {
		text = snapshot_here(path);
		_exit(write(fds[1], text, strlen(text)) !=
		      (ssize_t)strlen(text));
	}
	(void)close(fds[1]);
	text = read_text(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return text;
}

/* Shell */

static inline void shell(const char *dir, const char *script)
{
	pid_t pid = fork_inside();
	int status;

	if (pid == 0) {
		if (chdir(dir) == 0)
			(void)execl("/bin/sh", "sh", "-ec", script, NULL);
		_exit(126);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status)
		print_error("script failed: %s\n", script);
	assert_int_equal(status, 0);
}

/* The fixture */

/* The directory of the fixture that is open: a failing test cannot close it. */
static char fixture_top[256];

static inline void remove_top(void)
{
	char *script;

	if (!fixture_top[0] ||
	    asprintf(&script,
		     "umount '%s/lower' 2>/dev/null || :; "
		     "chattr -R -i -a '%s' 2>/dev/null || :; "
		     "rm -rf '%s' 2>/dev/null || :",
		     fixture_top, fixture_top, fixture_top) < 0)
		return;
	/* A detached child may still be removing what is in it. */
	for (int i = 0; i < 50; i++) {
		shell("/", script);
		if (access(fixture_top, F_OK) < 0)
			break;
		usleep(20000);
	}
	free(script);
	fixture_top[0] = '\0';
}

static inline void fixture_fill(struct fixture *f, const char *script)
{
	if (script)
		shell(f->lower, script);
	shell(f->lower, "find . -exec touch -h -d "
			"'2001-02-03 04:05:06.123456789' {} +");
}

static inline void fixture_open_empty(struct fixture *f)
{
	struct error err = ERROR_INIT;

	static bool at_exit;

	if (!at_exit)
		at_exit = atexit(remove_top) == 0;
	remove_top();
	*f = (struct fixture){ .on_exit = DISPOSE_DEFER };
	strcpy(f->top, "/var/tmp/sandlock-unit.XXXXXX");
	assert_non_null(mkdtemp(f->top));
	strcpy(fixture_top, f->top);
	(void)snprintf(f->lower, sizeof(f->lower), "%s/lower", f->top);
	(void)snprintf(f->store_dir, sizeof(f->store_dir), "%s/store", f->top);
	(void)snprintf(f->merged, sizeof(f->merged), "%s/merged", f->top);
	(void)snprintf(f->shot, sizeof(f->shot), "%s/shot", f->top);
	assert_int_equal(mkdir(f->lower, 0755), 0);
	assert_int_equal(mkdir(f->merged, 0755), 0);
	if (store_open(f->store_dir, NULL, &f->store, &err) < 0)
		fail_msg("%s", err.msg);
}

static inline void fixture_open(struct fixture *f, const char *lower_script)
{
	fixture_open_empty(f);
	fixture_fill(f, lower_script);
}

static inline void fixture_close(struct fixture *f)
{
	branch_close(f->branch);
	store_close(f->store);
	free(f->seen);
	remove_top();
}

typedef void inside_fn(void);

static inline int sandbox_main(struct fixture *f, const char *script,
			       inside_fn *fn)
{
	struct error err = ERROR_INIT;
	int mount_fd, out;
	char *seen;

	if (!idmap_is_empty(&fixture_map)) {
		if (userns_enter(&fixture_map, true, &err) < 0)
			return 1;
		fixture_map = (struct idmap)IDMAP_INIT;
	} else if (unshare(CLONE_NEWNS) < 0 ||
		   mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		return 1;
	}
	if (branch_overlay(f->branch, &mount_fd, &err) < 0) {
		print_error("%s\n", err.msg);
		return 2;
	}
	if (move_mount(mount_fd, "", AT_FDCWD, f->merged,
		       MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return 3;
	(void)close(mount_fd);
	if (script)
		shell(f->merged, script);
	if (fn) {
		if (chdir(f->merged) < 0)
			return 4;
		fn();
		if (chdir("/") < 0)
			return 4;
	}
	seen = snapshot_here(f->merged);
	out = open(f->shot, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (out < 0 || write(out, seen, strlen(seen)) != (ssize_t)strlen(seen))
		return 5;
	return 0;
}

static inline void look_at_all(struct branch_watch *w)
{
	assert_non_null(w);
	branch_watch_scan(w);
	while (branch_watch_read(w))
		;
}

/* Looked at before and after, as when the queue of a watch was full. */
static inline void do_meanwhile(struct fixture *f)
{
	struct branch_watch *w =
		f->is_watched ? branch_watch_open(f->branch) : NULL;

	if (f->is_watched)
		look_at_all(w);
	shell(f->lower, f->meanwhile);
	if (f->is_watched)
		look_at_all(w);
	branch_watch_free(w);
}

/* Makes a branch "b", runs in it, settles it. */
static inline void fixture_run(struct fixture *f, const char *script,
			       inside_fn *fn)
{
	const struct branch_options o = {
		.name = "b",
		.lower = f->lower,
		.storage = f->storage,
		.on_exit = f->on_exit,
		.on_error = DISPOSE_DEFER,
		.idmap = fixture_map,
	};
	const struct exit_status ok = { .kind = EXIT_CODE, .value = 0 };
	auto_ptr(branch_watch_free) struct branch_watch *w = NULL;
	struct branch_settled settled;
	struct error err = ERROR_INIT;
	int status;
	pid_t pid;

	if (branch_create(f->store, &o, &f->branch, &err) < 0)
		fail_msg("%s", err.msg);
	if (f->has_events) {
		w = branch_watch_open(f->branch);
		look_at_all(w);
	}
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(sandbox_main(f, script, fn));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	f->seen = read_text(open(f->shot, O_RDONLY | O_CLOEXEC));
	if (f->meanwhile)
		do_meanwhile(f);
	while (w && branch_watch_read(w))
		;
	if (branch_settle(f->branch, &ok, true, &settled, &err) < 0)
		fail_msg("%s", err.msg);
	if (settled.gone) {
		branch_close(f->branch);
		f->branch = NULL;
	}
}

/* Diffs as lines */

static inline int add_line(void *data, const struct change *c)
{
	struct buf *b = data;
	mode_t mode = c->after.mode ? c->after.mode : c->before.mode;

	buf_printf(b, "%c %s%s", change_letter(c->kind), c->path,
		   S_ISDIR(mode) ? "/" : "");
	if (c->kind == CHANGE_TYPE && S_ISDIR(c->before.mode) && !S_ISDIR(mode))
		buf_add_char(b, '/');
	if (c->after.link_target)
		buf_printf(b, " -> %s", c->after.link_target);
	if (c->flags & CHANGE_LINK)
		buf_printf(b, " (link to %s)", c->link_to);
	if (c->flags & CHANGE_LINK_BROKEN)
		buf_add_str(b, " (link broken)");
	if (c->flags & CHANGE_SETID)
		buf_add_str(b, " (setid)");
	if (c->flags & CHANGE_SPECIAL)
		buf_add_str(b, " (special)");
	if (c->flags & CHANGE_CONTENT_SAME)
		buf_add_str(b, " (same)");
	if (c->flags & CHANGE_MTIME_ONLY)
		buf_add_str(b, " (mtime)");
	if (c->flags & CHANGE_IMPLIED)
		buf_add_str(b, " (implied)");
	if (c->flags & CHANGE_ABSENT)
		buf_add_str(b, " (absent)");
	if (c->xattrs && c->kind == CHANGE_META)
		buf_printf(b, " %s", c->xattrs);
	if (c->flags & CHANGE_CONFLICT)
		buf_printf(b, " CONFLICT %s", c->conflict);
	buf_add_char(b, '\n');
	return 0;
}

static inline char *diff_lines(struct fixture *f, unsigned int want)
{
	struct error err = ERROR_INIT;
	struct buf b = BUF_INIT;

	if (!f->branch)
		return strdup("");
	if (branch_changes(f->branch, want, NULL, 0, add_line, &b, &err) != 0)
		fail_msg("%s", err.msg);
	return buf_take(&b, NULL);
}

static inline void assert_diff(struct fixture *f, unsigned int want,
			       const char *expected)
{
	char *got = diff_lines(f, want);

	assert_string_equal(got, expected);
	free(got);
}

#endif
