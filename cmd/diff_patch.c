#include "diff.h"

#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/path.h"

enum { PIECE_MAX = 64 * 1024 };

/* One change as a patch: a side's fd is -1 where there is nothing. */
struct patch {
	struct diff *d;
	const struct sandlock_change *c;
	int before_fd, after_fd;
	struct buf a, b; /* "a/path", "b/path", quoted, or "/dev/null" */
};

static int out_of_memory(struct diff *d)
{
	return cmd_error(d->err, SANDLOCK_ERR_SYSTEM, ENOMEM, "out of memory");
}

/* Of several workdirs relative to "/": patch -p1 -d / takes it. */
static void add_side_name(struct buf *b, const char *side,
			  const struct sandlock_change *c)
{
	auto_(buf) struct buf path = BUF_INIT, whole = BUF_INIT;

	change_path(&path, c);
	buf_printf(&whole, "%s%s", side, buf_str(&path) + (c->root ? 1 : 0));
	path_quote(b, buf_str(&whole), whole.len);
}

static bool has_content(mode_t mode)
{
	return S_ISREG(mode) || S_ISLNK(mode);
}

/* git's patches hold the target of a symbolic link as its contents. */
static int open_side(struct diff *d, const struct sandlock_change *c,
		     bool after, int *ret_fd)
{
	const struct sandlock_side *s = after ? &c->after : &c->before;
	const char *target = s->link_target ? s->link_target : "";
	auto_(buf) struct buf path = BUF_INIT;
	auto_close int fd = -1;

	if (!has_content(s->mode))
		return 0;
	change_path(&path, c);
	if (buf_failed(&path))
		return out_of_memory(d);
	if (S_ISREG(s->mode))
		return sandlock_open_content(&d->ctx->env, d->name,
					     buf_str(&path), after, ret_fd,
					     d->err);
	fd = memfd_create("target", MFD_CLOEXEC);
	if (fd < 0 || fd_write_full(fd, target, strlen(target)) < 0 ||
	    lseek(fd, 0, SEEK_SET) < 0)
		return cmd_error(d->err, SANDLOCK_ERR_SYSTEM, errno,
				 "cannot hold the target of '%s'", c->path);
	*ret_fd = take_fd(&fd);
	return 0;
}

/* git knows one mode for symbolic links. */
static mode_t git_mode(mode_t mode)
{
	return S_ISLNK(mode) ? S_IFLNK : mode;
}

static void print_header(const struct patch *p)
{
	auto_(buf) struct buf a = BUF_INIT, b = BUF_INIT;
	mode_t was = p->before_fd >= 0 ? git_mode(p->c->before.mode) : 0;
	mode_t is = p->after_fd >= 0 ? git_mode(p->c->after.mode) : 0;

	add_side_name(&a, "a/", p->c);
	add_side_name(&b, "b/", p->c);
	printf("diff --git %s %s\n", buf_str(&a), buf_str(&b));
	if (!was)
		printf("new file mode %06o\n", is);
	else if (!is)
		printf("deleted file mode %06o\n", was);
	else if (was != is)
		printf("old mode %06o\nnew mode %06o\n", was, is);
}

/* As diff(1) and git decide: a NUL near the beginning. */
static int looks_binary(int fd)
{
	char head[8000];
	ssize_t n = pread(fd, head, sizeof(head), 0);

	return n > 0 && memchr(head, 0, n);
}

static uint64_t count_lines(FILE *f)
{
	uint64_t n = 0;
	int ch, last = '\n';

	while ((ch = getc_unlocked(f)) != EOF) {
		n += ch == '\n';
		last = ch;
	}
	return n + (last != '\n');
}

/*
 * What a sandbox wrote, in front of somebody who decides about it: nothing in
 * it is invisible, in no colour but ours, and none of it moves the cursor.
 */
static void print_legible(const char *s, size_t n)
{
	auto_(buf) struct buf b = BUF_INIT;

	while (n > 0) {
		const char *tab = memchr(s, '\t', n);
		size_t len = tab ? (size_t)(tab - s) : n;

		text_escape(&b, s, len);
		if (tab)
			buf_add_char(&b, '\t');
		len += !!tab;
		s += len;
		n -= len;
	}
	(void)fwrite(buf_str(&b), 1, b.len, stdout);
}

static const char *colour_of(char sign, bool is_label)
{
	if (is_label)
		return "\033[1m";
	switch (sign) {
	case '+':
		return "\033[32m";
	case '-':
		return "\033[31m";
	case '@':
		return "\033[36m";
	default:
		return NULL;
	}
}

/* What is left of a line, or a piece of a long one; -1 at the end. */
static int read_piece(FILE *f, char piece[PIECE_MAX], bool *ret_ends)
{
	int n = 0, ch = 0;

	while (n < PIECE_MAX && (ch = getc_unlocked(f)) != EOF && ch != '\n')
		piece[n++] = (char)ch;
	*ret_ends = n < PIECE_MAX && ch == '\n';
	return n == 0 && ch == EOF ? -1 : n;
}

/*
 * All lines of @f with @sign in front, of a file that came or went as a whole;
 * or those of diff(1), which have their signs, with two labels first. True if
 * the last one has its end.
 */
static bool print_lines(const struct patch *p, FILE *f, char sign)
{
	char piece[PIECE_MAX];
	bool is_begin = true;
	int n, labels = sign ? 0 : 2;

	for (bool ends; (n = read_piece(f, piece, &ends)) >= 0;) {
		const char *colour =
			is_begin ? colour_of(sign ? sign : piece[0], labels > 0)
				 : NULL;

		if (colour && p->d->colour && (sign || n))
			(void)fputs(colour, stdout);
		if (is_begin && sign)
			(void)putchar_unlocked(sign);
		if (p->d->shown)
			print_legible(piece, (size_t)n);
		else
			(void)fwrite(piece, 1, (size_t)n, stdout);
		is_begin = ends;
		if (!ends)
			continue;
		labels -= labels > 0;
		(void)fputs(p->d->colour ? "\033[m\n" : "\n", stdout);
	}
	return is_begin;
}

static int print_whole(struct patch *p)
{
	bool added = p->before_fd < 0;
	int *fd = added ? &p->after_fd : &p->before_fd;
	bool binary = looks_binary(*fd);
	auto_file FILE *f = fdopen(*fd, "r");
	uint64_t n;

	if (!f)
		return out_of_memory(p->d);
	(void)take_fd(fd);
	n = binary ? 0 : count_lines(f);
	if (binary)
		printf("Binary files %s and %s differ\n", buf_str(&p->a),
		       buf_str(&p->b));
	if (!n)
		return 0;
	printf("--- %s\n+++ %s\n", buf_str(&p->a), buf_str(&p->b));
	if (added)
		printf("@@ -0,0 +1");
	else
		printf("@@ -1");
	if (n > 1)
		printf(",%llu", (unsigned long long)n);
	printf(added ? " @@\n" : " +0,0 @@\n");
	rewind(f);
	if (!print_lines(p, f, added ? '+' : '-'))
		printf("%s\n\\ No newline at end of file\n",
		       p->d->colour ? "\033[m" : "");
	return 0;
}

/* diff(1) finds the hunks; its labels are our names, its words English. */
static int print_hunks(const struct patch *p)
{
	static const char *const env[] = { "LC_ALL=C", NULL };
	char before[FD_PATH_MAX], after[FD_PATH_MAX];
	const char *argv[] = { "diff",
			       "-u",
			       "--color=never",
			       "--label",
			       buf_str(&p->a),
			       "--label",
			       buf_str(&p->b),
			       fd_proc_path(p->before_fd, before),
			       fd_proc_path(p->after_fd, after),
			       NULL };
	posix_spawn_file_actions_t actions;
	auto_close int read_fd = -1, write_fd = -1;
	auto_file FILE *f = NULL;
	int fds[2], r, status = 0;
	pid_t pid = -1;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return out_of_memory(p->d);
	read_fd = fds[0];
	write_fd = fds[1];
	r = posix_spawn_file_actions_init(&actions);
	if (!r) {
		/* Onto themselves: that makes them survive the exec. */
		r = posix_spawn_file_actions_adddup2(&actions, p->before_fd,
						     p->before_fd);
		if (!r)
			r = posix_spawn_file_actions_adddup2(
				&actions, p->after_fd, p->after_fd);
		if (!r)
			r = posix_spawn_file_actions_adddup2(&actions, write_fd,
							     STDOUT_FILENO);
		if (!r)
			r = posix_spawnp(&pid, "diff", &actions, NULL,
					 (char **)argv, (char **)env);
		(void)posix_spawn_file_actions_destroy(&actions);
	}
	if (r) {
		(void)cmd_error(p->d->err, SANDLOCK_ERR_SYSTEM, r,
				"cannot run 'diff'");
		return cmd_hint(p->d->err, "install diffutils");
	}
	cleanup_close(&write_fd);
	write_fd = -1;
	f = fdopen(read_fd, "r");
	if (f) {
		(void)take_fd(&read_fd);
		(void)print_lines(p, f, 0);
	} else {
		cleanup_close(&read_fd);
		read_fd = -1;
	}
	if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || !f ||
	    WEXITSTATUS(status) > 1)
		return cmd_error(p->d->err, SANDLOCK_ERR_SYSTEM, 0,
				 "'diff' failed on '%s'", p->c->path);
	return 0;
}

static int print_patch(struct patch *p)
{
	if (p->before_fd >= 0)
		add_side_name(&p->a, "a/", p->c);
	else
		buf_add_str(&p->a, "/dev/null");
	if (p->after_fd >= 0)
		add_side_name(&p->b, "b/", p->c);
	else
		buf_add_str(&p->b, "/dev/null");
	if (buf_failed(&p->a) || buf_failed(&p->b))
		return out_of_memory(p->d);
	print_header(p);
	if (p->before_fd < 0 || p->after_fd < 0)
		return print_whole(p);
	if (p->c->letter == 'm')
		return 0;
	return print_hunks(p);
}

static int patch_one(struct diff *d, const struct sandlock_change *c,
		     bool before, bool after)
{
	struct patch p = { .d = d, .c = c, .before_fd = -1, .after_fd = -1 };
	int r = 0;

	if (before)
		r = open_side(d, c, false, &p.before_fd);
	if (!r && after)
		r = open_side(d, c, true, &p.after_fd);
	if (!r && (p.before_fd >= 0 || p.after_fd >= 0))
		r = print_patch(&p);
	cleanup_close(&p.before_fd);
	cleanup_close(&p.after_fd);
	buf_done(&p.a);
	buf_done(&p.b);
	return r;
}

/*
 * What a patch cannot say (directories, devices, owners) is a comment line,
 * which patch(1) and git skip.
 */
int diff_patch(void *data, const struct sandlock_change *c)
{
	auto_(buf) struct buf line = BUF_INIT;
	bool before = has_content(c->before.mode);
	bool after = has_content(c->after.mode);
	bool is_silent = c->letter == 'm' && c->before.mode == c->after.mode;
	struct diff *d = data;
	int r;

	d->n_changes++;
	if (is_silent || (!before && !after)) {
		buf_add_str(&line, "# ");
		diff_line(&line, c, false);
		if (buf_failed(&line))
			return out_of_memory(d);
		printf("%s\n", line.data);
		return 0;
	}
	/* Another type is a deletion and an addition, as in git. */
	if (c->letter != 'T')
		return patch_one(d, c, before, after);
	r = patch_one(d, c, before, false);
	return r < 0 ? r : patch_one(d, c, false, after);
}
